#include "webgpu/webgpu_driver.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "core/base/backend_error.h"
#include "core/base/fork.h"
#include "core/base/parallel.h"
#include "core/memory/device_cache.h"

namespace tinyt::webgpu {

namespace {

constexpr size_t kWordsBytes = 1 << 18;   // of the launches that wait
constexpr size_t kWordsWindow = 1 << 10;  // that a launch may have
constexpr size_t kWordsAlignment = 256;   // at most what an adapter asks for
constexpr size_t kReadBytes = 4 << 20;    // that the host reads at once
constexpr size_t kMostPlace = (size_t{1} << 31) - 4;
// One element a thread: neighbours read neighbouring ones at once.
constexpr int64_t kManyThreads = int64_t{1} << 40;

// Bytes from one place to another one, each word of the target by one thread.
constexpr const char* kMoveSource = R"(
@group(0) @binding(0) var<storage, read> m0: array<u32>;
fn a0(i: i32) -> u32 { return m0[i]; }
@group(0) @binding(1) var<storage, read_write> m1: array<u32>;
fn a1(i: i32) -> u32 { return m1[i]; }
fn a1_set(i: i32, x: u32) { m1[i] = x; }
@group(1) @binding(0) var<uniform> p: array<vec4<i32>, 1>;
@compute @workgroup_size(64)
fn tt_move(@builtin(global_invocation_id) number: vec3<u32>,
           @builtin(num_workgroups) groups: vec3<u32>) {
  let first = p[0][1];
  let end = first + p[0][2];
  let at = (first >> 2u) + i32(number.y * (groups.x * 64u) + number.x);
  if (4 * at >= end) {
    return;
  }
  var word = a1(at);
  for (var k: i32 = 0; k < 4; k += 1) {
    let place = 4 * at + k;
    if (place >= first && place < end) {
      let source = place - first + p[0][0];
      let byte = (a0(source >> 2u) >> (8u * u32(source & 3))) & 0xffu;
      word = (word & ~(0xffu << (8u * u32(k)))) | (byte << (8u * u32(k)));
    }
  }
  a1_set(at, word);
}
)";

// The rest of a square, which is 0 where a fused multiply-add rounds the product.
// llvmpipe ends the loops of a thread, all together, after 65,535 turns.
constexpr int32_t kProbedTurns = 100'000;
constexpr const char* kProbeSource = R"(
@group(0) @binding(0) var<storage, read_write> m0: array<u32>;
fn a0(i: i32) -> u32 { return m0[i]; }
fn a0_set(i: i32, x: u32) { m0[i] = x; }
@group(1) @binding(0) var<uniform> p: array<vec4<i32>, 1>;
@compute @workgroup_size(64)
fn tt_probe(@builtin(global_invocation_id) number: vec3<u32>) {
  if (number.x != 0u) {
    return;
  }
  let x = bitcast<f32>(p[0][0]);
  let square = bitcast<f32>(bitcast<u32>(x * x) ^ number.z);
  a0_set(0, bitcast<u32>(fma(x, x, -square)));
  for (var turn = 0; turn < p[0][1]; turn += 1) { a0_set(1, u32(turn + 1)); }
}
)";

BufferHandle memory_of(const Buffer& buffer) { return static_cast<BufferHandle>(buffer.handle); }

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

// A handle that is released at the end of a scope.
template <class T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, void (*)(T)>;

