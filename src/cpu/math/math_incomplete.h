// The incomplete gamma function and the slopes of gamma and beta quantiles.
//
// Derivatives with respect to a parameter are carried through the same series and fractions as
// values (Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients", 2018).
#pragma once

#include "cpu/math/math_erf.h"
#include "cpu/math/math_gamma.h"

namespace tinyt::cpu {
namespace {

// ---- values with a derivative; F64 itself stands for values without one

struct Dual {
  F64 v, d;
};
TINYT_INLINE F64 value_of(F64 x) { return x; }
TINYT_INLINE F64 value_of(Dual x) { return x.v; }
template <class N>
TINYT_INLINE N constant(F64 x) {
  if constexpr (sizeof(N) == sizeof(F64)) return x;
  if constexpr (sizeof(N) != sizeof(F64)) return {x, F64{}};
}
TINYT_INLINE Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
TINYT_INLINE Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
TINYT_INLINE Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
TINYT_INLINE Dual operator/(Dual a, Dual b) {
  const F64 q = a.v / b.v;
  return {q, (a.d - q * b.d) / b.v};
}
TINYT_INLINE F64 keep(I64 mask, F64 a, F64 b) { return select(mask, a, b); }
TINYT_INLINE Dual keep(I64 mask, Dual a, Dual b) {
  return {select(mask, a.v, b.v), select(mask, a.d, b.d)};
}
template <class F>
TINYT_INLINE void each_value(Dual& x, const F& f) {
  each_value(x.v, f);
  each_value(x.d, f);
}
inline constexpr double kEnough = kDoubleWords ? 0x1p-38 : 0x1p-54;
// Whether `step` still changes `sum`, in value or derivative.
TINYT_INLINE I64 counts(F64 step, F64 sum) { return (I64)(abs(step) > kEnough * abs(sum)); }
TINYT_INLINE I64 counts(Dual step, Dual sum) {
  return counts(step.v, sum.v) | counts(step.d, sum.d);
}

// In the loops below a lane keeps its value from where its terms no longer count: how many its
// neighbours need must not show.
// A bound on terms that no argument needs (some root of the parameters), so that every loop ends.
inline constexpr int kMostTerms = kDoubleWords ? 1 << 12 : 1 << 17;

// ---- the incomplete gamma function

// Coefficients of Temme's uniform expansion: row k is C_k(eta) as a series in eta (DLMF 8.12.11,
// made in exact arithmetic); with all of them its error is 2^-56 for a >= 64, |eta| <= 0.7.
inline constexpr double kTemme[9][22] = {
    {-0x1.5555555555555p-2,  0x1.5555555555555p-4,   -0x1.e573ac901e574p-7,  0x1.2f684bda12f68p-10,
     0x1.71de3a556c734p-12,  -0x1.76e06fec7273bp-13, 0x1.48c5892f7cd83p-15,  -0x1.255370652afc1p-19,
     -0x1.f1b22f594c6b5p-20, 0x1.bd6d21e4b4109p-21,  -0x1.7b5f9a2d0465cp-23, 0x1.ccf5ceb7f0d9fp-28,
     0x1.6097d55c37c1cp-27,  -0x1.2d2197c7a2faap-28, 0x1.f6e66d24d5c8ap-31,  -0x1.c0d9b6edf2b0bp-36,
     -0x1.0070a87340428p-34, 0x1.ac9475c463659p-36,  -0x1.61ca701fd754ap-38, 0x1.ef98008f5eec2p-44,
     0x1.7ba0759769d7cp-42,  -0x1.3989bebb193c0p-43},
    {-0x1.e573ac901e574p-10, -0x1.c71c71c71c71cp-9,  0x1.5ac056b015ac0p-9,   -0x1.0394f6f09e723p-10,
     0x1.af83440e53dbcp-13,  -0x1.af83440e53dbcp-22, -0x1.2fa4ae89e5af0p-16, 0x1.00a9cabd6b83ep-17,
     -0x1.b0bdfcc629cbap-20, 0x1.3f59230a8357cp-28,  0x1.280f2cde3f847p-23,  -0x1.ee23d0cba8aeep-25,
     0x1.9aa7a30de114cp-27,  -0x1.349fbca3a377bp-36, -0x1.1564ecff73d58p-30, 0x1.c9b434bf3c34ep-32,
     -0x1.78a5056f8ce45p-34, 0x1.113e3a466db9ep-44,  0x1.f8041c5540ea2p-38,  -0x1.9ccf2fab4608bp-39,
     0x1.519580a10cd82p-41,  -0x1.f3b7a5dcd1851p-53},
    {0x1.0ee643b990ee6p-8,   -0x1.5f7268edab4c8p-9,  0x1.948b0fcd6e9e0p-11,  0x1.0db20a88f4696p-19,
     -0x1.c253efaa1a932p-14, 0x1.bbf43daf4fe53p-15,  -0x1.ac2d05890f2c3p-17, 0x1.26154ae39151dp-25,
     0x1.7058929663937p-20,  -0x1.522cb05171911p-21, 0x1.32ac81c15d3d7p-23,  -0x1.c24bd0e740a6cp-33,
     -0x1.e437343a46f5dp-27, 0x1.ac0d455e25360p-28,  -0x1.77c5829460139p-30, 0x1.0962774f638bbp-40,
     0x1.1b1056c188672p-33,  -0x1.e9778dbc61371p-35, 0x1.a55da34225759p-37,  -0x1.2c681309d6007p-48,
     -0x1.33f39f65c6eeep-40, 0x1.0675f56b95f3bp-41},
    {0x1.547d93b34e2b6p-11,  0x1.e13ce465fa859p-13,  -0x1.ebfb188b7ca00p-12, 0x1.18b9b5bf2d984p-12,
     -0x1.3d2a3a29b5d9dp-14, -0x1.0152a1871f27ap-22, 0x1.73df462204ef4p-17,  -0x1.7cd6f27b3f020p-18,
     0x1.7e0201539310ep-20,  -0x1.ea23269c140a7p-36, -0x1.6c2dcffbefeefp-23, 0x1.5bde8ef4c4dc7p-24,
     -0x1.4853ced169327p-26, 0x1.50c3f0dd501ebp-39,  0x1.1b66a39794ba9p-29,  -0x1.040c53b2491f0p-30,
     0x1.d9b15465daec1p-33,  -0x1.f46057e1c9d1fp-47, -0x1.812d3d94d533bp-36, 0x1.587d7a7c1a668p-37,
     -0x1.328e9df2eb8b6p-39, 0x1.1e54cdbaa3443p-54},
    {-0x1.c3e0b02da7bf9p-11, 0x1.9b0ff6874f2c4p-11,  -0x1.3999a85a4237ap-12, -0x1.88f2ae1def9d0p-20,
     0x1.16908b48ce058p-14,  -0x1.4ce3fd902bcadp-15, 0x1.7db4c02846e81p-17,  0x1.13b3c5b7cb45ep-32,
     -0x1.c71c074985d3fp-20, 0x1.de37d9f09164cp-21,  -0x1.ec676cf33153cp-23, 0x1.041515bab6adap-35,
     0x1.efe94304ac16bp-26,  -0x1.e78e449f4e3bep-27, 0x1.d9a9f1a8b7696p-29,  -0x1.033ba70791e5ep-42,
     -0x1.b14f212618752p-32, 0x1.9911dbca7ce93p-33,  -0x1.7f2fac5e22aaep-35, 0x1.7088090f49aabp-50,
     0x1.49465337812c4p-38,  -0x1.2e7ac3cc20208p-39},
    {-0x1.6128ac5a4fa71p-12, -0x1.247604839c038p-14, 0x1.22be87360ef1fp-12,  -0x1.a2042c5148e27p-13,
     0x1.1d1e9cb24760bp-14,  0x1.30bdcf208080ep-23,  -0x1.c823fc1b3cc36p-17, 0x1.0d0e229150428p-17,
     -0x1.338eb19652fd9p-19, -0x1.659cfde0bb2ebp-32, 0x1.741504e5c87c2p-22,  -0x1.8c267becd0c0fp-23,
     0x1.9e630225a095bp-25,  -0x1.4411c5ac40e35p-46, -0x1.b15bbf334c8c3p-28, 0x1.b2a3adb58623dp-29,
     -0x1.af0f32d677057p-31, 0x1.762c060bd9bdap-48,  0x1.9b9c5831849dcp-34,  -0x1.8d0152b8692bap-35,
     0x1.7bf5ea6674b5fp-37,  -0x1.51bfdafa33430p-55},
    {0x1.168ef1b0931c8p-11,  -0x1.36773bdb97b48p-11, 0x1.1c0950d3ecb9dp-12,  0x1.a8411da6cab49p-21,
     -0x1.5600945495b37p-14, 0x1.d6bdf83130dc1p-15,  -0x1.3382f4cf48618p-16, -0x1.a74243fa27729p-29,
     0x1.d115d4f5dcc68p-19,  -0x1.10587854fcb37p-19, 0x1.36c8903447d35p-21,  0x1.074e709bf4b8bp-42,
     -0x1.7b2f7de505322p-24, 0x1.9778c6d79bcc1p-25,  -0x1.af0ea334cc20ep-27, 0x1.858ba968e7d04p-44,
     0x1.cf0f99fa070bcp-30,  -0x1.d77155071f99bp-31, 0x1.daf3327a51b54p-33,  -0x1.b6df73b581619p-51,
     -0x1.d4a717ac2b965p-36, 0x1.cbb55e3e29ba5p-37},
    {0x1.691879c01efb4p-12,  0x1.b1d75d3346711p-15,  -0x1.5f3385098cebfp-12, 0x1.26eeb5ece1d9fp-12,
     -0x1.cc642787368cep-14, -0x1.119c70312e0a2p-23, 0x1.d179830b113abp-16,  -0x1.3269164e3e304p-16,
     0x1.8467d794bd7f2p-18,  0x1.0f82da50cdaeep-31,  -0x1.1c6acec59f442p-20, 0x1.4b12ad51452d5p-21,
     -0x1.7929779607d63p-23, -0x1.6d32eed259534p-40, 0x1.cf11fbdf49e99p-26,  -0x1.f4e88c5d1cae1p-27,
     0x1.0b2830e4dfce1p-28,  -0x1.65f59322ddf56p-55, -0x1.24e8da0f96246p-31, 0x1.2daf0a8add2abp-32,
     -0x1.33ada96417614p-34, 0x1.ddc4a629af677p-56},
    {-0x1.5629b3187b744p-11, 0x1.b8239c670e690p-11,  -0x1.cb967b4446107p-12, -0x1.762676b30cfd6p-21,
     0x1.5d1157082916dp-13,  -0x1.0c16fcea7ddb2p-13, 0x1.84637d3f583cdp-15,  0x1.3937992ec9b02p-28,
     -0x1.6384af9ac219dp-17, 0x1.c738f198ab550p-18,  -0x1.1adec9530a7adp-19, -0x1.2ed3c124b7492p-36,
     0x1.952f970ac9b03p-22,  -0x1.d599e3b2187a2p-23, 0x1.0b282393d4893p-24,  0x1.7c54ec550bd4bp-51,
     -0x1.4985ee872fc56p-27, 0x1.663fd6d84752ep-28,  -0x1.80990f0dfb26ap-30, 0x1.36412c0552a81p-51,
     0x1.ac79309fc7363p-33,  -0x1.bd671f048b194p-34},
};

// Of those as many as the result needs.
inline constexpr int kTemmeRows = kDoubleWords ? 5 : 9, kTemmeColumns = kDoubleWords ? 16 : 22;

inline constexpr double kTemmeFrom = 64.0, kTemmeEta = 0.7;
inline constexpr double kHalfLogTwoPi = 0x1.d67f1c864beb4p-1;

// m - log(1 + m), without the difference that vanishes near 0: log(1 + m) = 2 atanh(m / (2 + m)).
// `next` is 1 + m, not rounded to it.
TINYT_INLINE F64 excess(F64 m, F64 next) {
  const F64 near = select(abs(m) < 1.0, m, F64{});
  const F64 s = near / (2.0 + near), z = s * s;
  constexpr int kLast = kDoubleWords ? 27 : 45;
  F64 tail = splat(1.0 / kLast);
#pragma GCC unroll 1
  for (int k = kLast - 2; k >= 3; k -= 2) tail = fma(tail, z, splat(1.0 / k));
  const F64 small = s * fma(-2.0 * z, tail, near);
  const I64 wide = (I64)(m < -0.5) | (I64)(m > 1.0 - 0x1p-10);
  return any(wide) ? select(wide, m - log(next), small) : small;
}

// log Gamma(1 + a) for a > 0, exact to rounding near 0 too.
TINYT_INLINE F64 lgamma_of_next(F64 a) {
  const I64 small = (I64)(a <= 0.5);
  const F64 f = select(small, a, F64{});
  return select(small, f * poly<-1>(f, kLgamma) - log1p(f), lgamma_positive(1.0 + a));
}
// log Gamma(1 + a) - (a log(a) - a + log(2 pi a) / 2), a >= 8.
TINYT_INLINE F64 stirling_rest(F64 a) {
  const F64 r = 1.0 / a;
  return r * poly<-6>(r * r, kStirling);
}

// What all forms of P(a, x) and Q(a, x) = 1 - P begin with.
struct IncompleteGamma {
  F64 a, x, mu, half_square, eta;  // x = a (1 + mu); eta^2 / 2 = mu - log(1 + mu)
  I64 uniform, lower;              // which form holds: Temme's, or the series of P

