// Functions of the stand-in's driver on streams, memory and kernels, and those of NVRTC: the second
// half of standin.cpp.
#pragma once

// ---- streams and events

EXPORT Status cuStreamCreate(Stream* stream, unsigned flags) {
  IN_CONTEXT(cuStreamCreate);
  if (stream == nullptr || flags > kNonBlocking) return kInvalidValue;
  *stream = make_live(new StreamTag(g_current));
  const std::lock_guard lock(driver().mutex);
  g_current->streams.push_back(*stream);
  return kSuccess;
}

EXPORT Status cuStreamSynchronize(Stream stream) {
  IN_CONTEXT(cuStreamSynchronize);
  RETURN_IF_FAILED(check_stream(stream));
  stream->wait();
  return stream->context->error;
}

static double milliseconds_now() {
  using Milliseconds = std::chrono::duration<double, std::milli>;
  return Milliseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

EXPORT Status cuEventCreate(Event* event, unsigned flags) {
  IN_CONTEXT(cuEventCreate);
  if (event == nullptr || flags > 7) return kInvalidValue;
  *event = make_live(new EventTag{g_current});
  (*event)->has_times = (flags & kWithoutTimes) == 0;
  return kSuccess;
}

// Streams that wait for it wait for the place that it had.
EXPORT Status cuEventDestroy_v2(Event event) {
  IN_CONTEXT(cuEventDestroy);
  const std::lock_guard lock(driver().mutex);
  if (driver().handles.erase(event) == 0) return kInvalidHandle;
  delete event;
  return kSuccess;
}

EXPORT Status cuEventRecord(Event event, Stream stream) {
  IN_CONTEXT(cuEventRecord);
  RETURN_IF_FAILED(check_handle(event));
  RETURN_IF_FAILED(check_stream(stream));
  if (event->context != stream->context) return kInvalidHandle;
  const auto time = std::make_shared<std::atomic<double>>(0);
  const uint64_t ticket = event->has_times ? stream->push([time] { *time = milliseconds_now(); })
                                           : stream->last_ticket();
  const std::lock_guard lock(driver().mutex);
  event->stream = stream;
  event->ticket = ticket;
  event->time = time;
  return kSuccess;
}

static EventTag read_event(Event event) {
  const std::lock_guard lock(driver().mutex);
  return *event;
}

EXPORT Status cuEventQuery(Event event) {
  IN_CONTEXT(cuEventQuery);
  RETURN_IF_FAILED(check_handle(event));
  const EventTag at = read_event(event);
  if (at.stream && !at.stream->is_done(at.ticket)) return kNotReady;
  return at.context->error;
}

EXPORT Status cuEventSynchronize(Event event) {
  IN_CONTEXT(cuEventSynchronize);
  RETURN_IF_FAILED(check_handle(event));
  const EventTag at = read_event(event);
  if (at.stream) at.stream->wait(at.ticket);
  return at.context->error;
}

EXPORT Status cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  IN_CONTEXT(cuStreamWaitEvent);
  RETURN_IF_FAILED(check_stream(stream));
  RETURN_IF_FAILED(check_handle(event));
  if (flags != 0) return kInvalidValue;
  const EventTag at = read_event(event);
  if (at.stream) stream->push([at] { at.stream->wait(at.ticket); });
  return kSuccess;
}

// ---- memory

EXPORT Status cuMemAlloc_v2(Address* address, size_t bytes) {
  IN_CONTEXT(cuMemAlloc);
  if (address == nullptr || bytes == 0) return kInvalidValue;
  ContextTag* const context = g_current;
  {
    const std::lock_guard lock(driver().mutex);
    if (bytes > total_memory() - context->allocated) return kOutOfMemory;
    context->allocated += bytes;
  }
  auto memory = std::make_shared<Memory>(context, bytes);
  const std::lock_guard lock(driver().mutex);
  if (!memory->is_valid()) {
    context->allocated -= bytes;
    return kOutOfMemory;
  }
  *address = reinterpret_cast<Address>(memory->host()) ^ kTag;
  driver().memory.emplace(*address, std::move(memory));
  return kSuccess;
}

EXPORT Status cuMemFree_v2(Address address) {
  IN_CONTEXT(cuMemFree);
  std::shared_ptr<Memory> memory;
  {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().memory.find(address);
    if (found == driver().memory.end()) return kInvalidValue;
    memory = found->second;
  }
  wait_for_streams(memory->context);  // as CUDA's does
  RETURN_IF_FAILED(memory->context->error);
  {
    const std::lock_guard lock(driver().mutex);
    if (driver().memory.erase(address) == 0) return kInvalidValue;  // freed at the same time
    memory->context->allocated -= memory->bytes;
  }
  if (!memory->has_whole_margins()) {
    fprintf(stderr, "stand-in: a kernel wrote outside an allocation of %zu bytes\n", memory->bytes);
    return memory->context->error = kIllegalAddress;
  }
  memset(memory->host(), Memory::kFreed, memory->bytes);
  return kSuccess;
}