// wgpu-native 29 reports most errors of memory and of a lost device as wrong arguments: their text
// tells them apart.
ErrorKind kind_of_error(uint32_t type, std::string_view text) {
  const auto says = [&](std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  if (type == kErrorMemory || says("Not enough memory left")) return ErrorKind::OutOfMemory;
  return says("device is lost") ? ErrorKind::Device : ErrorKind::Runtime;
}

// TINYT_WEBGPU_LIMITS=buffers,groups,bytes,kernels: as of an adapter that binds no more buffers,
// starts no more groups along a dimension and has no larger buffers; and so many kernels are kept.
template <class... Numbers>
void reduce_limits(Numbers&... limits) {
  const char* text = std::getenv("TINYT_WEBGPU_LIMITS");
  const auto reduce = [&]<class T>(T& limit) {
    if (text == nullptr || *text == '\0') return;
    char* end = nullptr;
    limit = static_cast<T>(std::min<uint64_t>(limit, std::strtoull(text, &end, 10)));
    text = *end == ',' ? end + 1 : end;
  };
  (reduce(limits), ...);
}

// TINYT_WEBGPU_AS_GPU: an adapter that is a CPU gets the kernels of GPUs, too. To it the memory
// that threads share is memory as any other.
bool shares_memory(bool is_cpu) { return !is_cpu || std::getenv("TINYT_WEBGPU_AS_GPU") != nullptr; }

// TINYT_WEBGPU_INT64=0: as of an adapter without 64-bit integers.
bool may_have_int64() {
  const char* text = std::getenv("TINYT_WEBGPU_INT64");
  return text == nullptr || std::string_view(text) != "0";
}

}  // namespace

// ---- devices

WebGpuDriver::WebGpuDriver(const Api& api) : api_(api), forks_(fork_count()) {
  const InstanceExtras extras;
  InstanceDescriptor descriptor;
  descriptor.next = &extras.chain;
  const Instance instance = api_.wgpuCreateInstance(&descriptor);
  require(instance != nullptr, ErrorKind::Device, "device: WebGPU's library does not start");
  const EnumerateOptions options;
  std::vector<Adapter> adapters(api_.wgpuInstanceEnumerateAdapters(instance, &options, nullptr));
  api_.wgpuInstanceEnumerateAdapters(instance, &options, adapters.data());
  // Those that are not a CPU first: they are what a program means by "webgpu".
  for (const bool cpus : {false, true})
    for (const Adapter adapter : adapters) {
      AdapterInfo info;
      api_.wgpuAdapterGetInfo(adapter, &info);
      const bool is_cpu = info.type == kAdapterCpu;
      const std::string name(info.device.view());
      api_.wgpuAdapterInfoFreeMembers(info);
      if (is_cpu != cpus) continue;
      WebGpuDevice& made = devices_.emplace_back();
      made.index = static_cast<int>(devices_.size()) - 1;
      made.adapter = adapter;
      made.name = name;
      made.shares_memory = shares_memory(is_cpu);
      made.has_int64 = may_have_int64() && api_.wgpuAdapterHasFeature(adapter, kFeatureInt64) != 0;
      made.has_float64 = api_.wgpuAdapterHasFeature(adapter, kFeatureFloat64) != 0;
      api_.wgpuAdapterGetLimits(adapter, &made.limits);
      reduce_limits(made.limits.storage_buffers, made.limits.groups_per_dimension,
                    made.limits.storage_binding, made.most_forms);
    }
  require(!devices_.empty(), ErrorKind::Device,
          "device: WebGPU's library knows no adapter that runs kernels; "
          "install a driver of Vulkan (Debian: libvulkan1, and mesa-vulkan-drivers runs them on "
          "the CPU)");
}

// With its queue, made when it is used first. A child of a fork has none of the threads that run
// kernels.
WebGpuDriver::WebGpuDevice& WebGpuDriver::opened(int index) {
  require(fork_count() == forks_, ErrorKind::Device,
          "device: a forked process cannot use WebGPU devices that its parent has opened; start it "
          "by multiprocessing's \"spawn\"");
  return devices_[static_cast<size_t>(index)];
}

void WebGpuDriver::check_usable(int index) {
  WebGpuDevice& on = opened(index);
  const Lock lock(on.mutex);
  if (on.handle != nullptr && !on.lost.empty()) check(on, "an earlier call");
}

