// The context that a thread calls the driver in.
#pragma once

#include "cuda/library.h"

namespace tinyt::cuda {

// Makes a context the thread's, and at the end what was: another library may have one.
class CurrentContext {
 public:
  CurrentContext(const Api& api, Context context) : api_(api) {
    check(api_, api_.cuCtxGetCurrent(&before_), "cuCtxGetCurrent");
    if (before_ == context) return;
    check(api_, api_.cuCtxSetCurrent(context), "cuCtxSetCurrent");
    is_other_ = true;
  }
  ~CurrentContext() {
    if (is_other_) api_.cuCtxSetCurrent(before_);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  const Api& api_;
  Context before_ = nullptr;
  bool is_other_ = false;
};

}  // namespace tinyt::cuda
