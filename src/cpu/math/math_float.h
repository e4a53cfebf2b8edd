// Float values as such: hypot, nextafter, fmax, fmin, lerp.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

// sqrt(x^2 + y^2) without early over- or underflow; an infinity wins over a NaN.
TINYT_INLINE F64 hypot(F64 x, F64 y) {
  const F64 a = maximum(abs(x), abs(y)), b = minimum(abs(x), abs(y));
  const F64 down = select(a > 0x1p500, splat(0x1p-600), splat(1.0));
  const F64 unit = select(a < 0x1p-450, splat(0x1p600), down);
  const F64 c = a * unit, d = b * unit;
  const F64 r = sqrt(fma(c, c, d * d)) / unit, inf = splat(__builtin_inf());
  return select((abs(x) == inf) | (abs(y) == inf), inf, r);
}

// Of float32 values. Double words have their range, so that both are scaled.
TINYT_INLINE F64 root_of_squares(F64 x, F64 y) {
  if constexpr (!kDoubleWords) return sqrt(x * x + y * y);
  const F64 a = abs(x), b = abs(y);
  const I64 large = (I64)(a > 0x1p50) | (I64)(b > 0x1p50);
  const I64 small = (I64)(a < 0x1p-50) & (I64)(b < 0x1p-50);
  const I64 power = select(large, I64{} + 80, select(small, I64{} - 90, I64{}));
  const F64 unit = pow2((I64)(0 - wrap(power))), c = a * unit, d = b * unit;
  return scale(sqrt(c * c + d * d), power);
}
TINYT_INLINE F32 hypot(F32 x, F32 y) {
  const F32 r = through_double(x, y, [](F64 a, F64 b) { return root_of_squares(a, b); });
  const F32 inf = splat(__builtin_inff());
  return select((abs(x) == inf) | (abs(y) == inf), inf, r);
}

// The next value from x towards y: the bits of a float are in the order of its magnitude.
template <class V>
TINYT_INLINE V nextafter(V x, V y) {
  using M = Mask<V>;
  const M bits = bit_cast<M>(x), away = (M)((y > x) == (x > 0));
  const V moved = bit_cast<V>(wrap(bits) - wrap(away) + wrap(~away));
  const V least = copysign(bit_cast<V>(M{} + 1), y);
  const V next = select(x == y, y, select(x == 0, least, moved));
  return select((x != x) | (y != y), x + y, next);
}

// The larger (smaller) one; a NaN loses.
template <class V>
TINYT_INLINE V fmax(V x, V y) {
  return select(x != x, y, select(y != y, x, maximum(x, y)));
}
template <class V>
TINYT_INLINE V fmin(V x, V y) {
  return select(x != x, y, select(y != y, x, minimum(x, y)));
}

// x + w (y - x), from the nearer end, so that both ends are exact.
template <class V>
TINYT_INLINE V lerp(V x, V y, V w) {
  const V way = y - x;
  return select(abs(w) < static_cast<Element<V>>(0.5), x + w * way, y - way * (1 - w));
}

}  // namespace
}  // namespace tinyt::cpu