// Opens the device, or goes on where an attempt has failed.
void WebGpuDriver::open(WebGpuDevice& on) {
  if (on.handle == nullptr) request_device(on);
  check(on, "an earlier call");
  if (on.dialect != nullptr) [[likely]]
    return;
  if (on.words_group == nullptr) make_words_buffer(on);
  const auto [fuses, turns] = probe(on);
  on.most_turns =
      turns == kProbedTurns ? gpu::kManyTurns : turns / 2;  // the rest for loops of their own
  if (!fuses && !on.has_float64)
    fail_in_backend(ErrorKind::Device, "webgpu: ", on.name,
                    " rounds a fused multiply-add twice, and has no float64 to do better");
  if (on.has_int64)
    on.dialect = fuses ? &gpu::kWgsl : &gpu::kWgslDoubleFma;
  else
    on.dialect = fuses ? &gpu::kWgslTwoWords : &gpu::kWgslTwoWordsDoubleFma;
}

void WebGpuDriver::request_device(WebGpuDevice& on) {
  on.lost.clear();  // a device that is not made is reported as lost, too
  on.failed.reset();
  std::vector<uint32_t> features;
  if (on.has_int64) features.push_back(kFeatureInt64);
  if (on.has_float64) features.push_back(kFeatureFloat64);
  DeviceDescriptor descriptor;
  descriptor.feature_count = features.size();
  descriptor.features = features.data();
  descriptor.limits = &on.limits;
  descriptor.lost.function = [](const DeviceHandle*, uint32_t, Text why, void* device, void*) {
    static_cast<WebGpuDevice*>(device)->lost = why.view().empty() ? "no reason given" : why.view();
  };
  descriptor.error.function = [](const DeviceHandle*, uint32_t type, Text why, void* device,
                                 void*) {
    auto& told = *static_cast<WebGpuDevice*>(device);
    if (told.failed) return;  // the first one: others follow from it
    told.failed = kind_of_error(type, why.view());
    told.error = why.view();
    if (told.failed == ErrorKind::Device && told.lost.empty()) told.lost = "Parent device is lost";
  };
  descriptor.lost.first = descriptor.error.first = &on;
  Callback<DeviceCallback> made;
  made.function = [](uint32_t, DeviceHandle handle, Text why, void* device, void*) {
    auto& told = *static_cast<WebGpuDevice*>(device);
    told.handle = handle;
    if (handle == nullptr) told.error = why.view();
  };
  made.first = &on;
  api_.wgpuAdapterRequestDevice(on.adapter, &descriptor, made);
  if (on.handle == nullptr)
    fail_in_backend(ErrorKind::Device, "webgpu: there is no device on ", on.name, ": ", on.error);
  on.queue = api_.wgpuDeviceGetQueue(on.handle);
}

void WebGpuDriver::make_words_buffer(WebGpuDevice& on) {
  BindingLayout entry;
  entry.buffer.type = kBindUniform;
  entry.buffer.dynamic_offset = 1;
  BindGroupLayoutDescriptor described;
  described.count = 1;
  described.entries = &entry;
  Owned<BindGroupLayout> layout(api_.wgpuDeviceCreateBindGroupLayout(on.handle, &described),
                                api_.wgpuBindGroupLayoutRelease);
  const auto made = [&](size_t bytes, Bits usage) {
    return Owned<BufferHandle>(new_buffer(on, bytes, usage), api_.wgpuBufferRelease);
  };
  Owned<BufferHandle> words = made(kWordsBytes + kWordsWindow, kUniform | kCopyTarget),
                      read = made(kReadBytes, kMapRead | kCopyTarget),
                      none = made(sizeof(int32_t), kStorage);
  check(on, "opening it");
  Binding binding;
  binding.buffer = words.get();
  binding.size = kWordsWindow;
  BindGroupDescriptor group;
  group.layout = layout.get();
  group.count = 1;
  group.entries = &binding;
  Owned<BindGroup> words_group(api_.wgpuDeviceCreateBindGroup(on.handle, &group),
                               api_.wgpuBindGroupRelease);
  check(on, "opening it");
  on.words_layout = layout.release();
  on.words_buffer = words.release();
  on.read_buffer = read.release();
  on.no_elements = none.release();
  on.words_group = words_group.release();
}

