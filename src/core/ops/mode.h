// Modes of a thread: what the front end's calls do beside computing.
#pragma once

#include "core/base/dtype.h"
#include "core/device/device.h"
#include "core/memory/thread_pointer.h"

namespace tinyt {

// Casts of operands inside `autocast`.
struct Autocast {
  bool active = false;
  bool cache = true;  // one copy of a parameter for all its uses
  DType dtype = DType::BFloat16;
};

struct Modes {
  bool grad = true;          // operations are recorded on the tape
  bool saved_hooks = false;  // saved tensors go through Python hooks
  Autocast autocast;
  Device device;  // where tensors are made of nothing
};

extern TINYT_THREAD_POINTER Modes t_modes;

}  // namespace tinyt
