// What math_basic.h does with the bits of an F64, of double words (simd_double_word.h). Included by
// it alone.
#pragma once

#include <algorithm>
#include <cmath>

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

// A polynomial for a float32 result, |x| <= 2^Reach, as one chain: of its last terms those that add
// less than 2^-38 of the first are left out, those that add less than 2^-13 are summed in float32.
template <int Reach = 0, int N>
F64 poly(F64 x, const double (&c)[N]) {
  const auto from = [&](int bits) {
    int i = N;
    for (double sum = 0; i > 1; --i) {
      sum += std::ldexp(std::abs(c[i - 1]), Reach * (i - 1));
      if (sum > std::ldexp(std::abs(c[0]), -bits)) break;
    }
    return i;
  };
  const int end = from(38), single = from(13);
  F64 y = c[end - 1];
  if (single < end) {
    F32 last = static_cast<float>(c[end - 1]);
    for (int i = end - 2; i >= single; --i) last = fma(last, x.hi, F32(c[i]));
    y = F64(last);
  }
  for (int i = std::min(single, end - 1) - 1; i >= 0; --i) y = finite_fma(y, x, c[i]);
  return y;
}

}  // namespace
}  // namespace tinyt::cpu