// Whether a fused multiply-add is rounded once; and how many turns a loop of so many takes.
WebGpuDriver::Probe WebGpuDriver::probe(WebGpuDevice& on) {
  int32_t found[2] = {};
  const Owned<BufferHandle> result(new_buffer(on, sizeof found, kStorage | kCopySource),
                                   api_.wgpuBufferRelease);
  check(on, "opening it");
  WebGpuKernel& kernel = new_kernel(on, kProbeSource, "tt_probe");
  const BufferHandle memory[] = {result.get()};
  const int64_t words[] = {0x3f800001, kProbedTurns};  // the float above 1
  encode(on, kernel, memory, words, 1);
  read(on, found, result.get(), 0, sizeof found);
  return {std::bit_cast<float>(found[0]) == 0x1p-46F, found[1]};
}

void WebGpuDriver::check(WebGpuDevice& on, std::string_view what) const {
  if (!on.failed && on.lost.empty()) [[likely]]
    return;
  const ErrorKind kind = std::exchange(on.failed, {}).value_or(ErrorKind::Device);
  if (!on.lost.empty())
    fail_in_backend(ErrorKind::Device, "webgpu: ", on.name, " is lost, with what is on it (",
                    on.lost, "): start another process, or use the CPU");
  const char* lack = kind == ErrorKind::OutOfMemory ? "no memory left, " : "";
  fail_in_backend(kind, "webgpu: ", on.name, ": ", lack, what, ": ", on.error);
}

// Retries a call that was short of memory, once what is kept went back to the driver and the work
// that used it is done. An open device alone has kept memory.
template <class F>
void WebGpuDriver::retry_when_short(WebGpuDevice& on, std::string_view what, const F& call) {
  call();
  if (on.failed == ErrorKind::OutOfMemory) [[unlikely]] {
    on.failed.reset();
    if (on.dialect != nullptr) memory::cache_of(device_at(on.index)).empty_cache();
    api_.wgpuDevicePoll(on.handle, 1, nullptr);
    call();
  }
  check(on, what);
}

// Of a buffer that is bound whole.
size_t WebGpuDriver::most_bytes(const WebGpuDevice& on) {
  return std::min<uint64_t>({on.limits.buffer_size, on.limits.storage_binding, kMostPlace});
}

DeviceProperties WebGpuDriver::properties(int index) const {
  const WebGpuDevice& found = devices_[static_cast<size_t>(index)];
  return {found.name, 0, 256, most_bytes(found)};
}

size_t WebGpuDriver::most_buffers() const {
  size_t most = 64;
  for (const WebGpuDevice& device : devices_)
    most = std::min<size_t>(most, device.limits.storage_buffers);
  return most;
}

// Words are passed as halves of 32 bits; memory takes no room among them.
size_t WebGpuDriver::most_argument_bytes(int) { return 2 * kWordsWindow; }

// ---- memory

BufferHandle WebGpuDriver::new_buffer(WebGpuDevice& on, size_t bytes, Bits usage) const {
  BufferDescriptor descriptor;
  descriptor.usage = usage;
  descriptor.size = bytes;
  return api_.wgpuDeviceCreateBuffer(on.handle, &descriptor);
}