EXPORT Status cuMemHostAlloc(void** host, size_t bytes, unsigned flags) {
  IN_CONTEXT(cuMemHostAlloc);
  if (host == nullptr || bytes == 0 || flags > 7) return kInvalidValue;
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return kOutOfMemory;
  memset(mapped, Memory::kNew, bytes);
  const std::lock_guard lock(driver().mutex);
  driver().pinned.emplace(static_cast<const char*>(mapped), bytes);
  *host = mapped;
  return kSuccess;
}

EXPORT Status cuMemFreeHost(void* host) {
  IN_CONTEXT(cuMemFreeHost);
  size_t bytes = 0;
  {
    const std::lock_guard lock(driver().mutex);
    const auto found = driver().pinned.find(static_cast<const char*>(host));
    if (found == driver().pinned.end()) return kInvalidValue;
    bytes = found->second;
    driver().pinned.erase(found);
  }
  for (ContextTag* const context : driver().contexts) wait_for_streams(context);
  munmap(host, bytes);
  return kSuccess;
}

EXPORT Status cuPointerGetAttribute(void* value, int attribute, Address address) {
  IN_CONTEXT(cuPointerGetAttribute);
  if (value == nullptr || attribute != kDeviceOrdinal) return kInvalidValue;
  for (ContextTag* const context : driver().contexts)
    if (find_memory(address, 1, context) != nullptr)
      return memcpy(value, &context->device, sizeof context->device), kSuccess;
  return kInvalidValue;
}

EXPORT Status cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, Stream stream) {
  IN_CONTEXT(cuMemcpyHtoDAsync);
  RETURN_IF_FAILED(check_stream(stream));
  if (bytes == 0) return kSuccess;
  const std::shared_ptr<Memory> memory = find_memory(to, bytes, g_current);
  if (memory == nullptr || from == nullptr) return kInvalidValue;
  if (is_pinned(from, bytes)) {  // read by the worker
    push_copy(stream, host_address(to), from, bytes, {memory});
    return kSuccess;
  }
  const char* const begin = static_cast<const char*>(from);
  const auto copied = std::make_shared<std::vector<char>>(begin, begin + bytes);
  push_copy(stream, host_address(to), copied->data(), bytes, {memory, copied});
  return kSuccess;
}

EXPORT Status cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, Stream stream) {
  IN_CONTEXT(cuMemcpyDtoHAsync);
  RETURN_IF_FAILED(check_stream(stream));
  if (bytes == 0) return kSuccess;
  const std::shared_ptr<Memory> memory = find_memory(from, bytes, g_current);
  if (memory == nullptr || to == nullptr) return kInvalidValue;
  push_copy(stream, to, host_address(from), bytes, {memory});
  if (is_pinned(to, bytes)) return kSuccess;
  stream->wait();
  return g_current->error;
}

EXPORT Status cuMemcpyPeerAsync(Address to, Context to_context, Address from, Context from_context,
                                size_t bytes, Stream stream) {
  IN_CONTEXT(cuMemcpyPeerAsync);
  RETURN_IF_FAILED(check_stream(stream));
  if (!is_context(to_context) || !is_context(from_context)) return kInvalidContext;
  if (bytes == 0) return kSuccess;
  const std::shared_ptr<Memory> target = find_memory(to, bytes, to_context);
  const std::shared_ptr<Memory> source = find_memory(from, bytes, from_context);
  if (target == nullptr || source == nullptr) return kInvalidValue;
  push_copy(stream, host_address(to), host_address(from), bytes, {target, source});
  return kSuccess;
}

EXPORT Status cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, Stream stream) {
  IN_CONTEXT(cuMemcpyDtoDAsync);
  RETURN_IF_FAILED(check_stream(stream));
  if (bytes == 0) return kSuccess;
  const std::shared_ptr<Memory> target = find_memory(to, bytes, g_current);
  const std::shared_ptr<Memory> source = find_memory(from, bytes, g_current);
  if (target == nullptr || source == nullptr) return kInvalidValue;
  push_copy(stream, host_address(to), host_address(from), bytes, {target, source});
  return kSuccess;
}

