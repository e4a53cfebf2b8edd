// asin, acos, atan, atan2.
#pragma once

#include "cpu/math/math_trig.h"

namespace tinyt::cpu {
namespace {

inline constexpr double kPi = 0x1.921fb54442d18p+1, kPiLo = 0x1.1a62633145c07p-53;
inline constexpr double kQuarterPi = 0x1.921fb54442d18p-1, kQuarterPiLo = 0x1.1a62633145c07p-55;

// (asin(s) / s - 1) / s^2 as a polynomial in s^2, s <= 1/2; relative error of asin 2^-59.
inline constexpr double kAsin[] = {
    0x1.5555555555577p-3, 0x1.333333332e156p-4, 0x1.6db6db72101c9p-5, 0x1.f1c71a95f089dp-6,
    0x1.6e8bdec221029p-6, 0x1.1c49f28f8f101p-6, 0x1.ca1f57ecc982dp-7, 0x1.75873edcc2e3ap-7,
    0x1.61331bc48c199p-7, 0x1.e680daff4cbc3p-9, 0x1.63735df6a3b60p-6, -0x1.57c578b582d8dp-6,
    0x1.0b35f31887f19p-5};

// (atan(u) / u - 1) / u^2 as a polynomial in u^2, |u| <= tan(pi/8); relative error of atan 2^-58.
inline constexpr double kAtan[] = {
    -0x1.5555555555554p-2, 0x1.9999999999648p-3, -0x1.2492492475502p-3, 0x1.c71c71b73a04ep-4,
    -0x1.745d14b731872p-4, 0x1.3b136df015f9dp-4, -0x1.110c6f06f3889p-4, 0x1.e171b2307b27dp-5,
    -0x1.ab7b756124a5dp-5, 0x1.70e4aaadef4c9p-5, -0x1.12231011bf32dp-5, 0x1.f19275242c47ep-7};
inline constexpr double kTanPi8 = 0x1.a827999fcef32p-2, kTan3Pi8 = 0x1.3504f333f9de6p+1;

// asin(s) in two parts, for s = |x| or, where `large`, s = sqrt((1 - |x|) / 2): then
// asin|x| = pi/2 - 2 asin(s). What the square root lost is made up for.
TINYT_INLINE Two<F64> arc_parts(F64 a, I64 large) {
  const F64 z = select(large, 0.5 * (1.0 - a), a * a);
  const F64 s = select(large, sqrt(z), a);
  const Two<F64> p = two_prod(s, s);
  const F64 lost = select(large & (I64)(s > 0.0), ((z - p.hi) - p.lo) / (2.0 * s), F64{});
  return {s, fma(s * z, poly<-2>(z, kAsin), lost)};
}

TINYT_INLINE F64 asin(F64 x) {
  const F64 a = abs(x);
  const I64 large = (I64)(a > 0.5);
  const auto [s, tail] = arc_parts(a, large);
  const F64 far = (kHalfPiHi - 2.0 * s) + (kHalfPiLo - 2.0 * tail);
  return copysign(select(large, far, s + tail), x);
}
TINYT_INLINE F64 acos(F64 x) {
  const F64 a = abs(x);
  const I64 large = (I64)(a > 0.5);
  const auto [s, tail] = arc_parts(a, large);
  const F64 near_pi = (kPi - 2.0 * s) + (kPiLo - 2.0 * tail);
  const F64 middle = (kHalfPiHi - copysign(s, x)) + (kHalfPiLo - select(x < 0.0, -tail, tail));
  return select(large, select(x < 0.0, near_pi, 2.0 * (s + tail)), middle);
}

// atan(a / b) in [0, pi/2] for a, b >= 0, not both 0 or infinite, a + b finite or one infinite. One
// division, after turning by pi/4 or pi/2.
TINYT_INLINE F64 atan_ratio(F64 a, F64 b) {
  const I64 steep = (I64)(a > kTan3Pi8 * b), middle = (I64)(a > kTanPi8 * b);
  const F64 above = select(steep, -b, select(middle, a - b, a));
  const F64 below = select(steep, a, select(middle, a + b, b));
  const F64 u = above / below, z = u * u;
  const F64 turn = select(steep, splat(kHalfPiHi), select(middle, splat(kQuarterPi), F64{}));
  const F64 turn_low = select(steep, splat(kHalfPiLo), select(middle, splat(kQuarterPiLo), F64{}));
  return turn + (u + fma(u * z, poly<-2>(z, kAtan), turn_low));
}
TINYT_INLINE F64 atan(F64 x) { return copysign(atan_ratio(abs(x), splat(1.0)), x); }

inline constexpr double kHugeSide = kDoubleWords ? 0x1p120 : 0x1p1000;

// The angle of the point (x, y), with IEEE 754's values at zeros and infinities.
TINYT_INLINE F64 atan2(F64 y, F64 x) {
  F64 a = abs(y), b = abs(x);
  const I64 huge = (I64)(maximum(a, b) > kHugeSide);  // a + b must not overflow
  a = select(huge, a * 0x1p-64, a);
  b = select(huge, b * 0x1p-64, b);
  if constexpr (kDoubleWords) {  // second parts must not be subnormal
    const I64 tiny = (I64)(maximum(a, b) < 0x1p-60);
    a = select(tiny, a * 0x1p80, a);
    b = select(tiny, b * 0x1p80, b);
  }
  const I64 corner = (I64)(a == b) & ((I64)(a == __builtin_inf()) | (I64)(a == 0.0));
  b = select(corner, splat(1.0), b);
  a = select(corner & (I64)(a > 0.0), splat(1.0), a);
  const F64 r = atan_ratio(a, b);
  return copysign(select(sign_bit(x) != 0, (kPi - r) + kPiLo, r), y);
}

TINYT_INLINE F32 asin(F32 x) {
  return through_double(x, [](F64 d) { return asin(d); });
}
TINYT_INLINE F32 acos(F32 x) {
  return through_double(x, [](F64 d) { return acos(d); });
}
TINYT_INLINE F32 atan(F32 x) {
  return through_double(x, [](F64 d) { return atan(d); });
}
TINYT_INLINE F32 atan2(F32 y, F32 x) {
  return through_double(y, x, [](F64 a, F64 b) { return atan2(a, b); });
}

}  // namespace
}  // namespace tinyt::cpu