Buffer WebGpuDriver::allocate(size_t bytes, int index) {
  WebGpuDevice& on = opened(index);
  const Lock lock(on.mutex);
  open(on);
  const size_t size = round_up(bytes, 4);
  if (size > most_bytes(on)) return {};
  for (const bool again : {false, true}) {
    if (again) {  // what was given back is free when its work is done
      submit(on);
      api_.wgpuDevicePoll(on.handle, 1, nullptr);
    }
    Owned<BufferHandle> memory(new_buffer(on, size, kStorage | kCopySource | kCopyTarget),
                               api_.wgpuBufferRelease);
    if (!on.failed && memory != nullptr) return {.bytes = bytes, .handle = memory.release()};
    if (on.failed != ErrorKind::OutOfMemory) check(on, "allocating");
    on.failed.reset();
  }
  return {};
}

void WebGpuDriver::free(const Buffer& buffer) noexcept {
  // A child of a fork keeps what it cannot give back.
  if (fork_count() == forks_) api_.wgpuBufferRelease(memory_of(buffer));
}

void WebGpuDriver::copy_bytes(const Buffer& to, size_t to_place, const Buffer& from,
                              size_t from_place, size_t bytes) {
  const size_t target = to.offset + to_place, source = from.offset + from_place;
  WebGpuDevice& on = opened((to.handle != nullptr ? to : from).device.index);
  const Lock lock(on.mutex);
  open(on);
  if (from.handle == nullptr) {
    write(on, memory_of(to), target, static_cast<const char*>(from.host) + from_place, bytes);
  } else if (to.handle == nullptr) {
    read(on, static_cast<char*>(to.host) + to_place, memory_of(from), source, bytes);
  } else {
    move(on, memory_of(to), target, memory_of(from), source, bytes);
  }
}

void WebGpuDriver::write(WebGpuDevice& on, BufferHandle to, size_t place, const void* from,
                         size_t bytes) {
  submit(on);
  if (place % 4 == 0 && bytes % 4 == 0) {
    retry_when_short(on, "writing",
                     [&] { api_.wgpuQueueWriteBuffer(on.queue, to, place, from, bytes); });
    api_.wgpuQueueSubmit(on.queue, 0, nullptr);  // so that it is not kept
    return check(on, "writing");
  }
  const size_t size = round_up(bytes, 4);
  Owned<BufferHandle> between(nullptr, api_.wgpuBufferRelease);
  retry_when_short(on, "writing", [&] {
    between.reset(new_buffer(on, size, kStorage | kCopySource | kCopyTarget));
  });
  std::vector<char> padded(size);
  std::memcpy(padded.data(), from, bytes);
  write(on, between.get(), 0, padded.data(), size);
  move(on, to, place, between.get(), 0, bytes);
}

void WebGpuDriver::read(WebGpuDevice& on, void* to, BufferHandle from, size_t place, size_t bytes) {
  while (bytes > 0) {
    const size_t first = place / 4 * 4, some = std::min(bytes, kReadBytes - 4),
                 size = round_up(place + some, 4) - first;
    begin(on, false);
    api_.wgpuCommandEncoderCopyBufferToBuffer(on.encoder, from, first, on.read_buffer, 0, size);
    submit(on);
    on.mapped = 0;
    Callback<MapCallback> told;
    told.function = [](uint32_t status, Text, void* mapped, void*) {
      *static_cast<uint32_t*>(mapped) = status;
    };
    told.first = &on.mapped;  // which stays, should it be told later
    api_.wgpuBufferMapAsync(on.read_buffer, kMapModeRead, 0, size, told);
    api_.wgpuDevicePoll(on.handle, 1, nullptr);
    if (on.mapped != kSuccess) {
      check(on, "reading");
      if (on.mapped == 0) {  // it would be mapped later
        api_.wgpuBufferUnmap(on.read_buffer);
        on.failed.reset();
      }
      fail_in_backend(ErrorKind::Device, "webgpu: ", on.name, " gives no results back");
    }
    const auto* found =
        static_cast<const char*>(api_.wgpuBufferGetConstMappedRange(on.read_buffer, 0, size));
    if (found != nullptr) std::memcpy(to, found + (place - first), some);
    api_.wgpuBufferUnmap(on.read_buffer);
    check(on, "reading");
    if (found == nullptr)
      fail_in_backend(ErrorKind::Device, "webgpu: ", on.name, " gives no results back");
    to = static_cast<char*>(to) + some;
    place += some;
    bytes -= some;
  }
}

