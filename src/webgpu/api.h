// What of WebGPU's C interface is called: types, numbers and functions of webgpu.h and wgpu.h as
// wgpu-native 29 has them, found in the library when that is opened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tinyt::webgpu {

using Instance = struct InstanceTag*;
using Adapter = struct AdapterTag*;
using DeviceHandle = struct DeviceTag*;
using Queue = struct QueueTag*;
using BufferHandle = struct BufferTag*;
using ShaderModule = struct ShaderModuleTag*;
using BindGroupLayout = struct BindGroupLayoutTag*;
using BindGroup = struct BindGroupTag*;
using PipelineLayout = struct PipelineLayoutTag*;
using Pipeline = struct PipelineTag*;
using Encoder = struct EncoderTag*;
using Pass = struct PassTag*;
using CommandBuffer = struct CommandBufferTag*;
using Bits = uint64_t;  // WGPUFlags
using Truth = uint32_t;

// The first byte of wgpuGetVersion: structures below are those of this one.
inline constexpr uint32_t kNativeVersion = 29;

inline constexpr uint32_t kSuccess = 1, kModeSpontaneous = 3;
inline constexpr uint32_t kErrorMemory = 3, kAdapterCpu = 3;
inline constexpr uint32_t kChainWgsl = 2, kChainInstanceExtras = 0x00030004;
inline constexpr Bits kBackendsPrimary = 1 << 0 | 1 << 2 | 1 << 3;  // Vulkan, Metal, D3D12
inline constexpr Bits kMapRead = 1, kCopySource = 4, kCopyTarget = 8, kUniform = 0x40,
                      kStorage = 0x80, kStageCompute = 4, kMapModeRead = 1;
inline constexpr uint32_t kBindUniform = 2, kBindStorage = 3, kBindReadOnly = 4;
inline constexpr uint32_t kFeatureInt64 = 0x00030026, kFeatureFloat64 = 0x0003001D;
inline constexpr size_t kWhole = ~size_t{0};  // of a size: up to the end

struct Text {
  const char* data = nullptr;
  size_t length = ~size_t{0};  // up to the first 0

  Text() = default;
  Text(std::string_view text) : data(text.data()), length(text.size()) {}
  std::string_view view() const {
    if (data == nullptr) return {};
    return length == ~size_t{0} ? std::string_view(data) : std::string_view(data, length);
  }
};

struct Chain {
  const Chain* next = nullptr;
  uint32_t type = 0;
};
struct Future {
  uint64_t id;
};

struct InstanceExtras {
  Chain chain{nullptr, kChainInstanceExtras};
  Bits backends = kBackendsPrimary, flags = 0;
  uint32_t dx12_compiler = 0, gles_minor = 0, gl_fences = 0;
  Text dxc_path{};
  uint32_t dxc_model = 0, dx12_presentation = 0;
  const uint8_t *creation_budget = nullptr, *loss_budget = nullptr;
  uint32_t display_type = 0;
  void* display[2] = {};
};
struct InstanceDescriptor {
  const Chain* next = nullptr;
  size_t feature_count = 0;
  const uint32_t* features = nullptr;
  const void* limits = nullptr;
};
struct EnumerateOptions {
  const Chain* next = nullptr;
  Bits backends = kBackendsPrimary;
};
struct AdapterInfo {
  Chain* next = nullptr;
  Text vendor{}, architecture{}, device{}, description{};
  uint32_t backend = 0, type = 0, vendor_id = 0, device_id = 0, least_subgroup = 0,
           most_subgroup = 0;
};
struct Limits {
  Chain* next = nullptr;
  uint32_t textures[4] = {};
  uint32_t bind_groups = 0, groups_and_vertex_buffers = 0, bindings_per_group = 0,
           dynamic_uniforms = 0, dynamic_storages = 0, sampled_textures = 0, samplers = 0,
           storage_buffers = 0, storage_textures = 0, uniform_buffers = 0;
  uint64_t uniform_binding = 0, storage_binding = 0;
  uint32_t uniform_alignment = 0, storage_alignment = 0, vertex_buffers = 0;
  uint64_t buffer_size = 0;
  uint32_t vertex_attributes = 0, vertex_stride = 0, inter_stage = 0, color_attachments = 0,
           color_bytes = 0, group_storage = 0, group_threads = 0, group_sizes[3] = {},
           groups_per_dimension = 0, immediate_bytes = 0;
};