  TINYT_INLINE IncompleteGamma(F64 a_, F64 x_) : a(a_), x(x_) {
    mu = (x - a) / a;
    half_square = excess(mu, x / a);
    eta = copysign(sqrt(2.0 * half_square), mu);
    uniform = (I64)(a >= kTemmeFrom) & (I64)(abs(eta) < kTemmeEta);
    lower = ~uniform & (I64)(x < maximum(a, splat(1.0)));
  }

  // x^a e^-x / Gamma(1 + a); from 8 on by the excess, in which nothing cancels.
  TINYT_INLINE F64 factor() const {
    const I64 large = (I64)(a >= 8.0);
    const F64 b = select(large, a, splat(8.0));
    const F64 far = -b * half_square - 0.5 * log(b) - kHalfLogTwoPi - stirling_rest(b);
    const F64 c = select(large, splat(1.0), a);
    return exp(select(large, far, c * log(x) - x - lgamma_of_next(c)));
  }

  // P = factor * sum of x^n / ((a + 1) ... (a + n)).
  template <class N>
  TINYT_INLINE N series(N from) const {
    N term = constant<N>(splat(1.0)), sum = term, next = from;
    const N at = constant<N>(x), one = term;
    I64 open = lower;
    repeat(
        kMostTerms, carried(next, term, sum, open), [&] { return open; },
        [&](I64 lanes) {
          next = next + one;
          term = term * (at / next);
          sum = keep(lanes, sum + term, sum);
          open = lanes & counts(term, sum);
        });
    return sum;
  }