EXPORT Status cuMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  IN_CONTEXT(cuMemsetD8Async);
  RETURN_IF_FAILED(check_stream(stream));
  if (bytes == 0) return kSuccess;
  const std::shared_ptr<Memory> memory = find_memory(to, bytes, g_current);
  if (memory == nullptr) return kInvalidValue;
  stream->push([=, memory = memory] { memset(host_address(to), value, bytes); });
  return kSuccess;
}

// ---- modules and kernels

EXPORT Status cuModuleLoadData(Module* module, const void* image) {
  IN_CONTEXT(cuModuleLoadData);
  if (module == nullptr || image == nullptr) return kInvalidValue;
  if (!is_image(image, capability())) return kInvalidImage;
  ImageHeader header;
  memcpy(&header, image, sizeof header);
  // A file of a new name: dlopen gives the old library for the name of one that is still open, as
  // /proc/self/fd/N of a memfd would be.
  TemporaryFolder folder;
  const std::string path = folder.file("kernel.so");
  if (!folder.is_made() ||
      !write_file(path, static_cast<const char*>(image) + sizeof header, header.bytes))
    return kOutOfMemory;
  void* const opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    fprintf(stderr, "stand-in: %s\n", dlerror());
    return kInvalidImage;
  }
  const auto described = static_cast<const StandinModule*>(dlsym(opened, "standin_module"));
  const auto library = std::make_shared<Library>(opened, described);
  if (described == nullptr) return kInvalidImage;
  const size_t limit = kSharedBytes - std::min(kSharedBytes, library->shared_bytes());
  auto* const made = new ModuleTag{g_current, library, {}};
  for (unsigned i = 0; i < described->kernel_count; ++i) {
    const StandinKernel* const kernel = &described->kernels[i];
    const auto entry =
        made->functions.emplace(kernel->name, FunctionTag{g_current, library, kernel, limit});
    make_live(&entry.first->second);
  }
  *module = make_live(made);
  return kSuccess;
}

EXPORT Status cuModuleUnload(Module module) {
  IN_CONTEXT(cuModuleUnload);
  RETURN_IF_FAILED(check_handle(module));
  {
    const std::lock_guard lock(driver().mutex);
    for (const auto& entry : module->functions) driver().handles.erase(&entry.second);
    driver().handles.erase(module);
  }
  delete module;
  return kSuccess;
}

EXPORT Status cuModuleGetFunction(Function* function, Module module, const char* name) {
  IN_CONTEXT(cuModuleGetFunction);
  RETURN_IF_FAILED(check_handle(module));
  if (function == nullptr || name == nullptr) return kInvalidValue;
  const auto found = module->functions.find(name);
  if (found == module->functions.end()) return kNotFound;
  *function = &found->second;
  return kSuccess;
}

EXPORT Status cuFuncSetAttribute(Function function, int attribute, int value) {
  IN_CONTEXT(cuFuncSetAttribute);
  RETURN_IF_FAILED(check_handle(function));
  const auto bytes = static_cast<size_t>(value);
  if (attribute != kDynamicShared || value < 0 ||
      bytes + function->library->shared_bytes() > shared_limit())
    return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  function->dynamic_limit = bytes;
  return kSuccess;
}

static size_t dynamic_limit(Function function) {
  const std::lock_guard lock(driver().mutex);
  return function->dynamic_limit;
}

// Whether a kernel of the current context may be launched so.
static Status check_launch(Function function, StandinDim grid, StandinDim block,
                           unsigned shared_bytes, void** parameters, void** extra) {
  RETURN_IF_FAILED(check_handle(function));
  if (function->context != g_current) return kInvalidHandle;
  if (extra != nullptr) return kNotSupported;
  if (function->kernel->argument_count != 0 && parameters == nullptr) return kInvalidValue;
  if (!is_between(grid.x, 1, 0x7fffffff) || !is_between(grid.y, 1, 65535) ||
      !is_between(grid.z, 1, 65535) || !is_between(block.x, 1, 1024) ||
      !is_between(block.y, 1, 1024) || !is_between(block.z, 1, 64) ||
      block.x * block.y * block.z > 1024)
    return kInvalidValue;
  if (shared_bytes > dynamic_limit(function) || function->library->shared_bytes() > kSharedBytes)
    return kInvalidValue;
  return kSuccess;
}

static void push_launch(Stream stream, Function function, StandinDim grid, StandinDim block,
                        unsigned shared_bytes, void** parameters) {
  const auto launch = std::make_shared<Launch>(Launch{function->library,
                                                      function->kernel,
                                                      function->context,
                                                      grid,
                                                      block,
                                                      shared_bytes,
                                                      g_fail_async.exchange(kSuccess),
                                                      {},
                                                      {}});
  launch->copy_arguments(parameters);
  stream->push([launch] {
    const Status status = launch->run();
    if (status != kSuccess) launch->context->error = status;
  });
}

