// What math_basic.h does with the bits of an F64, of double words (simd_double_word.h). Included by
// it alone.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

inline F64 pow2(I64 k) { return F64(pow2(as_i32(k))); }

// x 2^k, rounded once, where it is subnormal too: there x is rounded to a multiple of the least
// float32 before, by a sum with 2^(23 - k) times that.
inline F64 scale(F64 x, I64 k) {
  const I32 n = at_most(at_least(as_i32(k), splat(-252)), splat(252));
  const F32 grid = pow2(-126 - n);
  const I32 subnormal = abs(x.hi) < grid;  // a grid below 2^-126 is 0 or negative
  const F32 far = copysign(grid, x.hi);
  const Two<F32> sum = fast_two_sum(far, x.hi);
  const F32 rounded = copysign((sum.hi + (sum.lo + x.lo)) - far, x.hi);
  const F32 up = pow2(half(n)), more = pow2(n - half(n));
  const auto scaled = [&](F32 part) { return part * up * more; };
  return {scaled(select(subnormal, rounded, x.hi)), scaled(select(subnormal, F32(), x.lo))};
}

inline Parts<F64> split(F64 x) {
  const auto [m, k] = split(x.hi);
  if (x.single) return {F64(m), F64(k)};
  // In two steps, as the first part may be near either end of the range.
  I32 power;
  nearest(-k, power);
  const F32 low = x.lo * pow2(half(power)) * pow2(power - half(power));
  return {F64(m, low), F64(k)};
}

// y with its sign turned where bit 1 of q is set.
inline F64 turn_sign(F64 y, I64 q) { return turned(y, (as_i32(q) & 2) << 30); }

// Double words have more bits than their functions need: second parts of theirs are 0.
inline Two<F64> two_sum(F64 a, F64 b) { return {a + b, F64{}}; }
inline Two<F64> fast_two_sum(F64 a, F64 b) { return {a + b, F64{}}; }
inline Two<F64> two_prod(F64 a, F64 b) { return {a * b, F64{}}; }

// As one chain: another operand would be another double word.
template <int N>
F64 poly(F64 x, const double (&c)[N]) {
  F64 y = c[N - 1];
  for (int i = N - 2; i >= 0; --i) y = finite_fma(y, x, c[i]);
  return y;
}

}  // namespace
}  // namespace tinyt::cpu
