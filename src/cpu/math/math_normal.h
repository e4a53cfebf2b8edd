// The standard normal distribution: the logarithm of its distribution function, and its quantiles.
#pragma once

#include "cpu/math/math_erf.h"

namespace tinyt::cpu {
namespace {

// e^(b^2) erfc(b) for b >= 0.45; beyond kErfc's interval by the asymptotic series (DLMF 7.12.1).
TINYT_INLINE F64 scaled_erfc(F64 b) {
  const I64 far = (I64)(b > 27.0);
  const F64 c = select(far, splat(1.0), b), r = 1.0 / (c + 3.0);
  const F64 near = poly((c - 3.0) * r, kErfc) * r;
  if (!any(far)) return near;
  const F64 z = 0.5 / (b * b);
  F64 series = splat(1.0);
#pragma GCC unroll 6
  for (int k = 11; k >= 1; k -= 2) series = 1.0 - k * z * series;
  return select(far, 0x1.20dd750429b6dp-1 / b * series, near);
}

// e^(x^2) erfc(x).
TINYT_OUTLINE F64 erfcx(F64 x) {
  const I64 right = (I64)(x >= 0.5);
  const F64 far = scaled_erfc(select(right, x, splat(1.0)));
  const Two<F64> square = two_prod(x, x);
  const F64 near = exp(square.hi, square.lo) * erfc(x);
  // Squares beyond the exponential's range have no second part.
  return select(right, far, select(x < -27.0, splat(__builtin_inf()), near));
}
TINYT_INLINE F32 erfcx(F32 x) {
  return through_double(x, [](F64 d) { return erfcx(d); });
}

inline constexpr double kRootHalf = 0x1.6a09e667f3bcdp-1;

TINYT_OUTLINE F64 log_ndtr(F64 x) {
  const I64 low = (I64)(x < -1.0);
  // From 1 on by the scaled function: erfc of a rounded argument would be off by its square.
  const I64 high = (I64)(x > 1.0);
  const F64 above = select(high, x, splat(1.0));
  const Two<F64> square = two_prod(above, above);
  const F64 rest = scaled_erfc(above * kRootHalf) * lifted_exp(-0.5 * square.hi, -0.5 * square.lo);
  const F64 upper = lowered(rest);
  F64 near = log1p(-0.5 * select(high, select(x > 40.0, F64{}, upper), erfc(x * kRootHalf)));
  if constexpr (kDoubleWords)  // where the logarithm is what it is of
    near = select(high & (I64)(rest < 0x1p10), lowered(-0.5 * rest), near);
  if (!any(low)) return near;
  const F64 a = select(low, x, splat(-1.0));
  return select(low, log(0.5 * scaled_erfc(-a * kRootHalf)) - 0.5 * a * a, near);
}
TINYT_INLINE F32 log_ndtr(F32 x) {
  return through_double(x, [](F64 d) { return log_ndtr(d); });
}

// By erfinv in the middle; in a tail of probability t by three steps of Newton's method for
// log_ndtr(-y) = log(t) from Abramowitz & Stegun 26.2.23; two are enough for a float32.
TINYT_OUTLINE F64 ndtri(F64 p) {
  const F64 t = minimum(p, 1.0 - p);
  const F64 middle = 2.0 * kRootHalf * erfinv(2.0 * p - 1.0);
  const I64 tail = (I64)(t < 0.1) & (I64)(t > 0.0);
  if (!any(tail)) return select(t < 0.0, splat(__builtin_nan("")), middle);
  const F64 log_t = log(select(tail, t, splat(0.05))), s = sqrt(-2.0 * log_t);
  const F64 over = fma(fma(splat(0.010328), s, splat(0.802853)), s, splat(2.515517));
  const F64 under = fma(fma(splat(0.001308), s, splat(0.189269)), s, splat(1.432788));
  F64 y = s - over / fma(under, s, splat(1.0));
  for (int i = 0; i < (kDoubleWords ? 2 : 3); ++i) {
    const F64 scaled = scaled_erfc(y * kRootHalf);
    y += (log(0.5 * scaled) - 0.5 * y * y - log_t) * scaled * 0x1.40d931ff62705p+0;
  }
  const F64 found = select(tail, select(p < 0.5, -y, y), middle);
  return select(t < 0.0, splat(__builtin_nan("")), found);
}
TINYT_INLINE F32 ndtri(F32 p) {
  return through_double(p, [](F64 d) { return ndtri(d); });
}

}  // namespace
}  // namespace tinyt::cpu