using DeviceCallback = void (*)(uint32_t status, DeviceHandle, Text, void*, void*);
using LostCallback = void (*)(const DeviceHandle*, uint32_t reason, Text, void*, void*);
using ErrorCallback = void (*)(const DeviceHandle*, uint32_t type, Text, void*, void*);
using MapCallback = void (*)(uint32_t status, Text, void*, void*);
template <class Function>
struct Callback {
  const Chain* next = nullptr;
  uint32_t mode = kModeSpontaneous;
  Function function = nullptr;
  void *first = nullptr, *second = nullptr;
};
struct ErrorCallbackInfo {
  const Chain* next = nullptr;
  ErrorCallback function = nullptr;
  void *first = nullptr, *second = nullptr;
};
struct Labelled {  // also the descriptor of a queue, an encoder, a command buffer
  const Chain* next = nullptr;
  Text label{};
};
struct DeviceDescriptor : Labelled {
  size_t feature_count = 0;
  const uint32_t* features = nullptr;
  const Limits* limits = nullptr;
  Labelled queue{};
  Callback<LostCallback> lost{};
  ErrorCallbackInfo error{};
};

struct BufferDescriptor : Labelled {
  Bits usage = 0;
  uint64_t size = 0;
  Truth mapped = 0;
};
struct WgslSource {
  Chain chain{nullptr, kChainWgsl};
  Text code{};
};
struct BindingLayout {
  const Chain* next = nullptr;
  uint32_t binding = 0;
  Bits stages = kStageCompute;
  uint32_t array_size = 0;
  struct {
    const Chain* next = nullptr;
    uint32_t type = 0;
    Truth dynamic_offset = 0;
    uint64_t least_size = 0;
  } buffer{};
  struct {
    const Chain* next = nullptr;
    uint32_t type = 0;
  } sampler{};
  struct {
    const Chain* next = nullptr;
    uint32_t facts[3] = {};
  } texture{}, storage_texture{};
};
struct BindGroupLayoutDescriptor : Labelled {
  size_t count = 0;
  const BindingLayout* entries = nullptr;
};
struct Binding {
  const Chain* next = nullptr;
  uint32_t binding = 0;
  BufferHandle buffer = nullptr;
  uint64_t offset = 0, size = kWhole;
  void *sampler = nullptr, *texture = nullptr;
};
struct BindGroupDescriptor : Labelled {
  BindGroupLayout layout = nullptr;
  size_t count = 0;
  const Binding* entries = nullptr;
};
struct PipelineLayoutDescriptor : Labelled {
  size_t count = 0;
  const BindGroupLayout* groups = nullptr;
  uint32_t immediate_bytes = 0;
};
struct PipelineDescriptor : Labelled {
  PipelineLayout layout = nullptr;
  struct {
    const Chain* next = nullptr;
    ShaderModule module = nullptr;
    Text entry{};
    size_t constant_count = 0;
    const void* constants = nullptr;
  } compute{};
};
struct PassDescriptor : Labelled {
  const void* timestamps = nullptr;
};

