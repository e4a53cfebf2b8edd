// A device's context as that of the thread, and calls in its stream: for the driver's own files.
#pragma once

#include <utility>

#include "core/memory/device_cache.h"
#include "cuda/cuda_driver.h"

namespace tinyt::cuda {

inline Address address_in(const Buffer& buffer, size_t place) {
  return reinterpret_cast<Address>(buffer.handle) + buffer.offset + place;
}

// Makes a device's context the thread's, and at the end what was: another library may have one.
class CudaDriver::Current {
 public:
  Current(const Api& api, const CudaDevice& device)
      : api_(api), launches_(std::exchange(t_launches, device.launches.get())) {
    try {
      enter(device);
    } catch (...) {
      t_launches = launches_;
      throw;
    }
  }
  ~Current() {
    t_launches = launches_;
    if (is_other_) api_.cuCtxSetCurrent(before_);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  void enter(const CudaDevice& device) {
    check(api_, api_.cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
    if (before_ == device.context) return;
    check(api_, api_.cuCtxSetCurrent(device.context), "cuCtxSetCurrent");
    is_other_ = true;
  }

  const Api& api_;
  const LaunchLog* const launches_;  // of whose context was the thread's
  Context before_ = nullptr;
  bool is_other_ = false;
};

// What the driver itself takes memory for may find none: once more, when what is kept went back.
template <class F>
void CudaDriver::enqueue(int index, const char* name, const F& call) {
  CudaDevice& on = device(index);
  const Current current(api_, on);
  on.work->send();
  Status status = call(on.stream);
  if (status == kOutOfMemory) [[unlikely]] {
    memory::cache_of(device_at(index)).empty_cache();
    check(api_, api_.cuStreamSynchronize(on.stream), "cuStreamSynchronize");
    status = call(on.stream);
  }
  check(api_, status, name);
}

}  // namespace tinyt::cuda
