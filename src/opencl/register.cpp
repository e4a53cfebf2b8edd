#include "opencl/register.h"

#include <memory>
#include <mutex>

#include "core/base/fork.h"
#include "core/device/device.h"
#include "opencl/library.h"
#include "opencl/opencl_driver.h"

namespace tinyt::opencl {

void register_opencl() {
  if (find_device_kind("opencl")) return;
  static RunMutex& mutex = *new RunMutex;
  const std::lock_guard<RunMutex> lock(mutex);
  if (find_device_kind("opencl")) return;
  auto driver = std::make_unique<OpenClDriver>(library());
  gpu::register_gpu("opencl", *driver);
  driver.release();  // it lives as long as the process
}

}  // namespace tinyt::opencl