void WebGpuDriver::move(WebGpuDevice& on, BufferHandle to, size_t to_place, BufferHandle from,
                        size_t from_place, size_t bytes) {
  if (to != from && (to_place | from_place | bytes) % 4 == 0) {
    begin(on, false);
    api_.wgpuCommandEncoderCopyBufferToBuffer(on.encoder, from, from_place, to, to_place, bytes);
    return;
  }
  if (on.move == nullptr) on.move = &new_kernel(on, kMoveSource, "tt_move");
  const BufferHandle memory[] = {from, to};
  const int64_t words[] = {static_cast<int64_t>(from_place), static_cast<int64_t>(to_place),
                           static_cast<int64_t>(bytes)};
  encode(on, *on.move, memory, words, static_cast<int64_t>(bytes / 4 + 2));
}

void WebGpuDriver::fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) {
  const std::vector<uint8_t> all(bytes, value);
  const Buffer host{.host = const_cast<uint8_t*>(all.data()), .bytes = bytes};
  copy_bytes(to, place, host, 0, bytes);
}

// ---- the queue

void WebGpuDriver::begin(WebGpuDevice& on, bool with_pass) {
  if (on.encoder == nullptr) {
    const Labelled descriptor;
    Owned<Encoder> made(nullptr, api_.wgpuCommandEncoderRelease);
    retry_when_short(on, "a launch", [&] {
      made.reset(api_.wgpuDeviceCreateCommandEncoder(on.handle, &descriptor));
    });
    on.encoder = made.release();
  }
  if (with_pass == (on.pass != nullptr)) return;
  if (with_pass) {
    const PassDescriptor descriptor;
    on.pass = api_.wgpuCommandEncoderBeginComputePass(on.encoder, &descriptor);
    return;
  }
  api_.wgpuComputePassEncoderEnd(on.pass);
  api_.wgpuComputePassEncoderRelease(on.pass);
  on.pass = nullptr;
}

void WebGpuDriver::submit(WebGpuDevice& on) {
  if (on.encoder == nullptr) return;
  begin(on, false);
  // First of all: where that fails, nothing is lost of what waits.
  if (!on.words.empty())
    retry_when_short(on, "running kernels", [&] {
      api_.wgpuQueueWriteBuffer(on.queue, on.words_buffer, 0, on.words.data(),
                                on.words.size() * sizeof(int32_t));
    });
  const Labelled descriptor;
  const Owned<CommandBuffer> commands(api_.wgpuCommandEncoderFinish(on.encoder, &descriptor),
                                      api_.wgpuCommandBufferRelease);
  api_.wgpuCommandEncoderRelease(on.encoder);
  on.encoder = nullptr;
  on.words.clear();
  check(on, "running kernels");  // wgpu-native ends the process that submits what is not valid
  const CommandBuffer all[] = {commands.get()};
  api_.wgpuQueueSubmit(on.queue, 1, all);
  check(on, "running kernels");
}

void WebGpuDriver::wait(int index) {
  WebGpuDevice& on = opened(index);
  const Lock lock(on.mutex);
  open(on);
  submit(on);
  api_.wgpuDevicePoll(on.handle, 1, nullptr);
  check(on, "running kernels");
}

// ---- kernels

const gpu::Dialect& WebGpuDriver::dialect(int index) {
  WebGpuDevice& on = opened(index);
  const Lock lock(on.mutex);
  open(on);
  return *on.dialect;
}

gpu::LaunchModel WebGpuDriver::launch_model(int index) {
  return {.least_block = 1,
          .threads = kManyThreads,
          .most_turns = opened(index).most_turns,
          .shares_memory = opened(index).shares_memory};
}

