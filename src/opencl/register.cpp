#include "opencl/register.h"

#include <memory>
#include <mutex>

#include "core/base/fork.h"
#include "core/device/device.h"
#include "opencl/library.h"
#include "opencl/opencl_driver.h"

namespace tinyt::opencl {

namespace {

RunMutex& opening() {
  static RunMutex& mutex = *new RunMutex;
  return mutex;
}

// It lives as long as the process; with `opening` held.
OpenClDriver& opened_driver() {
  static OpenClDriver* driver = nullptr;
  if (driver == nullptr) driver = std::make_unique<OpenClDriver>(library()).release();
  return *driver;
}

}  // namespace

const Runtime& find_opencl() {
  const std::lock_guard<RunMutex> lock(opening());
  return opened_driver();
}

void register_opencl() {
  if (find_device_kind("opencl")) return;
  const std::lock_guard<RunMutex> lock(opening());
  if (!find_device_kind("opencl")) gpu::register_gpu("opencl", opened_driver());
}

}  // namespace tinyt::opencl
