// RngOffsets whose number of uniform values is not known before: by rejection, lane by lane.
#include "cpu/math/math_arc.h"
#include "cpu/math/math_gamma.h"
#include "cpu/math/math_trig.h"
#include "cpu/random/random_words.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

constexpr int kWide = kLanes<F64>;
constexpr double kPi2 = 6.283185307179586476925286766559;

// The words of kWide elements, a block after another.
class Words {
 public:
  TINYT_INLINE Words(uint64_t seed, uint64_t offset, int64_t first) : seed_(seed) {
    U64 element = {};
    for (int i = 0; i < kWide; ++i) element[i] = static_cast<uint64_t>(first + i);
    counter_ = (element >> 2) + offset;
    slot_ = element & 3;
  }
  // Two uniform values in [0, 1), of 53 bits.
  TINYT_INLINE void next(F64& u, F64& v) {
    U64 c[philox::kWords] = {counter_, counter_ >> 32, slot_, splat(uint64_t{2})};
    philox::rounds(c, seed_, [](U64 a, uint32_t m) { return multiply_lowp(a, m); });
    u = unit_of((c[0] << 32) | (c[1] & UINT32_MAX));
    v = unit_of((c[2] << 32) | (c[3] & UINT32_MAX));
    slot_ += 4;
  }

 private:
  U64 counter_ = {}, slot_ = {};
  uint64_t seed_;
};

TINYT_INLINE F64 sqr(F64 x) { return x * x; }
// Uniform in (0, 1].
TINYT_INLINE F64 above_zero(F64 u) { return 1.0 - u; }

// kWide elements from `at` on, of which n are there; others repeat a harmless value.
TINYT_INLINE F64 read(const double* at, int64_t n, double other) {
  if (n >= kWide) return load<double>(at);
  F64 x = splat(other);
  for (int i = 0; i < n; ++i) x[i] = at[i];
  return x;
}
TINYT_INLINE void write(double* at, int64_t n, F64 x) {
  const int64_t count = n < kWide ? n : kWide;
  __builtin_memcpy(at, &x, static_cast<size_t>(count) * sizeof(double));
}

// ---- gamma

// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000): d (1 + c z)^3 of a
// normal z, d = alpha - 1/3. Below 1: that of alpha + 1 times u^(1 / alpha), kept as a logarithm,
// since for small alpha it is below every number.
TINYT_OUTLINE F64 gamma_lanes(Words words, F64 alpha, F64& boost) {
  const F64 inf = splat(__builtin_inf()), nan = splat(__builtin_nan(""));
  const I64 plain = (I64)(alpha > 0.0) & (I64)(alpha < inf);
  const F64 a = select(plain, alpha, splat(1.0));
  const I64 small = (I64)(a < 1.0);
  boost = F64{};
  if (any(small)) {
    F64 u, spare;
    words.next(u, spare);
    boost = select(small, log(above_zero(u)) / a, boost);
  }
  const F64 d = select(small, a + 1.0, a) - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  F64 value = d;
  I64 open = plain;
  while (any(open)) {
    F64 u, v, w, spare;
    words.next(u, v);
    words.next(w, spare);
    const F64 z = sqrt(-2.0 * log(above_zero(u))) * cos(kPi2 * v), t = 1.0 + c * z;
    const F64 cube = t * t * t;
    const I64 inside = (I64)(t > 0.0);
    const F64 bound = 0.5 * z * z + d * (1.0 - cube + log(select(inside, cube, splat(1.0))));
    const I64 taken = open & inside & (I64)(log(above_zero(w)) < bound);
    value = select(taken, d * cube, value);
    open &= ~taken;
  }
  value = select(alpha == inf, inf, value);
  return select(plain | (I64)(alpha == inf), value, select(alpha == 0.0, F64{}, nan));
}

void gamma(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* alpha,
           double* value, double* boost) {
  for (int64_t i = 0; i < n; i += kWide) {
    F64 log_factor;
    const F64 a = read(alpha + i, n - i, 1.0);
    const F64 x = gamma_lanes(Words(seed, offset, begin + i), a, log_factor);
    write(value + i, n - i, x);
    write(boost + i, n - i, log_factor);
  }
}

void gamma_value(int64_t n, const double* value, const double* boost, double* out) {
  for (int64_t i = 0; i < n; i += kWide)
    write(out + i, n - i, read(value + i, n - i, 0.0) * exp(read(boost + i, n - i, 0.0)));
}