gpu::BuiltKernel& WebGpuDriver::build(const std::string& source, std::string_view name, int index) {
  WebGpuDevice& on = opened(index);
  const Lock lock(on.mutex);
  open(on);
  return new_kernel(on, source, name);
}

WebGpuKernel& WebGpuDriver::new_kernel(WebGpuDevice& on, const std::string& source,
                                       std::string_view name) {
  WebGpuKernel kernel;
  kernel.source = source;
  kernel.name = name;
  kernel.accesses = accesses_of(source);
  std::vector<uint8_t> apart(kernel.accesses.size());
  for (size_t k = 0; k < apart.size(); ++k) apart[k] = static_cast<uint8_t>(k);
  form_of(on, kernel, apart);
  return on.kernels.emplace_back(std::move(kernel));
}

WebGpuKernel::Form& WebGpuDriver::form_of(WebGpuDevice& on, WebGpuKernel& kernel,
                                          const std::vector<uint8_t>& bindings) {
  if (const auto it = kernel.forms.find(bindings); it != kernel.forms.end()) {
    it->second.used = ++on.launches;
    return it->second;
  }
  if (on.forms >= on.most_forms) forget_old_forms(on);
  std::vector<BindingLayout> entries;
  for (size_t k = 0; k < bindings.size(); ++k) {
    if (bindings[k] != k) continue;
    BindingLayout& entry = entries.emplace_back();
    entry.binding = static_cast<uint32_t>(k);
    entry.buffer.type =
        shared_access(kernel.accesses, bindings, k) == Access::Reads ? kBindReadOnly : kBindStorage;
  }
  BindGroupLayoutDescriptor group;
  group.count = entries.size();
  group.entries = entries.data();
  WebGpuKernel::Form form;
  form.layout = api_.wgpuDeviceCreateBindGroupLayout(on.handle, &group);
  const BindGroupLayout groups[] = {form.layout, on.words_layout};
  PipelineLayoutDescriptor layout;
  layout.count = 2;
  layout.groups = groups;
  const std::string text = with_bindings(kernel.source, kernel.accesses, bindings);
  WgslSource code;
  code.code = Text(text);
  Labelled module;
  module.next = &code.chain;
  PipelineDescriptor pipeline;
  pipeline.layout = api_.wgpuDeviceCreatePipelineLayout(on.handle, &layout);
  // No checks of places: kernels keep to their buffers.
  pipeline.compute.module = api_.wgpuDeviceCreateShaderModuleTrusted(on.handle, &module, 0);
  pipeline.compute.entry = Text(kernel.name);
  if (!on.failed) form.pipeline = api_.wgpuDeviceCreateComputePipeline(on.handle, &pipeline);
  api_.wgpuPipelineLayoutRelease(pipeline.layout);
  api_.wgpuShaderModuleRelease(pipeline.compute.module);
  if (on.failed) {
    if (form.pipeline != nullptr) api_.wgpuComputePipelineRelease(form.pipeline);
    api_.wgpuBindGroupLayoutRelease(form.layout);
    if (on.failed != ErrorKind::Runtime) check(on, "compiling a kernel");
    on.failed.reset();
    fail_in_backend(ErrorKind::Runtime, "webgpu: ", on.name, " does not compile a kernel:\n",
                    on.error, "\n", text);
  }
  form.used = ++on.launches;
  ++on.forms;
  return kernel.forms.emplace(bindings, form).first->second;
}

// Half of them, those that were used longest ago. Launches that wait hold what they need.
void WebGpuDriver::forget_old_forms(WebGpuDevice& on) const {
  std::vector<uint64_t> used;
  for (const WebGpuKernel& kernel : on.kernels)
    for (const auto& [bindings, form] : kernel.forms) used.push_back(form.used);
  if (used.empty()) return;
  const auto middle = used.begin() + std::ssize(used) / 2;
  std::ranges::nth_element(used, middle);
  for (WebGpuKernel& kernel : on.kernels)
    on.forms -= std::erase_if(kernel.forms, [&](const auto& of) {
      const WebGpuKernel::Form& form = of.second;
      if (form.used >= *middle) return false;
      api_.wgpuComputePipelineRelease(form.pipeline);
      api_.wgpuBindGroupLayoutRelease(form.layout);
      return true;
    });
}

