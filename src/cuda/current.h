// The context of a device as a thread's.
#pragma once

#include "cuda/cuda_driver.h"
#include "cuda/library.h"

namespace tinyt::cuda {

// Makes a device's context the thread's, and at the end what was: another library may have one.
class CudaDriver::Current {
 public:
  Current(const Api& api, const CudaDevice& device) : api_(api) {
    check(api_, api_.cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
    if (before_ == device.context) return;
    check(api_, api_.cuCtxSetCurrent(device.context), "cuCtxSetCurrent");
    is_other_ = true;
  }
  ~Current() {
    if (is_other_) api_.cuCtxSetCurrent(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Api& api_;
  Context before_ = nullptr;
  bool is_other_ = false;
};

}  // namespace tinyt::cuda
