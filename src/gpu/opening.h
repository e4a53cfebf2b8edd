// Opening the library of a backend once, when its devices are asked for first.
#pragma once

#include <memory>
#include <mutex>
#include <string_view>

#include "core/base/fork.h"
#include "core/device/device.h"
#include "gpu/driver.h"

namespace tinyt::gpu {

// The driver of type D over what `library` opens; which is tried again after an error.
// Safe from any thread.
template <class D, auto library>
class Opening {
 public:
  // It lives as long as the process; no tensor is on its devices yet.
  static D& driver() {
    const std::lock_guard<RunMutex> lock(mutex());
    return opened();
  }
  static void register_as(std::string_view name) {
    if (find_device_kind(name)) return;
    const std::lock_guard<RunMutex> lock(mutex());
    if (!find_device_kind(name)) register_gpu(name, opened());
  }

 private:
  static RunMutex& mutex() {
    static RunMutex& mutex = *new RunMutex;
    return mutex;
  }
  static D& opened() {
    static D* driver = nullptr;
    if (driver == nullptr) driver = std::make_unique<D>(library()).release();
    return *driver;
  }
};

}  // namespace tinyt::gpu