void WebGpuDriver::launch(gpu::BuiltKernel& built, int index, std::span<const Buffer* const> memory,
                          std::span<const int64_t> words, int64_t threads) {
  WebGpuDevice& on = opened(index);
  SmallVec<BufferHandle, 16> handles;
  const Lock lock(on.mutex);
  open(on);
  for (const Buffer* buffer : memory)
    handles.push_back(buffer->handle == nullptr ? on.no_elements : memory_of(*buffer));
  encode(on, static_cast<WebGpuKernel&>(built), handles, words, threads);
}

void WebGpuDriver::encode(WebGpuDevice& on, WebGpuKernel& kernel,
                          std::span<const BufferHandle> memory, std::span<const int64_t> words,
                          int64_t threads) {
  std::vector<uint8_t> bindings;
  std::vector<Binding> entries;
  for (size_t k = 0; k < memory.size(); ++k) {
    const auto first = std::ranges::find(memory, memory[k]) - memory.begin();
    bindings.push_back(static_cast<uint8_t>(first));
    if (static_cast<size_t>(first) != k) continue;
    Binding& entry = entries.emplace_back();
    entry.binding = static_cast<uint32_t>(k);
    entry.buffer = memory[k];
  }
  const WebGpuKernel::Form& form = form_of(on, kernel, bindings);
  if (words.size_bytes() / 2 > kWordsWindow)
    fail_in_backend(ErrorKind::NotImplemented, "webgpu: a kernel of ", words.size(), " words");
  for (const int64_t word : words)
    if (word != static_cast<int32_t>(word))
      fail_in_backend(ErrorKind::NotImplemented, "webgpu: a size of ", word,
                      ", which 32 bits do not hold");
  const int64_t groups = ceil_div(threads, gpu::kGroupThreads),
                lines = ceil_div(groups, int64_t{on.limits.groups_per_dimension});
  if (lines > on.limits.groups_per_dimension || threads >= int64_t{1} << 31)
    fail_in_backend(ErrorKind::NotImplemented, "webgpu: a kernel of ", threads, " threads");

  BindGroupDescriptor descriptor;
  descriptor.layout = form.layout;
  descriptor.count = entries.size();
  descriptor.entries = entries.data();
  Owned<BindGroup> group(nullptr, api_.wgpuBindGroupRelease);
  retry_when_short(on, "a launch",
                   [&] { group.reset(api_.wgpuDeviceCreateBindGroup(on.handle, &descriptor)); });
  if (on.words.size() * sizeof(int32_t) + kWordsWindow > kWordsBytes) submit(on);
  begin(on, true);
  constexpr size_t kStep = kWordsAlignment / sizeof(int32_t);
  const auto place = static_cast<uint32_t>(on.words.size() * sizeof(int32_t));
  for (const int64_t word : words) on.words.push_back(static_cast<int32_t>(word));
  on.words.resize(round_up(on.words.size(), kStep));
  api_.wgpuComputePassEncoderSetPipeline(on.pass, form.pipeline);
  api_.wgpuComputePassEncoderSetBindGroup(on.pass, 0, group.get(), 0, nullptr);
  api_.wgpuComputePassEncoderSetBindGroup(on.pass, 1, on.words_group, 1, &place);
  api_.wgpuComputePassEncoderDispatchWorkgroups(
      on.pass, static_cast<uint32_t>(ceil_div(groups, lines)), static_cast<uint32_t>(lines), 1);
  check(on, "a launch");
}

}  // namespace tinyt::webgpu