  // Q = a factor / (x + 1 - a - 1 (1 - a) / (x + 3 - a - 2 (2 - a) / ...)), by Lentz's method.
  template <class N>
  TINYT_INLINE N fraction(N from) const {
    const N one = constant<N>(splat(1.0)), two = constant<N>(splat(2.0));
    N b = constant<N>(x) + one - from, c = constant<N>(splat(0x1p900)), d = one / b, h = d;
    I64 open = ~(uniform | lower);
    F64 i = splat(1.0);
    repeat(
        kMostTerms, carried(b, c, d, h, i, open), [&] { return open; },
        [&](I64 lanes) {
          const N part = constant<N>(i) * (from - constant<N>(i));
          b = b + two;
          c = b + part / c;
          d = one / (part * d + b);
          const N next = h * (c * d);
          open = lanes & counts(next - h, next);
          h = keep(lanes, next, h);
          i += 1.0;
        });
    return h;
  }

  // sum of C_k(eta) a^-k; its derivative in eta, and in a at a fixed eta.
  struct Temme {
    F64 value, in_eta, in_a;
  };
  TINYT_INLINE Temme temme() const {
    const F64 e = select(uniform, eta, F64{}), r = 1.0 / a;
    Temme t = {F64{}, F64{}, F64{}};
#pragma GCC unroll 1
    for (int k = kTemmeRows - 1; k >= 0; --k) {
      F64 c = F64{}, slope = F64{};
#pragma GCC unroll 1
      for (int n = kTemmeColumns - 1; n >= 0; --n) {
        slope = fma(slope, e, c);
        c = fma(c, e, splat(kTemme[k][n]));
      }
      t.in_a = fma(t.in_a, r, -t.value * r * r);
      t.value = fma(t.value, r, c);
      t.in_eta = fma(t.in_eta, r, slope);
    }
    return t;
  }
  // The remainder of Q: erfc(eta sqrt(a / 2)) / 2 + this.
  TINYT_INLINE F64 remainder() const {
    return exp(-a * half_square) / sqrt(a * 6.283185307179586477) * temme().value;
  }