EXPORT Status cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                             unsigned block_x, unsigned block_y, unsigned block_z,
                             unsigned shared_bytes, Stream stream, void** parameters,
                             void** extra) {
  IN_CONTEXT(cuLaunchKernel);
  RETURN_IF_FAILED(check_stream(stream));
  const StandinDim grid{grid_x, grid_y, grid_z}, block{block_x, block_y, block_z};
  RETURN_IF_FAILED(check_launch(function, grid, block, shared_bytes, parameters, extra));
  push_launch(stream, function, grid, block, shared_bytes, parameters);
  return kSuccess;
}

// ---- NVRTC

EXPORT CompilerStatus nvrtcVersion(int* major, int* minor) {
  COUNTED(nvrtcVersion);
  if (major == nullptr || minor == nullptr) return kInvalidInput;
  *major = 12;
  *minor = 9;
  return kSuccess;
}

EXPORT CompilerStatus nvrtcGetNumSupportedArchs(int* count) {
  COUNTED(nvrtcGetNumSupportedArchs);
  if (count == nullptr) return kInvalidInput;
  *count = static_cast<int>(std::size(kArchitectures));
  return kSuccess;
}

EXPORT CompilerStatus nvrtcGetSupportedArchs(int* architectures) {
  COUNTED(nvrtcGetSupportedArchs);
  if (architectures == nullptr) return kInvalidInput;
  std::copy(std::begin(kArchitectures), std::end(kArchitectures), architectures);
  return kSuccess;
}

EXPORT CompilerStatus nvrtcCreateProgram(Program* program, const char* source, const char* name,
                                         int headers, const char* const*, const char* const*) {
  COUNTED(nvrtcCreateProgram);
  if (program == nullptr || source == nullptr || headers != 0) return kInvalidInput;
  *program = new ProgramTag{source, name ? name : "kernel.cu", {}, {}, {}};
  return kSuccess;
}

EXPORT CompilerStatus nvrtcDestroyProgram(Program* program) {
  COUNTED(nvrtcDestroyProgram);
  if (program == nullptr || *program == nullptr) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kSuccess;
}

EXPORT CompilerStatus nvrtcCompileProgram(Program program, int count, const char* const* options) {
  COUNTED(nvrtcCompileProgram);
  return program == nullptr ? kInvalidProgram : compile(*program, count, options);
}

// The log, with its end; a cubin or PTX, whose size is 0 where there is none.
EXPORT CompilerStatus nvrtcGetProgramLogSize(Program program, size_t* bytes) {
  COUNTED(nvrtcGetProgramLogSize);
  if (program == nullptr || bytes == nullptr) return kInvalidInput;
  *bytes = program->log.size() + 1;
  return kSuccess;
}

EXPORT CompilerStatus nvrtcGetProgramLog(Program program, char* log) {
  COUNTED(nvrtcGetProgramLog);
  if (program == nullptr || log == nullptr) return kInvalidInput;
  memcpy(log, program->log.c_str(), program->log.size() + 1);
  return kSuccess;
}

#define IMAGE_CALLS(name, member)                                                    \
  EXPORT CompilerStatus name##Size(Program program, size_t* bytes) {                 \
    COUNTED(name##Size);                                                             \
    if (program == nullptr || bytes == nullptr) return kInvalidInput;                \
    if (program->ptx.empty()) return kInvalidProgram; /* it has not been compiled */ \
    *bytes = program->member.size();                                                 \
    return kSuccess;                                                                 \
  }                                                                                  \
  EXPORT CompilerStatus name(Program program, char* image) {                         \
    COUNTED(name);                                                                   \
    if (program == nullptr || image == nullptr) return kInvalidInput;                \
    if (program->member.empty()) return kInvalidProgram;                             \
    memcpy(image, program->member.data(), program->member.size());                   \
    return kSuccess;                                                                 \
  }
IMAGE_CALLS(nvrtcGetCUBIN, cubin)
IMAGE_CALLS(nvrtcGetPTX, ptx)

EXPORT const char* nvrtcGetErrorString(CompilerStatus status) {
  static const char* const kTexts[] = {
      "NVRTC_SUCCESS",
      "NVRTC_ERROR_OUT_OF_MEMORY",
      "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
      "NVRTC_ERROR_INVALID_INPUT",
      "NVRTC_ERROR_INVALID_PROGRAM",
      "NVRTC_ERROR_INVALID_OPTION",
      "NVRTC_ERROR_COMPILATION",
      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
  };
  const bool known = status >= 0 && static_cast<size_t>(status) < std::size(kTexts);
  return known ? kTexts[status] : "NVRTC_ERROR unknown";
}
