#include "webgpu/register.h"

#include <memory>
#include <mutex>

#include "core/base/fork.h"
#include "core/device/device.h"
#include "webgpu/library.h"
#include "webgpu/webgpu_driver.h"

namespace tinyt::webgpu {

namespace {

RunMutex& opening() {
  static RunMutex& mutex = *new RunMutex;
  return mutex;
}

// It lives as long as the process; with `opening` held.
WebGpuDriver& opened_driver() {
  static WebGpuDriver* driver = nullptr;
  if (driver == nullptr) driver = std::make_unique<WebGpuDriver>(library()).release();
  return *driver;
}

}  // namespace

const Runtime& find_webgpu() {
  const std::lock_guard<RunMutex> lock(opening());
  return opened_driver();
}

void register_webgpu() {
  if (find_device_kind("webgpu")) return;
  const std::lock_guard<RunMutex> lock(opening());
  if (!find_device_kind("webgpu")) gpu::register_gpu("webgpu", opened_driver());
}

}  // namespace tinyt::webgpu
