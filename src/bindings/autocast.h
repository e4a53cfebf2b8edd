// Whether this thread is inside `autocast`, and how it casts there.
#pragma once

#include "core/base/dtype.h"

namespace tinyt {

struct Autocast {
  bool active = false;
  bool cache = true;  // one copy of a parameter for all its uses
  DType dtype = DType::BFloat16;
};
inline thread_local Autocast t_autocast;

}  // namespace tinyt
