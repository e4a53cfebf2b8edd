// Devices by name, for Python's objects of them.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/backend_error.h"
#include "core/device/runtime.h"
#include "core/graph/graph.h"
#include "core/ops/dispatch.h"
#include "core/ops/mode.h"
#include "cuda/interop.h"
#include "cuda/library.h"
#include "cuda/register.h"
#include "gpu/driver.h"
#include "gpu/kernel_cache.h"
#include "meta/register.h"
#include "opencl/register.h"
#include "python_lock.h"
#include "webgpu/library.h"
#include "webgpu/register.h"

namespace tinyt {

// -1: there is no such kind.
inline int64_t device_kind_of(const std::string& name) {
  const auto kind = find_device_kind(name);
  return kind ? static_cast<int64_t>(*kind) : -1;
}
inline std::string device_kind_name(int64_t kind) {
  return std::string(name_of(static_cast<DeviceKind>(kind)));
}
// How many devices of a kind there are.
inline int64_t device_count_of(int64_t kind) {
  const Runtime* runtime = find_runtime(static_cast<DeviceKind>(kind));
  return runtime ? runtime->device_count() : 0;
}
inline bool device_has_numbers(int64_t kind) {
  const Runtime* runtime = find_runtime(static_cast<DeviceKind>(kind));
  return runtime && runtime->has_numbers();
}
// The kinds of devices with memory that are of this build, and registered when they are named
// first.
struct KindOfBuild {
  std::string_view name;
  void (*bring)();
  Runtime& (*find)();  // without registering it
};
inline constexpr KindOfBuild kKindsOfBuild[] = {
    {"cuda", cuda::register_cuda, cuda::find_cuda},
    {"opencl", opencl::register_opencl, opencl::find_opencl},
    {"webgpu", webgpu::register_webgpu, webgpu::find_webgpu}};
inline std::vector<std::string> kinds_of_build() {
  std::vector<std::string> names;
  for (const KindOfBuild& kind : kKindsOfBuild) names.emplace_back(kind.name);
  return names;
}
// Brings a kind of device that is registered when it is named first.
inline void need_device_kind(const std::string& name) {
  if (name == "meta") meta::register_meta();
  for (const KindOfBuild& kind : kKindsOfBuild)
    if (kind.name == name) kind.bring();
}
// What is to be told of a kind of device that is there now; mostly empty.
inline std::string take_device_warning(const std::string& name) {
  const auto kind = find_device_kind(name);
  return kind && gpu::has_driver(*kind) ? gpu::KernelCache::take_warning() : "";
}
// Why a device of that kind can be used no more; mostly empty.
inline std::string unusable(Runtime& runtime, int index) {
  try {
    runtime.check_usable(index);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}
// (hardware, bytes of memory or 0, why it is unusable or "") of the devices of such a kind, which
// is not registered by that.
inline std::vector<std::tuple<std::string, int64_t, std::string>> look_for_devices(
    const std::string& name) {
  const auto kind = std::ranges::find(kKindsOfBuild, name, &KindOfBuild::name);
  require(kind != std::end(kKindsOfBuild), ErrorKind::Value, "no kind ", name, " in this build");
  Runtime& runtime = kind->find();
  std::vector<std::tuple<std::string, int64_t, std::string>> found;
  for (int i = 0; i < runtime.device_count(); ++i) {
    const DeviceProperties properties = runtime.properties(i);
    found.emplace_back(properties.name, static_cast<int64_t>(properties.memory_bytes),
                       unusable(runtime, i));
  }
  return found;
}
// "cpu, cuda:0, cuda:1".
inline std::string device_names() {
  std::string all;
  for (const DeviceKind kind : device_kinds())
    for (int i = 0; i < find_runtime(kind)->device_count(); ++i)
      all += (all.empty() ? "" : ", ") + name_of(Device{kind, static_cast<uint8_t>(i)});
  return all;
}
inline void synchronise_device(int64_t code) {
  const Device device = device_of(code);
  const PythonUnlocked unlocked;
  try {
    runtime_of(device).synchronise(device.index);
  } catch (BackendError& error) {
    error.name_op("synchronize");
    throw;
  }
}
inline std::string device_hardware(int64_t code) {
  const Device device = device_of(code);
  return runtime_of(device).properties(device.index).name;
}
inline int64_t device_bytes(int64_t code) {
  const Device device = device_of(code);
  return static_cast<int64_t>(runtime_of(device).properties(device.index).memory_bytes);
}
// Where this thread makes tensors of nothing; what it was before.
inline int64_t swap_creation_device(int64_t code) {
  const int64_t before = code_of(t_modes.device);
  t_modes.device = device_of(code);
  return before;
}
// The device of a kind that this thread means where it names no number.
inline int64_t current_index(int64_t kind) { return t_modes.indices[static_cast<size_t>(kind)]; }
inline void set_current_index(int64_t kind, int64_t index) {
  t_modes.indices[static_cast<size_t>(kind)] = static_cast<uint8_t>(index);
  int64_t mark = 0;
  for (const uint8_t of_kind : t_modes.indices) mark = (mark * 31 + of_kind) & 127;
  t_modes.indices_mark = static_cast<uint8_t>(mark);
}
// Of all kinds, in seven bits.
inline int64_t current_indices() { return t_modes.indices_mark; }
// Not of devices whose memory the host could read: they may not have written it yet.
inline bool is_on_host(const Tensor& t) { return t.device() == Device{}; }
inline bool is_on_cuda(const Tensor& t) { return cuda::is_cuda(t.device()); }
// DLPack's number of the kind of its device: kDLCPU, kDLCUDA, kDLROCM, or kDLExtDev of all others.
inline int32_t dlpack_device_type(const Tensor& t) {
  if (is_on_host(t)) return 1;
  if (!is_on_cuda(t)) return 12;
  return cuda::is_of_hip(t.device()) ? 10 : 2;
}
// What another library's stream is asked for next waits for a tensor of CUDA.
inline void let_stream_wait(const Tensor& t, int64_t stream) {
  cuda::let_stream_wait(t.device(), stream);
}
// The first element's address, on CUDA devices, too; of other memory its handle.
inline size_t address_of(const Tensor& t) {
  if (cuda::is_cuda(t.device())) return cuda::address_of(t);
  return is_on_host(t) ? reinterpret_cast<size_t>(t.host_data())
                       : reinterpret_cast<size_t>(t.storage().buffer.handle);
}
// Of a tensor that is there, which no recording sees.
inline Tensor host_copy(const Tensor& t) {
  const PausedRecording at_once;
  const PythonUnlocked unlocked;
  return to_device(t, {});
}

}  // namespace tinyt