// By the largest logarithm, so that not all of them vanish; one after another, in order.
void dirichlet_row(int64_t n, const double* value, const double* boost, double* out) {
  double most = -__builtin_inf(), sum = 0;
  for (int64_t i = 0; i < n; i += kWide) {
    const F64 x = log(read(value + i, n - i, 1.0)) + read(boost + i, n - i, -__builtin_inf());
    write(out + i, n - i, x);
  }
  for (int64_t i = 0; i < n; ++i) most = out[i] > most ? out[i] : most;
  for (int64_t i = 0; i < n; i += kWide)
    write(out + i, n - i, exp(read(out + i, n - i, 0.0) - splat(most)));
  for (int64_t i = 0; i < n; ++i) sum += out[i];
  for (int64_t i = 0; i < n; i += kWide)
    write(out + i, n - i, read(out + i, n - i, 0.0) / splat(sum));
}

// ---- counts

// The first k whose probabilities up to k exceed u, by P(k + 1) = P(k) factor(k); at most `most`.
template <class Factor>
TINYT_INLINE F64 first_above(F64 u, F64 p, F64 most, I64 open, Factor&& factor) {
  F64 k = F64{}, sum = p;
  for (;;) {
    open &= (I64)(u >= sum) & (I64)(k < most);
    if (!any(open)) return k;
    p = select(open, p * factor(k), p);
    k = select(open, k + 1.0, k);
    sum = select(open, sum + p, sum);
  }
}

// Below a rate of 10 by inversion of one uniform value; else by Hörmann's transformed rejection
// PTRS ("The transformed rejection method for generating Poisson random variables", 1993).
TINYT_OUTLINE F64 poisson_lanes(Words words, F64 rate) {
  const I64 plain = (I64)(rate >= 0.0) & (I64)(rate < __builtin_inf());
  const I64 small = plain & (I64)(rate < 10.0);
  F64 value = F64{};
  if (any(small)) {
    const F64 r = select(small, rate, F64{});
    F64 u, spare;
    words.next(u, spare);
    // What is left beyond 200 is less than any uniform value can tell.
    value = first_above(u, exp(-r), splat(200.0), small, [r](F64 k) { return r / (k + 1.0); });
  }
  I64 open = plain & ~small;
  if (any(open)) {
    const F64 r = select(open, rate, splat(10.0)), log_rate = log(r);
    const F64 b = 0.931 + 2.53 * sqrt(r), a = -0.059 + 0.02483 * b;
    const F64 log_alpha = log(1.1239 + 1.1328 / (b - 3.4)), quick = 0.9277 - 3.6224 / (b - 2.0);
    while (any(open)) {
      F64 u, v;
      words.next(u, v);
      u -= 0.5;
      v = above_zero(v);
      const F64 us = 0.5 - abs(u), k = floor((2.0 * a / us + b) * u + r + 0.43);
      const I64 inside = (I64)(k >= 0.0) & ~((I64)(us < 0.013) & (I64)(v > us));
      const F64 at = select(inside, k, F64{});
      const F64 height = log(v) + log_alpha - log(a / sqr(us) + b);
      const I64 under = (I64)(height <= at * log_rate - r - lgamma(at + 1.0));
      const I64 at_once = (I64)(us >= 0.07) & (I64)(v <= quick) & (I64)(k >= 0.0);
      const I64 taken = open & (at_once | (inside & under));
      value = select(taken, k, value);
      open &= ~taken;
    }
  }
  return select(plain, value, splat(__builtin_nan("")));
}

void poisson(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* rate,
             double* out) {
  for (int64_t i = 0; i < n; i += kWide) {
    const F64 r = read(rate + i, n - i, 0.0);
    write(out + i, n - i, poisson_lanes(Words(seed, offset, begin + i), r));
  }
}

