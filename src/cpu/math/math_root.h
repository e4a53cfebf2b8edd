// Reciprocal square roots.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

TINYT_INLINE F64 rsqrt(F64 x) { return 1.0 / sqrt(x); }

// Of normal numbers without a root or a quotient: half the exponent, taken from the bits, is within
// 3.5% of the result (Blinn, "Floating-point tricks", 1997). One step of third and one of first
// order in e = |x| y^2 - 1, which is above 0.1 in size where the first guess was none: at zeros,
// infinities and most subnormal numbers. The sign, in all bits, makes a NaN.
TINYT_INLINE F32 rsqrt(F32 x) {
  if constexpr (!kHasFma) return 1.0f / sqrt(x);
  const F32 size = cpu::abs(x);
  const F32 guess = bit_cast<F32>(0x5F3759DF - (bit_cast<U32>(size) >> 1));
  const F32 e = fma(size * guess, guess, splat(-1.0f));
  const F32 slope = fma(fma(e, splat(-0.3125f), splat(0.375f)), e, splat(-0.5f));
  const F32 near = fma(guess * e, slope, guess);
  const F32 root = fma(near * fma(size * near, near, splat(-1.0f)), splat(-0.5f), near);
  const F32 y = bit_cast<F32>(bit_cast<I32>(root) | (bit_cast<I32>(x) >> 31));
  const F32 off = cpu::abs(e);
  if (!any_above(off, 0.1f)) return y;
  return select(off > 0.1f, 1.0f / sqrt(x), y);
}

}  // namespace
}  // namespace tinyt::cpu