  static constexpr int kUpperTerms = kDoubleWords ? 16 : 24;  // 1 / 24! < 2^-64
  // Q for a, x < 1, without the difference 1 - P.
  TINYT_INLINE F64 upper_series() const {
    const F64 power = a * log(x) - lgamma_of_next(a);
    F64 term = splat(1.0), sum = F64{}, n = splat(1.0);
    for (int k = 0; k < kUpperTerms; ++k, n += 1.0) {
      term *= -x / n;
      sum += term / (a + n);
    }
    return -expm1(power) - exp(power) * a * sum;
  }

  // The value where the arguments are at an end or wrong.
  TINYT_INLINE F64 edges(F64 inside, double at_zero) const {
    const F64 inf = splat(__builtin_inf()), nan = splat(__builtin_nan(""));
    F64 y = select(x == inf, splat(1.0 - at_zero), inside);
    y = select(a == inf, select(x == inf, nan, splat(at_zero)), y);
    y = select(x == 0.0, splat(at_zero), y);
    y = select(a == 0.0, select(x > 0.0, splat(1.0 - at_zero), nan), y);
    return select((I64)(a >= 0.0) & (I64)(x >= 0.0), y, nan);
  }
};

// Arguments a, x with the same P(a, x) and Q(a, x) as float32 values, which products of a few do
// not take out of its range: above 2^64 P is a step at x = a, and far above a it is 1.
TINYT_INLINE Two<F64> within_range(F64 a, F64 x) {
  if constexpr (!kDoubleWords) return {a, x};
  const I64 step = (I64)(a > 0x1p64);
  const F64 b = minimum(a, splat(0x1p64));
  const F64 ratio = minimum(x / a, splat(4.0));
  return {b, select(step, ratio * b, minimum(x, 4.0 * b + 1000.0))};
}

template <bool Upper>
TINYT_OUTLINE F64 incomplete_gamma(F64 a, F64 x) {
  const I64 plain =
      (I64)(a > 0.0) & (I64)(x > 0.0) & (I64)(a < __builtin_inf()) & (I64)(x < __builtin_inf());
  // Lanes at an end take arguments for which every form ends at once.
  const Two<F64> at = within_range(select(plain, a, splat(1.0)), select(plain, x, splat(0.5)));
  const IncompleteGamma g(at.hi, at.lo);
  const F64 factor = g.factor();
  F64 y = F64{};
  if (any(g.lower)) {
    const F64 p = factor * g.series(g.a);
    y = Upper ? 1.0 - p : p;
    if constexpr (Upper) {
      const I64 small = g.lower & (I64)(g.a < 1.0);
      if (any(small)) y = select(small, g.upper_series(), y);
    }
  }
  const I64 upper = ~(g.lower | g.uniform);
  if (any(upper)) {
    const F64 q = g.a * factor * g.fraction(g.a);
    y = select(upper, Upper ? q : 1.0 - q, y);
  }
  if (any(g.uniform)) {
    const F64 z = g.eta * sqrt(0.5 * g.a), rest = g.remainder();
    y = select(g.uniform, Upper ? 0.5 * erfc(z) + rest : 0.5 * erfc(-z) - rest, y);
  }
  IncompleteGamma end = g;
  end.a = a, end.x = x;
  return end.edges(y, Upper ? 1.0 : 0.0);
}

TINYT_INLINE F64 gammainc(F64 a, F64 x) { return incomplete_gamma<false>(a, x); }
TINYT_INLINE F64 gammaincc(F64 a, F64 x) { return incomplete_gamma<true>(a, x); }
TINYT_INLINE F32 gammainc(F32 a, F32 x) {
  return through_double(a, x, [](F64 s, F64 t) { return gammainc(s, t); });
}
TINYT_INLINE F32 gammaincc(F32 a, F32 x) {
  return through_double(a, x, [](F64 s, F64 t) { return gammaincc(s, t); });
}

// -(x / a) y, of double words with a quotient that is not subnormal.
TINYT_INLINE F64 minus_ratio_times(F64 x, F64 a, F64 y) {
  if constexpr (!kDoubleWords) return -(x / a) * y;
  const I64 tiny = (I64)(x < 0x1p-80);
  const F64 result = -(select(tiny, lifted(x), x) / a) * y;
  return select(tiny, lowered(result), result);
}

// dx/da of the x with a given P(a, x): -(dP/da) / (dP/dx). The density dP/dx is a factor / x, so
// the factor goes.
TINYT_OUTLINE F64 standard_gamma_grad(F64 a, F64 x) {
  const I64 plain =
      (I64)(a > 0.0) & (I64)(x > 0.0) & (I64)(a < __builtin_inf()) & (I64)(x < __builtin_inf());
  const IncompleteGamma g(select(plain, a, splat(1.0)), select(plain, x, splat(0.5)));
  const Dual from = {g.a, splat(1.0)};
  // Of double words by digamma(1 + a), as 1 / a goes again.
  const F64 next = log(g.x) - digamma(kDoubleWords ? 1.0 + g.a : g.a);
  const F64 slope = kDoubleWords ? next + 1.0 / g.a : next;
  F64 y = F64{};
  if (any(g.lower)) {
    const Dual s = g.series(from);
    y = minus_ratio_times(g.x, g.a, s.v * (kDoubleWords ? next : slope - 1.0 / g.a) + s.d);
  }
  const I64 upper = ~(g.lower | g.uniform);
  if (any(upper)) {
    const Dual q = g.fraction(from);
    y = select(upper, g.x * (q.v * slope + q.d), y);
  }
  if (any(g.uniform)) {
    // With P = erfc(-eta sqrt(a / 2)) / 2 - E T: d(eta)/da = -(mu / eta) / a, d(log E)/da =
    // log(1 + mu) - 1 / (2a), and the density is a E / (x Gamma*), Gamma* = exp(stirling_rest).
    const IncompleteGamma::Temme t = g.temme();
    const F64 ratio = select(g.eta == 0.0, splat(1.0), g.mu / g.eta);
    const F64 rest = t.value * (log1p(g.mu) - 0.5 / g.a) + t.in_a - t.in_eta * ratio / g.a;
    const F64 found = g.x / g.a * exp(stirling_rest(select(g.uniform, g.a, splat(64.0)))) *
                      (ratio - 0.5 * g.eta + rest);
    y = select(g.uniform, found, y);
  }
  y = select((I64)(x == 0.0) & (I64)(a > 0.0), F64{}, y);
  return select(plain | ((I64)(x == 0.0) & (I64)(a > 0.0)), y, splat(__builtin_nan("")));
}
TINYT_INLINE F32 standard_gamma_grad(F32 a, F32 x) {
  return through_double(a, x, [](F64 s, F64 t) { return standard_gamma_grad(s, t); });
}

// ---- the incomplete beta function

// I_x(a, b) = x^a (1 - x)^b / (a B(a, b)) / (1 + d_1 / (1 + d_2 / ...)), DLMF 8.17.22, which
// converges fast for x < (a + 1) / (a + b + 2): the fraction, by Lentz's method.
TINYT_INLINE Dual beta_fraction(Dual a, Dual b, F64 x_, I64 mine) {
  const Dual one = constant<Dual>(splat(1.0)), x = constant<Dual>(x_), sum = a + b;
  Dual c = one, d = one / (one - sum * x / (a + one)), h = d;
  F64 m_ = splat(1.0);
  I64 open = mine;
  repeat(
      kMostTerms, carried(c, d, h, m_, open), [&] { return open; },
      [&](I64 lanes) {
        const Dual m = constant<Dual>(m_), twice = constant<Dual>(2.0 * m_);
        const Dual even = m * (b - m) * x / ((a + twice - one) * (a + twice));
        d = one / (one + even * d);
        c = one + even / c;
        const Dual half = h * (d * c);
        const Dual odd =
            constant<Dual>(F64{}) - (a + m) * (sum + m) * x / ((a + twice) * (a + twice + one));
        d = one / (one + odd * d);
        c = one + odd / c;
        const Dual next = half * (d * c);
        open = lanes & counts(next - half, next);
        h = keep(lanes, next, h);
        m_ += 1.0;
      });
  return h;
}

// dx/da of the x with a given I_x(a, b), b = total - a, over 1 - x: what the gradient of a
// Dirichlet distribution's entry is made of (Jankowiak and Obermeyer, "Pathwise derivatives beyond
// the reparameterization trick", 2018).
TINYT_OUTLINE F64 dirichlet_grad(F64 x_, F64 a_, F64 total) {
  const F64 b_ = total - a_;
  const I64 plain = (I64)(x_ > 0.0) & (I64)(x_ < 1.0) & (I64)(a_ > 0.0) & (I64)(b_ > 0.0) &
                    (I64)(total < __builtin_inf());
  const F64 x = select(plain, x_, splat(0.5)), a = select(plain, a_, splat(1.0));
  const F64 b = select(plain, b_, splat(1.0));
  const I64 left = (I64)(x < (a + 1.0) / (a + b + 2.0));
  const Dual moving = {a, splat(1.0)}, fixed = {b, F64{}};
  // Of double words without 1 / a, which goes again where `left`.
  const F64 next =
      kDoubleWords ? log(x) + digamma_rise(1.0 + a, b) : log(x) - (digamma(a) - digamma(a + b));
  const F64 slope = kDoubleWords ? next + b / a / (a + b) : next;
  F64 y = F64{};
  if (any(left)) {
    const Dual f = beta_fraction(moving, fixed, x, left);
    const F64 fall = kDoubleWords ? next - 1.0 / (a + b) : slope - 1.0 / a;
    y = minus_ratio_times(x, a, f.v * fall + f.d);
  }
  if (any(~left)) {
    const F64 rest = 1.0 - x, log_slope = log1p(-rest);
    const Dual f = beta_fraction(fixed, moving, rest, ~left);
    y = select(left, y, x / b * (f.v * (log_slope - log(x) + slope) + f.d));
  }
  // No mass is left to move at an end.
  const I64 end = ((I64)(x_ == 0.0) | (I64)(x_ == 1.0)) & (I64)(a_ > 0.0);
  return select(plain, y, select(end, F64{}, splat(__builtin_nan(""))));
}
TINYT_INLINE F32 dirichlet_grad(F32 x, F32 a, F32 total) {
  const F64Pair p = widen(x), q = widen(a), r = widen(total);
  return narrow(dirichlet_grad(p.lo, q.lo, r.lo), dirichlet_grad(p.hi, q.hi, r.hi));
}

}  // namespace
}  // namespace tinyt::cpu