// Of the rarer outcome: below a mean of 10 by inversion; else by Hörmann's BTRS ("The generation of
// binomial random variates", 1993), whose test is exact here.
TINYT_OUTLINE F64 binomial_lanes(Words words, F64 count, F64 probability) {
  const I64 plain = (I64)(count >= 0.0) & (I64)(count < __builtin_inf()) &
                    (I64)(probability >= 0.0) & (I64)(probability <= 1.0);
  const I64 rare = (I64)(probability <= 0.5);
  const F64 n = select(plain, floor(count), F64{});
  const F64 p = select(plain, select(rare, probability, 1.0 - probability), F64{});
  const F64 odds = p / (1.0 - p), mean = n * p;
  const I64 small = plain & (I64)(mean < 10.0);
  F64 value = F64{};
  if (any(small)) {
    const F64 m = select(small, n, F64{});
    F64 u, spare;
    words.next(u, spare);
    value = first_above(u, exp(m * log1p(-p)), minimum(m, splat(200.0)), small,
                        [m, odds](F64 k) { return (m - k) / (k + 1.0) * odds; });
  }
  I64 open = plain & ~small;
  if (any(open)) {
    const F64 m = select(open, n, splat(40.0)), q = select(open, p, splat(0.5));
    const F64 spread = sqrt(m * q * (1.0 - q)), b = 1.15 + 2.53 * spread;
    const F64 a = -0.0873 + 0.0248 * b + 0.01 * q, centre = m * q + 0.5;
    const F64 alpha = (2.83 + 5.1 / b) * spread, quick = 0.92 - 4.2 / b;
    const F64 mode = floor((m + 1.0) * q), log_odds = log(q / (1.0 - q));
    const F64 top = lgamma(mode + 1.0) + lgamma(m - mode + 1.0);
    while (any(open)) {
      F64 u, v;
      words.next(u, v);
      u -= 0.5;
      v = above_zero(v);
      const F64 us = 0.5 - abs(u), k = floor((2.0 * a / us + b) * u + centre);
      const I64 inside = (I64)(k >= 0.0) & (I64)(k <= m);
      const F64 at = select(inside, k, mode);
      const F64 height = log(v * alpha / (a / sqr(us) + b));
      const F64 density = top - lgamma(at + 1.0) - lgamma(m - at + 1.0) + (at - mode) * log_odds;
      const I64 at_once = (I64)(us >= 0.07) & (I64)(v <= quick);
      const I64 taken = open & inside & (at_once | (I64)(height <= density));
      value = select(taken, k, value);
      open &= ~taken;
    }
  }
  value = select(rare, value, n - value);
  return select(plain, value, splat(__builtin_nan("")));
}

void binomial(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* count,
              const double* probability, double* out) {
  for (int64_t i = 0; i < n; i += kWide) {
    const F64 m = read(count + i, n - i, 0.0), p = read(probability + i, n - i, 0.0);
    write(out + i, n - i, binomial_lanes(Words(seed, offset, begin + i), m, p));
  }
}

// ---- angles

// Best and Fisher, "Efficient simulation of the von Mises distribution" (1979).
TINYT_OUTLINE F64 von_mises_lanes(Words words, F64 concentration) {
  const I64 plain = (I64)(concentration >= 0.0) & (I64)(concentration < __builtin_inf());
  const F64 k = select(plain, concentration, F64{});
  // Above, the normal distribution that it tends to; below, the uniform one.
  const I64 sharp = (I64)(k > 1e6), flat = (I64)(k < 1e-8);
  const F64 kappa = select(sharp | flat, splat(1.0), k);
  const F64 tau = 1.0 + sqrt(1.0 + 4.0 * kappa * kappa);
  const F64 rho = (tau - sqrt(2.0 * tau)) / (2.0 * kappa);
  // Near 0, where rho is a difference of equals, its series.
  const F64 r = select(kappa < 1e-4, 1.0 / kappa + kappa, (1.0 + rho * rho) / (2.0 * rho));
  F64 angle = F64{};
  I64 open = plain;
  while (any(open)) {
    F64 u, v, w, spare;
    words.next(u, v);
    words.next(w, spare);
    const F64 z = cos(0.5 * kPi2 * u), f = (1.0 + r * z) / (r + z), c = kappa * (r - f);
    const F64 up = above_zero(v);
    const I64 inside = (I64)(c * (2.0 - c) > up) | (I64)(log(c / up) + 1.0 - c >= 0.0);
    const F64 turned = acos(clamp(f, -1.0, 1.0));
    const F64 around = select(w < 0.5, -turned, turned);
    const F64 normal = sqrt(-2.0 * log(above_zero(u))) * cos(kPi2 * v) / sqrt(k);
    const F64 found = select(sharp, normal, select(flat, kPi2 * u - 0.5 * kPi2, around));
    const I64 taken = open & (inside | sharp | flat);
    angle = select(taken, found, angle);
    open &= ~taken;
  }
  return select(plain, angle, splat(__builtin_nan("")));
}

void von_mises(uint64_t seed, uint64_t offset, int64_t begin, int64_t n,
               const double* concentration, double* out) {
  for (int64_t i = 0; i < n; i += kWide) {
    const F64 k = read(concentration + i, n - i, 1.0);
    write(out + i, n - i, von_mises_lanes(Words(seed, offset, begin + i), k));
  }
}

}  // namespace

extern "C" constexpr VariateTable TINYT_TABLE(variates) = {
    gamma, gamma_value, dirichlet_row, poisson, binomial, von_mises,
};

}  // namespace tinyt::cpu