#define TINYT_WEBGPU_FUNCTIONS(F)                                                             \
  F(wgpuGetVersion, uint32_t, ())                                                             \
  F(wgpuCreateInstance, Instance, (const InstanceDescriptor*))                                \
  F(wgpuInstanceEnumerateAdapters, size_t, (Instance, const EnumerateOptions*, Adapter*))     \
  F(wgpuAdapterGetInfo, uint32_t, (Adapter, AdapterInfo*))                                    \
  F(wgpuAdapterInfoFreeMembers, void, (AdapterInfo))                                          \
  F(wgpuAdapterGetLimits, uint32_t, (Adapter, Limits*))                                       \
  F(wgpuAdapterHasFeature, Truth, (Adapter, uint32_t))                                        \
  F(wgpuAdapterRequestDevice, Future,                                                         \
    (Adapter, const DeviceDescriptor*, Callback<DeviceCallback>))                             \
  F(wgpuDeviceGetQueue, Queue, (DeviceHandle))                                                \
  F(wgpuDevicePoll, Truth, (DeviceHandle, Truth, const uint64_t*))                            \
  F(wgpuDeviceCreateBuffer, BufferHandle, (DeviceHandle, const BufferDescriptor*))            \
  F(wgpuBufferRelease, void, (BufferHandle))                                                  \
  F(wgpuBufferMapAsync, Future, (BufferHandle, Bits, size_t, size_t, Callback<MapCallback>))  \
  F(wgpuBufferGetConstMappedRange, const void*, (BufferHandle, size_t, size_t))               \
  F(wgpuBufferUnmap, void, (BufferHandle))                                                    \
  F(wgpuDeviceCreateShaderModuleTrusted, ShaderModule, (DeviceHandle, const Labelled*, Bits)) \
  F(wgpuShaderModuleRelease, void, (ShaderModule))                                            \
  F(wgpuDeviceCreateBindGroupLayout, BindGroupLayout,                                         \
    (DeviceHandle, const BindGroupLayoutDescriptor*))                                         \
  F(wgpuBindGroupLayoutRelease, void, (BindGroupLayout))                                      \
  F(wgpuDeviceCreatePipelineLayout, PipelineLayout,                                           \
    (DeviceHandle, const PipelineLayoutDescriptor*))                                          \
  F(wgpuPipelineLayoutRelease, void, (PipelineLayout))                                        \
  F(wgpuComputePipelineRelease, void, (Pipeline))                                             \
  F(wgpuDeviceCreateComputePipeline, Pipeline, (DeviceHandle, const PipelineDescriptor*))     \
  F(wgpuDeviceCreateBindGroup, BindGroup, (DeviceHandle, const BindGroupDescriptor*))         \
  F(wgpuBindGroupRelease, void, (BindGroup))                                                  \
  F(wgpuDeviceCreateCommandEncoder, Encoder, (DeviceHandle, const Labelled*))                 \
  F(wgpuCommandEncoderBeginComputePass, Pass, (Encoder, const PassDescriptor*))               \
  F(wgpuComputePassEncoderSetPipeline, void, (Pass, Pipeline))                                \
  F(wgpuComputePassEncoderSetBindGroup, void,                                                 \
    (Pass, uint32_t, BindGroup, size_t, const uint32_t*))                                     \
  F(wgpuComputePassEncoderDispatchWorkgroups, void, (Pass, uint32_t, uint32_t, uint32_t))     \
  F(wgpuComputePassEncoderEnd, void, (Pass))                                                  \
  F(wgpuComputePassEncoderRelease, void, (Pass))                                              \
  F(wgpuCommandEncoderCopyBufferToBuffer, void,                                               \
    (Encoder, BufferHandle, uint64_t, BufferHandle, uint64_t, uint64_t))                      \
  F(wgpuCommandEncoderFinish, CommandBuffer, (Encoder, const Labelled*))                      \
  F(wgpuCommandEncoderRelease, void, (Encoder))                                               \
  F(wgpuCommandBufferRelease, void, (CommandBuffer))                                          \
  F(wgpuQueueSubmit, void, (Queue, size_t, const CommandBuffer*))                             \
  F(wgpuQueueWriteBuffer, void, (Queue, BufferHandle, uint64_t, const void*, size_t))

// The functions of a library.
struct Api {
#define TINYT_POINTER(name, result, arguments) result(*name) arguments = nullptr;
  TINYT_WEBGPU_FUNCTIONS(TINYT_POINTER)
#undef TINYT_POINTER
};

}  // namespace tinyt::webgpu
