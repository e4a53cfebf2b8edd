// log, log2, log10, log1p, logaddexp, logaddexp2, xlogy, xlog1py, pow.
#pragma once

#include "cpu/math/math_exp.h"

namespace tinyt::cpu {
namespace {

// The values at 0, below 0, at inf and NaN put in the place of y.
template <class V>
TINYT_INLINE V log_edges(V x, V y) {
  const Element<V> inf = static_cast<Element<V>>(__builtin_inf());
  y = select(x == inf, x, y);
  y = select(x == 0, splat(-inf), y);
  return select(x >= 0, y, splat(static_cast<Element<V>>(__builtin_nan(""))));
}

// (log(1 + f) - f + f^2 / 2) / f^3 on [sqrt(1/2) - 1, sqrt(2) - 1]; relative error of log 2^-30.
inline constexpr float kLog32[] = {0x1.555546p-2f,  -0x1.ffffeep-3f, 0x1.99a53p-3f,
                                   -0x1.5562e8p-3f, 0x1.23342cp-3f,  -0x1.fb43bp-4f,
                                   0x1.e63e96p-4f,  -0x1.e2e178p-4f, 0x1.1b5e78p-4f};

TINYT_INLINE F32 log(F32 x) {
  const auto [m, k] = split(x);
  const F32 f = m - 1.0f, ff = f * f;
  const F32 tail = fma(ff * f, poly(f, kLog32), k * kLn2Lo32) - 0.5f * ff;
  return log_edges(x, fma(k, splat(kLn2Hi32), f + tail));
}

// With s = f / (2 + f), log(1 + f) = 2 atanh(s) = 2s + s R(s^2); R(z) / z for z <= 0.0295, relative
// error of log 2^-65.
inline constexpr double kLog64[] = {
    0x1.5555555555555p-1, 0x1.9999999999df3p-2, 0x1.249249242bd87p-2, 0x1.c71c7258880c7p-3,
    0x1.745cde4d074bdp-3, 0x1.3b20a9475b0d2p-3, 0x1.0f5cde2a4cd8ep-3, 0x1.0f63302216960p-3};

// The same, and kExp64, for results in float32; relative errors of log and exp 2^-37, 2^-34.
inline constexpr double kLogSingle[] = {0x1.555554fd941fdp-1, 0x1.999a7a9b780c7p-2,
                                        0x1.2438d32c77509p-2, 0x1.e2f71596319e6p-3};
inline constexpr double kExpSingle[] = {0x1.0000003a7184ep-1,  0x1.55555441be8ecp-3,
                                        0x1.55548d1043861p-5,  0x1.111271fc18d70p-7,
                                        0x1.6d8db0c235bbbp-10, 0x1.9f081017c110ep-13};

// k ln 2 + log(1 + f) + low.
TINYT_INLINE F64 log_of_parts(F64 k, F64 f, F64 low) {
  const F64 s = f / (2.0 + f), z = s * s, half_square = 0.5 * f * f;
  const F64 tail = fma(s, fma(z, poly<-5>(z, kLog64), half_square), fma(k, splat(kLn2Lo), low));
  return fma(k, splat(kLn2Hi), f - (half_square - tail));
}
TINYT_INLINE F64 log(F64 x) {
  const auto [m, k] = split(x);
  return log_edges(x, log_of_parts(k, m - 1.0, F64{}));
}

// From u = 1 + x rounded, what was lost divided by u, and x itself where no power of two came out.
TINYT_INLINE F64 log1p(F64 x) {
  const F64 u = 1.0 + x;
  const auto [m, k] = split(u);
  const F64 lost = select(x > 1.0, 1.0 - (u - x), x - (u - 1.0));
  const I64 near = (I64)(k == 0.0);
  const F64 y = log_of_parts(k, select(near, x, m - 1.0), select(near, F64{}, lost / u));
  return select(x == 0.0, x, log_edges(u, y));
}
// 1 + x = 2^k (1 + f + low), with f from x itself; from 2^30 on the 1 no longer counts. Next to
// k = -1 and 1 much of k ln 2 + f cancels, so that its rounding, too, is left to the lower part.
TINYT_INLINE F32 log1p(F32 x) {
  const F32 u = 1.0f + x;
  const U32 bits = bit_cast<U32>(u);
  const I32 power = (I32)(bits - 0x3F3504F3) >> 23, large = (I32)(x > 0x1p30f);
  const F32 k = to_float(power), m = bit_cast<F32>(bits - wrap(power << 23));
  const F32 unit = select(large, F32{}, pow2((I32)(0 - wrap(power))));
  const F32 shift = select(large, m, unit) - 1.0f;
  const F32 f = fma(x, unit, shift), ff = f * f;
  const F32 sum = fma(k, splat(kLn2Hi32), f);
  const F32 low = fma(x, unit, shift - f) + (f - fma(k, splat(-kLn2Hi32), sum));
  const F32 cubic = fma(ff * f, poly(f, kLog32), fma(k, splat(kLn2Lo32), low));
  return select(x == 0.0f, x, log_edges(u, sum + fma(-0.5f * f, f, cubic)));
}

// As kLog64 with its first coefficient, 2/3, taken off; relative error of log 2^-72.
inline constexpr double kLogTwo[] = {
    0x1.9999999999996p-2, 0x1.2492492492ebdp-2, 0x1.c71c71c5a4ee4p-3, 0x1.745d18238e2eap-3,
    0x1.3b13661a62f45p-3, 0x1.1120434ddf11bp-3, 0x1.de43879b368c8p-4, 0x1.ea98fb4c39283p-4};

// log(m) in two parts, relative error about 2^-64, for m in [sqrt(1/2), sqrt(2)).
TINYT_INLINE Two<F64> log_of_mantissa(F64 m) {
  const F64 f = m - 1.0, d = m + 1.0, d_low = m - (d - 1.0);
  const F64 s = f / d;
  const Two<F64> sd = two_prod(s, d);
  const F64 s_low = ((f - sd.hi) - sd.lo - s * d_low) / d;
  Two<F64> z = two_prod(s, s);
  z.lo += 2.0 * s * s_low;
  // s z (2/3 + z P(z))
  Two<F64> c = fast_two_sum(splat(0x1.5555555555555p-1), z.hi * poly<-5>(z.hi, kLogTwo));
  c.lo += 0x1.5555555555555p-55;
  Two<F64> zc = two_prod(z.hi, c.hi);
  zc.lo += z.hi * c.lo + z.lo * c.hi;
  Two<F64> szc = two_prod(s, zc.hi);
  szc.lo += s * zc.lo + s_low * zc.hi;
  const Two<F64> a = fast_two_sum(2.0 * s, szc.hi);
  return {a.hi, a.lo + szc.lo + 2.0 * s_low};
}

// log(x) in two parts, for positive finite x.
TINYT_INLINE Two<F64> log_two(F64 x) {
  const auto [m, k] = split(x);
  const Two<F64> a = log_of_mantissa(m);
  const Two<F64> b = two_sum(k * kLn2Hi, a.hi);
  return fast_two_sum(b.hi, b.lo + (a.lo + k * kLn2Lo));
}

// 1 / log(base) and the logarithm of 2 to that base, in two parts; k times `two_hi` is exact.
struct LogBase {
  double factor_hi, factor_lo, two_hi, two_lo;
};
inline constexpr LogBase kBase2{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56, 1.0, 0.0};
inline constexpr LogBase kBase10{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57, 0x1.3441350800000p-2,
                                 0x1.f79fef311f12bp-34};

// Powers of the base come out exact: the error before the last rounding is about 2^-62.
TINYT_INLINE F64 log_to_base(F64 x, const LogBase& base) {
  const auto [m, k] = split(x);
  const Two<F64> l = log_of_mantissa(m);
  const Two<F64> p = two_prod(l.hi, splat(base.factor_hi));
  const F64 low = p.lo + (l.hi * base.factor_lo + l.lo * base.factor_hi);
  const Two<F64> s = two_sum(k * base.two_hi, p.hi);
  return log_edges(x, s.hi + (s.lo + (low + k * base.two_lo)));
}
TINYT_INLINE F64 log2(F64 x) { return log_to_base(x, kBase2); }
TINYT_INLINE F64 log10(F64 x) { return log_to_base(x, kBase10); }
TINYT_INLINE F32 log2(F32 x) {
  return through_double(x, [](F64 d) { return log(d) * kBase2.factor_hi; });
}
TINYT_INLINE F32 log10(F32 x) {
  return through_double(x, [](F64 d) { return log(d) * kBase10.factor_hi; });
}

// x log(y) and x log(1 + y), and 0 where x is 0 unless y is a NaN.
template <class V>
TINYT_INLINE V xlogy(V x, V y) {
  return select((x == 0) & (y == y), V{}, x * log(y));
}
template <class V>
TINYT_INLINE V xlog1py(V x, V y) {
  return select((x == 0) & (y == y), V{}, x * log1p(y));
}

// log(e^x + e^y) from the larger one and e to the difference; equal infinities stay.
TINYT_INLINE F64 logaddexp(F64 x, F64 y) {
  const F64 sum = maximum(x, y) + log1p(exp(-abs(x - y)));
  return select((x == y) & (abs(x) == __builtin_inf()), x, sum);
}
TINYT_INLINE F32 logaddexp(F32 x, F32 y) {
  return through_double(x, y, [](F64 a, F64 b) { return logaddexp(a, b); });
}
TINYT_INLINE F64 logaddexp2(F64 x, F64 y) {
  const F64 sum = maximum(x, y) + log1p(exp2(-abs(x - y))) * kBase2.factor_hi;
  return select((x == y) & (abs(x) == __builtin_inf()), x, sum);
}
TINYT_INLINE F32 logaddexp2(F32 x, F32 y) {
  return through_double(x, y, [](F64 a, F64 b) { return logaddexp2(a, b); });
}

// IEEE 754's special cases of pow put in the place of y, the power of |base|.
template <class V>
TINYT_INLINE V pow_edges(V base, V exponent, V y) {
  using T = Element<V>;
  const V one = splat(static_cast<T>(1)), nan = splat(static_cast<T>(__builtin_nan("")));
  const Mask<V> whole = (Mask<V>)(trunc(exponent) == exponent);
  const V halved = exponent * static_cast<T>(0.5);
  const Mask<V> odd = whole & (Mask<V>)(trunc(halved) != halved);
  y = select((abs(base) == 1) & (exponent == exponent), one, y);
  y = select(odd, copysign(y, base), y);
  const V inf = splat(static_cast<T>(__builtin_inf()));
  y = select((base < 0) & (base != -inf) & ~whole, nan, y);
  return select((base == 1) | (exponent == 0), one, y);
}

TINYT_INLINE F64 pow(F64 base, F64 exponent) {
  const F64 a = abs(base);
  const Two<F64> l = log_two(a);
  const F64 l_hi = log_edges(a, l.hi);
  // Beyond 2^70 every base but 1 over- or underflows; this keeps the products finite.
  const F64 e = clamp(exponent, -0x1p70, 0x1p70);
  const Two<F64> p = two_prod(e, l_hi);
  const F64 high = e * l_hi;
  const F64 low = select(abs(high) < 746.0, p.lo + e * l.lo, F64{});
  return pow_edges(base, exponent, exp(high, low));
}

// Of float32 values, for a float32: y log(x) stays below 2^8 where it matters, so its error is
// below 2^-29.
TINYT_INLINE F64 pow_single(F64 base, F64 exponent) {
  const auto [m, p] = split(base);
  const F64 f = m - 1.0, s = f / (2.0 + f), z = s * s;
  const F64 rest = fma(s * z, poly<-5>(z, kLogSingle), 2.0 * s);
  const F64 x = clamp(exponent * log_edges(base, fma(p, splat(kLn2), rest)), -746.0, 710.0);
  I64 k;
  const F64 n = nearest(x * kLog2E, k);
  const F64 r = fma(n, splat(-kLn2), x);
  return scale(fma(r * r, poly<-1>(r, kExpSingle), r) + 1.0, n, k);
}
TINYT_INLINE F32 pow(F32 base, F32 exponent) {
  const F64Pair b = widen(abs(base)), e = widen(exponent);
  return pow_edges(base, exponent, narrow(pow_single(b.lo, e.lo), pow_single(b.hi, e.hi)));
}

}  // namespace
}  // namespace tinyt::cpu
