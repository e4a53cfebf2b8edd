// Which scalar ops are computed in which dtypes.
#pragma once

#include "core/ops/ops.h"

namespace tinyt::cpu {

// Whether an op of that row of ops.def has a kernel for the compute dtype T.
template <class T>
constexpr bool takes(DTypeRule rule, uint32_t flags) {
  constexpr bool kFloat = static_cast<T>(0.5) != 0, kBool = sizeof(T) == 1;
  if ((rule == DTypeRule::Float || (flags & op_flags::floating) != 0) && !kFloat) return false;
  if ((flags & op_flags::no_bool) != 0 && kBool) return false;
  return (flags & op_flags::integral) == 0 || !kFloat;
}

}  // namespace tinyt::cpu
