#include "webgpu/webgpu_driver.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/base/parallel.h"

namespace tinyt::webgpu {

namespace {

constexpr size_t kWordsBytes = 1 << 18;   // of the launches that wait
constexpr size_t kWordsWindow = 1 << 10;  // that a launch may have
constexpr size_t kWordsAlignment = 256;   // at most what an adapter asks for
constexpr size_t kReadBytes = 4 << 20;    // that the host reads at once
constexpr size_t kMostPlace = (size_t{1} << 31) - 4;
constexpr int64_t kGroupThreads = 64;
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

}  // namespace

// ---- devices

WebGpuDriver::WebGpuDriver(const Api& api) : api_(api), forks_(fork_count()) {
  const InstanceExtras extras;
  InstanceDescriptor descriptor;
  descriptor.next = &extras.chain;
  const Instance instance = api_.wgpuCreateInstance(&descriptor);
  const EnumerateOptions options;
  std::vector<Adapter> adapters(api_.wgpuInstanceEnumerateAdapters(instance, &options, nullptr));
  api_.wgpuInstanceEnumerateAdapters(instance, &options, adapters.data());
  std::string why_not;
  // Those that are not a CPU first: they are what a program means by "webgpu".
  for (const bool cpus : {false, true})
    for (const Adapter adapter : adapters) {
      AdapterInfo info;
      api_.wgpuAdapterGetInfo(adapter, &info);
      const bool is_cpu = info.type == kAdapterCpu;
      const std::string name(info.device.view());
      api_.wgpuAdapterInfoFreeMembers(info);
      if (is_cpu != cpus) continue;
      if (!api_.wgpuAdapterHasFeature(adapter, kFeatureInt64)) {
        why_not += "; " + name + " has no 64-bit integers in kernels";
        continue;
      }
      WebGpuDevice& made = devices_.emplace_back();
      made.adapter = adapter;
      made.name = name;
      made.has_float64 = api_.wgpuAdapterHasFeature(adapter, kFeatureFloat64) != 0;
      api_.wgpuAdapterGetLimits(adapter, &made.limits);
      reduce_limits(made.limits.storage_buffers, made.limits.groups_per_dimension,
                    made.limits.storage_binding, made.most_forms);
    }
  require(!devices_.empty(), ErrorKind::Device,
          "device: WebGPU's library knows no adapter that runs kernels", why_not,
          "; install a driver of Vulkan (Debian: libvulkan1, and mesa-vulkan-drivers runs them on "
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

void WebGpuDriver::open(WebGpuDevice& on) {
  if (on.dialect != nullptr) return check(on, "before");
  const uint32_t features[] = {kFeatureInt64, kFeatureFloat64};
  DeviceDescriptor descriptor;
  descriptor.feature_count = on.has_float64 ? 2 : 1;
  descriptor.features = features;
  descriptor.limits = &on.limits;
  descriptor.lost.function = [](const DeviceHandle*, uint32_t, Text why, void* device, void*) {
    static_cast<WebGpuDevice*>(device)->lost = "it is lost: " + std::string(why.view());
  };
  descriptor.error.function = [](const DeviceHandle*, uint32_t type, Text why, void* device,
                                 void*) {
    auto& told = *static_cast<WebGpuDevice*>(device);
    if (!told.error.empty()) return;  // the first one: others follow from it
    told.error = why.view();
    told.error_type = type;
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
  require(on.handle != nullptr, ErrorKind::Device, "device: WebGPU gives no device on ", on.name,
          ": ", on.error);
  on.queue = api_.wgpuDeviceGetQueue(on.handle);
  make_words_buffer(on);
  const auto [fuses, turns] = probe(on);
  on.most_turns =
      turns == kProbedTurns ? gpu::kManyTurns : turns / 2;  // the rest for loops of their own
  require(fuses || on.has_float64, ErrorKind::Device, "device: ", on.name,
          " rounds a fused multiply-add twice, and has no float64 to do better");
  on.dialect = fuses ? &gpu::kWgsl : &gpu::kWgslDoubleFma;
}

void WebGpuDriver::make_words_buffer(WebGpuDevice& on) {
  BindingLayout entry;
  entry.buffer.type = kBindUniform;
  entry.buffer.dynamic_offset = 1;
  BindGroupLayoutDescriptor layout;
  layout.count = 1;
  layout.entries = &entry;
  on.words_layout = api_.wgpuDeviceCreateBindGroupLayout(on.handle, &layout);
  on.words_buffer = new_buffer(on, kWordsBytes + kWordsWindow, kUniform | kCopyTarget);
  on.read_buffer = new_buffer(on, kReadBytes, kMapRead | kCopyTarget);
  on.no_elements = new_buffer(on, sizeof(int32_t), kStorage);
  Binding binding;
  binding.buffer = on.words_buffer;
  binding.size = kWordsWindow;
  BindGroupDescriptor group;
  group.layout = on.words_layout;
  group.count = 1;
  group.entries = &binding;
  on.words_group = api_.wgpuDeviceCreateBindGroup(on.handle, &group);
  check(on, "opening it");
}

// Whether a fused multiply-add is rounded once; and how many turns a loop of so many takes.
WebGpuDriver::Probe WebGpuDriver::probe(WebGpuDevice& on) {
  WebGpuKernel& kernel = new_kernel(on, kProbeSource, "tt_probe");
  int32_t found[2] = {};
  const BufferHandle result = new_buffer(on, sizeof found, kStorage | kCopySource);
  const int64_t words[] = {0x3f800001, kProbedTurns};  // the float above 1
  encode(on, kernel, {&result, 1}, words, 1);
  read(on, found, result, 0, sizeof found);
  api_.wgpuBufferRelease(result);
  return {std::bit_cast<float>(found[0]) == 0x1p-46F, found[1]};
}

void WebGpuDriver::check(WebGpuDevice& on, std::string_view what) const {
  require(on.lost.empty(), ErrorKind::Device, "device: ", on.name, ": ", on.lost);
  if (on.error.empty()) [[likely]]
    return;
  const std::string error = std::exchange(on.error, {});
  fail(on.error_type == kErrorMemory ? ErrorKind::OutOfMemory : ErrorKind::Runtime,
       "webgpu: ", on.name, ": ", what, ": ", error);
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
    const BufferHandle memory = new_buffer(on, size, kStorage | kCopySource | kCopyTarget);
    if (on.error.empty()) return {.bytes = bytes, .handle = memory};
    on.error.clear();
    if (memory != nullptr) api_.wgpuBufferRelease(memory);
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
    api_.wgpuQueueWriteBuffer(on.queue, to, place, from, bytes);
    api_.wgpuQueueSubmit(on.queue, 0, nullptr);  // so that it is not kept
    return check(on, "writing");
  }
  const size_t size = round_up(bytes, 4);
  const BufferHandle between = new_buffer(on, size, kStorage | kCopySource | kCopyTarget);
  check(on, "writing");
  std::vector<char> padded(size);
  std::memcpy(padded.data(), from, bytes);
  write(on, between, 0, padded.data(), size);
  move(on, to, place, between, 0, bytes);
  api_.wgpuBufferRelease(between);
}

void WebGpuDriver::read(WebGpuDevice& on, void* to, BufferHandle from, size_t place, size_t bytes) {
  while (bytes > 0) {
    const size_t first = place / 4 * 4, some = std::min(bytes, kReadBytes - 4),
                 size = round_up(place + some, 4) - first;
    begin(on, false);
    api_.wgpuCommandEncoderCopyBufferToBuffer(on.encoder, from, first, on.read_buffer, 0, size);
    submit(on);
    uint32_t status = 0;
    Callback<MapCallback> mapped;
    mapped.function = [](uint32_t what, Text, void* told, void*) {
      *static_cast<uint32_t*>(told) = what;
    };
    mapped.first = &status;
    api_.wgpuBufferMapAsync(on.read_buffer, kMapModeRead, 0, size, mapped);
    api_.wgpuDevicePoll(on.handle, 1, nullptr);
    check(on, "reading");
    require(status == kSuccess, ErrorKind::Device, "device: ", on.name, " gives no results back");
    const auto* found =
        static_cast<const char*>(api_.wgpuBufferGetConstMappedRange(on.read_buffer, 0, size));
    std::memcpy(to, found + (place - first), some);
    api_.wgpuBufferUnmap(on.read_buffer);
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
    on.encoder = api_.wgpuDeviceCreateCommandEncoder(on.handle, &descriptor);
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
  const Labelled descriptor;
  const CommandBuffer commands = api_.wgpuCommandEncoderFinish(on.encoder, &descriptor);
  api_.wgpuCommandEncoderRelease(on.encoder);
  on.encoder = nullptr;
  if (!on.words.empty())
    api_.wgpuQueueWriteBuffer(on.queue, on.words_buffer, 0, on.words.data(),
                              on.words.size() * sizeof(int32_t));
  on.words.clear();
  api_.wgpuQueueSubmit(on.queue, 1, &commands);
  api_.wgpuCommandBufferRelease(commands);
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
  return {.least_block = 1, .threads = kManyThreads, .most_turns = opened(index).most_turns};
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
  if (on.error.empty()) form.pipeline = api_.wgpuDeviceCreateComputePipeline(on.handle, &pipeline);
  api_.wgpuPipelineLayoutRelease(pipeline.layout);
  api_.wgpuShaderModuleRelease(pipeline.compute.module);
  const std::string error = std::exchange(on.error, {});
  require(error.empty(), ErrorKind::Runtime, "webgpu: ", on.name, " does not compile a kernel:\n",
          error, "\n", text);
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
  require(words.size_bytes() / 2 <= kWordsWindow, ErrorKind::NotImplemented, "webgpu: a kernel of ",
          words.size(), " words");
  for (const int64_t word : words)
    require(word == static_cast<int32_t>(word), ErrorKind::NotImplemented, "webgpu: a size of ",
            word, ", which 32 bits do not hold");
  constexpr size_t kStep = kWordsAlignment / sizeof(int32_t);
  if (on.words.size() * sizeof(int32_t) + kWordsWindow > kWordsBytes) submit(on);
  begin(on, true);
  const auto place = static_cast<uint32_t>(on.words.size() * sizeof(int32_t));
  for (const int64_t word : words) on.words.push_back(static_cast<int32_t>(word));
  on.words.resize(round_up(on.words.size(), kStep));

  BindGroupDescriptor descriptor;
  descriptor.layout = form.layout;
  descriptor.count = entries.size();
  descriptor.entries = entries.data();
  const BindGroup group = api_.wgpuDeviceCreateBindGroup(on.handle, &descriptor);
  api_.wgpuComputePassEncoderSetPipeline(on.pass, form.pipeline);
  api_.wgpuComputePassEncoderSetBindGroup(on.pass, 0, group, 0, nullptr);
  api_.wgpuComputePassEncoderSetBindGroup(on.pass, 1, on.words_group, 1, &place);
  const int64_t groups = ceil_div(threads, kGroupThreads),
                lines = ceil_div(groups, int64_t{on.limits.groups_per_dimension});
  require(lines <= on.limits.groups_per_dimension && threads < int64_t{1} << 31,
          ErrorKind::NotImplemented, "webgpu: a kernel of ", threads, " threads");
  api_.wgpuComputePassEncoderDispatchWorkgroups(
      on.pass, static_cast<uint32_t>(ceil_div(groups, lines)), static_cast<uint32_t>(lines), 1);
  api_.wgpuBindGroupRelease(group);
  check(on, "a launch");
}

}  // namespace tinyt::webgpu
