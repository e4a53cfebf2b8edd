#include "cuda/register.h"

#include <atomic>

#include "cuda/cuda_driver.h"
#include "cuda/interop.h"
#include "cuda/library.h"
#include "gpu/opening.h"

namespace tinyt::cuda {

using Opening = gpu::Opening<CudaDriver, libraries>;

namespace {

std::atomic<int> g_kind{-1};  // of registered devices

}  // namespace

Runtime& find_cuda() { return Opening::driver(); }
void register_cuda() {
  Opening::register_as("cuda");
  g_kind.store(static_cast<int>(*find_device_kind("cuda")), std::memory_order_release);
}
bool is_cuda(Device device) {
  return static_cast<int>(device.kind) == g_kind.load(std::memory_order_acquire);
}
Device cuda_device(int index) {
  register_cuda();
  const auto kind = static_cast<DeviceKind>(g_kind.load(std::memory_order_acquire));
  const int count = find_runtime(kind)->device_count();
  require(index >= 0 && index < count, ErrorKind::Device, "device: there is no CUDA device ", index,
          ", this process has ", count);
  return {kind, static_cast<uint8_t>(index)};
}

}  // namespace tinyt::cuda
