// lgamma, digamma, the Hurwitz zeta function.
#pragma once

#include "cpu/math/math_arc.h"
#include "cpu/math/math_log.h"

namespace tinyt::cpu {
namespace {

// lgamma(2 + f) / f on |f| <= 1/2; relative error 2^-53.
inline constexpr double kLgamma[] = {
    0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa7p-2,  -0x1.13e001a557616p-4,  0x1.51322ac7d8008p-6,
    -0x1.e404fc2188833p-8,  0x1.7add6eae55abfp-9,  -0x1.38ac5c30a0485p-10, 0x1.0b36af3674799p-11,
    -0x1.d3fd4941ab47bp-13, 0x1.a127dc2d19705p-14, -0x1.78defdf1edf19p-15, 0x1.5806f47b28273p-16,
    -0x1.3ca9398146e48p-17, 0x1.263eb3113f520p-18, -0x1.131d4974f0c42p-19, 0x1.ee16a897b0c85p-21,
    -0x1.c3012b4a69252p-22, 0x1.2b08d959bf476p-22, -0x1.33bd99523d4a4p-23};

// x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2), Stirling's series, as a polynomial in
// 1 / x^2, x >= 8; absolute error 2^-57.
inline constexpr double kStirling[] = {
    0x1.5555555555555p-4,  -0x1.6c16c16c14af7p-9,  0x1.a01a017e8adc5p-11, -0x1.38134e166afcdp-11,
    0x1.b92c938d403d2p-11, -0x1.ef980c25087d8p-10, 0x1.4c3829132c98bp-8};

// x^2 (log(x) - 1 / (2x) - digamma(x)) as a polynomial in 1 / x^2, x >= 10; error 2^-57.
inline constexpr double kDigamma[] = {
    0x1.5555555555555p-4, -0x1.11111111107c3p-7, 0x1.041040fcb9378p-8, -0x1.1110ffa96dc25p-8,
    0x1.f06862bb2d68dp-8, -0x1.56afab0bc4087p-6, 0x1.1e074a1aa701bp-4};

inline constexpr double kHalfLog2PiMinusHalf = 0x1.acfe390c97d69p-2;

// More than come between an argument and where a series holds.
inline constexpr int kMostSteps = 16;

// lgamma for x >= 0. Up to 1/2: lgamma(2 + x) - log(x (1 + x)); up to 1.5: lgamma(1 + x) - log(x),
// both with the expansion at 2; up to 8: down to [1.5, 2.5) by the product of the steps.
TINYT_INLINE F64 lgamma_positive(F64 x) {
  const I64 tiny = (I64)(x < 0.5), below = (I64)(x < 1.5), far = (I64)(x >= 8.0);
  F64 y = x, product = splat(1.0);
  repeat(
      kMostSteps, carried(y, product), [&] { return (I64)(y >= 2.5) & ~far; },
      [&](I64 more) {
        y = select(more, y - 1.0, y);
        product = select(more, product * y, product);
      });
  const F64 f = select(tiny, x, select(below, x - 1.0, y - 2.0));
  const F64 under_log = select(tiny, x * (1.0 + x), select(below | far, x, product));
  const F64 l = log(under_log);
  const F64 near = fma(f, poly<-1>(f, kLgamma), select(below, -l, l));
  const F64 r = 1.0 / x;
  const F64 stirling =
      (x - 0.5) * (l - 1.0) + fma(r, poly<-6>(r * r, kStirling), splat(kHalfLog2PiMinusHalf));
  return select(far, stirling, near);
}

// Below zero by reflection: lgamma(-a) = log(pi / (a |sin(pi a)|)) - lgamma(a).
TINYT_OUTLINE F64 lgamma(F64 x) {
  const F64 a = abs(x), y = lgamma_positive(a);
  const I64 negative = (I64)(x < 0.0) & (I64)(a > 0x1p-54);
  if (!any(negative)) return y;
  const F64 from_pole = a - round_even(a);
  const F64 reflected = log(kPi / (a * abs(sin(kPi * from_pole)))) - y;
  const I64 pole = (I64)(from_pole == 0.0) | (I64)(a == __builtin_inf());
  return select(negative, select(pole, splat(__builtin_inf()), reflected), y);
}
TINYT_INLINE F32 lgamma(F32 x) {
  return through_double(x, [](F64 d) { return lgamma(d); });
}

// Upwards by digamma(x) = digamma(x + 1) - 1 / x to where the series holds; below zero by
// reflection: digamma(x) = digamma(1 - x) - pi / tan(pi x). NaN at the poles but 0.
TINYT_OUTLINE F64 digamma(F64 x) {
  const I64 negative = (I64)(x < 0.0);
  F64 y = select(negative, 1.0 - x, x), steps = F64{}, low = F64{};
  repeat(
      kMostSteps, carried(y, steps, low), [&] { return (I64)(y < 10.0); },
      [&](I64 more) {
        const Two<F64> s = two_sum(steps, 1.0 / y);
        steps = select(more, s.hi, steps);
        low = select(more & (I64)(abs(s.hi) < __builtin_inf()), low + s.lo, low);
        y = select(more, y + 1.0, y);
      });
  const F64 r = 1.0 / y, z = r * r;
  const F64 value = (log(y) - fma(z, poly<-6>(z, kDigamma), 0.5 * r + low)) - steps;
  if (!any(negative)) return value;
  const F64 from_pole = x - round_even(x);
  F64 turn = select(from_pole == 0.0, splat(__builtin_nan("")), kPi / tan(kPi * from_pole));
  if constexpr (kDoubleWords)  // where the tangent is its argument, whose second part is subnormal
    turn = select((abs(from_pole) < 0x1p-40) & (from_pole != 0.0), 1.0 / from_pole, turn);
  return select(negative, value - turn, value);
}
TINYT_INLINE F32 digamma(F32 x) {
  return through_double(x, [](F64 d) { return digamma(d); });
}

// digamma(a + b) - digamma(a) for a, b > 0, of which double words lose too much where b is far
// below a: by differences of the recurrence's and the series' terms.
TINYT_OUTLINE F64 digamma_rise(F64 a, F64 b) {
  F64 y = a, steps = F64{};
  repeat(
      kMostSteps, carried(y, steps), [&] { return (I64)(y < 10.0); },
      [&](I64 more) {
        steps = select(more, steps + b / (y * (y + b)), steps);
        y = select(more, y + 1.0, y);
      });
  const F64 r = 1.0 / y, s = 1.0 / (y + b), z = r * r, w = s * s;
  const F64 series = z * poly<-6>(z, kDigamma) - w * poly<-6>(w, kDigamma);
  return steps + (log1p(b * r) + (0.5 * b * r * s + series));
}

// B(2j) / (2j)!, j = 1, 2, ..., B the Bernoulli numbers.
inline constexpr double kBernoulli[] = {
    0x1.5555555555555p-4,  -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
    0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
    0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53, 0x1.967e1f09c376fp-58, -0x1.497d9033a2b5cp-63};

// zeta_positive of double words, in float32's range: for q > 1 of 2^64 times the powers; the power
// of the formula's first term, which is the last to vanish; and the others each by the one before,
// as s (s + 1) ... alone is too large. From s = 256 on, they are 0.
TINYT_OUTLINE F64 zeta_positive_single(F64 s_, F64 q) {
  const F64 s = minimum(s_, splat(0x1p100));  // infinity times log(1)
  const I64 lift = select(q > 1.0, I64{} + 64, I64{});
  const F64 log_lift = to_float(lift) * kLn2;
  const auto power = [&](F64 a, F64 e) { return exp(log_lift - e * log(a)); };
  F64 sum = F64{}, a = q;
  repeat(
      10, carried(sum, a), [] { return ~I64{}; },
      [&](I64) {
        sum += power(a, s);
        a += 1.0;
      });
  const F64 first = power(a, s - 1.0), r = 1.0 / a, t = minimum(s, splat(256.0));
  F64 term = first * r;
  sum += first / (s - 1.0) + 0.5 * term;
  term *= t * r;
  for (int j = 0; j < 12; ++j) {
    sum += kBernoulli[j] * term;
    term *= (t + (2.0 * j + 1.0)) * r * ((t + (2.0 * j + 2.0)) * r);
  }
  return scale(select(q == __builtin_inf(), F64{}, sum), (I64)(0 - wrap(lift)));
}

// sum of (q + k)^-s over k >= 0 for q > 0, s > 1: ten terms, the rest by Euler and Maclaurin's
// formula (Abramowitz & Stegun 23.2.23 and 3.6.28).
TINYT_OUTLINE F64 zeta_positive(F64 s, F64 q) {
  if constexpr (kDoubleWords) return zeta_positive_single(s, q);
  F64 sum = F64{}, a = q, power;
  repeat(
      10, carried(sum, a), [] { return ~I64{}; },
      [&](I64) {
        sum += pow(a, -s);
        a += 1.0;
      });
  power = pow(a, -s);
  sum += power * a / (s - 1.0) + 0.5 * power;
  const F64 t = minimum(s, splat(1024.0));  // from where on the power is 0, whose factor is finite
  F64 rising = t;
  power /= a;
  for (int j = 0; j < 12; ++j) {
    sum += kBernoulli[j] * rising * power;
    rising *= (t + (2.0 * j + 1.0)) * (t + (2.0 * j + 2.0));
    power /= a * a;
  }
  return select(q == __builtin_inf(), F64{}, sum);
}

// At negative q, for whole s only: with y = q mod 1 the terms below zero are those of zeta(s, 1 -
// y) without those of zeta(s, 1 - q), with alternating sign; the others are zeta(s, y).
TINYT_OUTLINE F64 zeta(F64 s, F64 q) {
  const I64 negative = (I64)(q <= 0.0);
  F64 value = zeta_positive(s, select(negative, q - floor(q), q));
  if (any(negative)) {
    const F64 below = zeta_positive(s, 1.0 - (q - floor(q))) - zeta_positive(s, 1.0 - q);
    const F64 half = 0.5 * s;
    const F64 sum = value + select(floor(half) == half, below, -below);
    const F64 at = select(floor(s) == s, sum, splat(__builtin_nan("")));
    value = select(negative, select(floor(q) == q, splat(__builtin_inf()), at), value);
  }
  value = select(s == 1.0, splat(__builtin_inf()), value);
  return select(s < 1.0, splat(__builtin_nan("")), value);
}
TINYT_INLINE F32 zeta(F32 s, F32 q) {
  return through_double(s, q, [](F64 a, F64 b) { return zeta(a, b); });
}

}  // namespace
}  // namespace tinyt::cpu
