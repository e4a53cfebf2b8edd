// sinh, cosh, asinh, acosh, atanh.
#pragma once

#include "cpu/math/math_log.h"

namespace tinyt::cpu {
namespace {

// (sinh(x) / x - 1) / x^2 as a polynomial in x^2, |x| <= 1; relative error of sinh 2^-56.
inline constexpr double kSinh[] = {
    0x1.5555555555556p-3,  0x1.11111111110a5p-7,  0x1.a01a01a028b87p-13, 0x1.71de3a4640a80p-19,
    0x1.ae646731c8db7p-26, 0x1.611a4cb23544cp-33, 0x1.b4ca5f6ae589bp-41};

// e^|x| / 2, which overflows no earlier than sinh and cosh do.
TINYT_INLINE F64 half_exp(F64 x) {
  const Two<F64> d = two_sum(clamp(abs(x), 0.0, 720.0), splat(-kLn2Hi));
  return exp(d.hi, d.lo - kLn2Lo);
}
TINYT_INLINE F64 sinh(F64 x) {
  const F64 z = x * x, h = half_exp(x);
  const F64 large = copysign(h - 0.25 / h, x);
  return select(abs(x) < 1.0, fma(x * z, poly(z, kSinh), x), large);
}
TINYT_INLINE F64 cosh(F64 x) {
  const F64 h = half_exp(x);
  return h + 0.25 / h;
}

// log(x + sqrt(x^2 +- 1)) as log1p of what is above 1; log(2x) where the 1 no longer counts.
inline constexpr double kFar = 0x1p28;
TINYT_INLINE F64 log1p_or_far(F64 u, F64 x, I64 far) {
  return log1p(select(far, x - 1.0, u)) + select(far, splat(kLn2), F64{});
}
TINYT_INLINE F64 asinh(F64 x) {
  const F64 a = abs(x), z = a * a;
  return copysign(log1p_or_far(a + z / (1.0 + sqrt(1.0 + z)), a, (I64)(a > kFar)), x);
}
TINYT_INLINE F64 acosh(F64 x) {
  const F64 t = x - 1.0;
  const F64 y = log1p_or_far(t + sqrt(t * (t + 2.0)), x, (I64)(x > kFar));
  return select(t < 0.0, splat(__builtin_nan("")), y);
}
TINYT_INLINE F64 atanh(F64 x) {
  const F64 a = abs(x);
  return copysign(0.5 * log1p(2.0 * a / (1.0 - a)), x);
}

TINYT_INLINE F32 sinh(F32 x) {
  return identity_near_zero(x, through_double(x, [](F64 d) { return sinh(d); }));
}
TINYT_INLINE F32 cosh(F32 x) {
  return through_double(x, [](F64 d) { return cosh(d); });
}
TINYT_INLINE F32 asinh(F32 x) {
  return through_double(x, [](F64 d) { return asinh(d); });
}
TINYT_INLINE F32 acosh(F32 x) {
  return through_double(x, [](F64 d) { return acosh(d); });
}
TINYT_INLINE F32 atanh(F32 x) {
  return through_double(x, [](F64 d) { return atanh(d); });
}

}  // namespace
}  // namespace tinyt::cpu
