// Division that rounds down, remainders, integer powers.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

// More than a quotient below 2^1024 needs.
inline constexpr int kMostQuotients = 32;

// The remainder of a / b for a >= 0, b > 0 and a / b finite; exact. Each step takes the rounded
// quotient times b away: what is left is representable, and negative if the quotient was rounded
// up.
TINYT_INLINE F64 fmod_positive(F64 a, F64 b) {
  repeat(
      kMostQuotients, carried(a), [&] { return (I64)(abs(a) >= b); },
      [&](I64 more) {
        const Two<F64> p = two_prod(trunc(a / b), b);
        a = select(more, (a - p.hi) - p.lo, a);
      });
  return select(a < 0.0, a + b, a);
}

// C's fmod: the sign of a, exact.
TINYT_INLINE F64 fmod(F64 a, F64 b) {
  const F64 x = abs(a), y = abs(b);
  F64 r = x;
  const I64 far = (I64)(x / y > 0x1p1000) & (I64)(y > 0.0) & (I64)(x < __builtin_inf());
  if (any(far)) r = fmod_positive(x, select(far, y * 0x1p1000, y));
  r = fmod_positive(r, y);
  return copysign(
      select((x == __builtin_inf()) | (y == 0.0) | (b != b), splat(__builtin_nan("")), r), a);
}

// The remainder of |a| / b as fmod_positive has it, in float32: b is above 0, the quotient below
// 2^128.
TINYT_INLINE F32 fmod_single(F32 a, F32 b) {
  repeat(
      kMostQuotients, carried(a), [&] { return (I32)(abs(a) >= b); },
      [&](I32 more) { a = select(more, fma(-trunc(a / b), b, a), a); });
  return select(a < 0.0f, a + b, a);
}
// Double words do not hold the quotients of float32 values exactly; their remainders are float32
// values. Quotients reach 2^277: first by multiples of b.
TINYT_INLINE F32 fmod_of_singles(F32 a, F32 b) {
  constexpr float kFar = 0x1p100f;
  const F32 inf = splat(__builtin_inff()), x = abs(a), y = abs(b);
  const F32 once = select((x / y > kFar) & (y > 0.0f), y * kFar, y);
  const F32 twice = select((x / once > kFar) & (y > 0.0f), once * kFar, once);
  const F32 r = fmod_single(fmod_single(fmod_single(x, twice), once), y);
  return copysign(select((x == inf) | (y == 0.0f) | (b != b), splat(__builtin_nanf("")), r), a);
}
TINYT_INLINE F32 fmod(F32 a, F32 b) {
  if constexpr (kDoubleWords) return fmod_of_singles(a, b);
  const F64Pair x = widen(a), y = widen(b);
  return narrow(fmod(x.lo, y.lo), fmod(x.hi, y.hi));
}

// As Python's %: the sign of b.
template <class V>
TINYT_INLINE V remainder(V a, V b) {
  const V r = fmod(a, b);
  return select((r != 0) & ((b < 0) != (r < 0)), r + b, r);
}

// As Python's // (floatobject.c, float_divmod): (a - remainder) / b is nearly whole.
template <class V>
TINYT_INLINE V floor_divide(V a, V b) {
  const V r = fmod(a, b), quotient = a / b;
  V d = (a - r) / b;
  d = select((r != 0) & ((b < 0) != (r < 0)), d - 1, d);
  V whole = floor(d);
  whole = select(d - whole > static_cast<Element<V>>(0.5), whole + 1, whole);
  whole = select(d == 0, copysign(V{}, quotient), whole);
  return select(b == 0, quotient, whole);
}

// There is no vector division of integers. A zero divisor gives 0 (callers refuse it before) and
// the quotient of INT64_MIN by -1 wraps.
TINYT_INLINE I64 floor_divide(I64 a, I64 b) {
  return each_lane(
      [](auto x, auto y) {
        using X = decltype(x);
        // Not a choice of `q - 1`, which the least number does not have.
        return quotient(x, y) - select((rest(x, y) != 0) & ((x < 0) != (y < 0)), X(1), X(0));
      },
      a, b);
}
TINYT_INLINE I64 fmod(I64 a, I64 b) {
  return each_lane([](auto x, auto y) { return rest(x, y); }, a, b);
}
TINYT_INLINE I64 remainder(I64 a, I64 b) {
  return select(b == 0, I64{}, (I64)((U64)a - (U64)floor_divide(a, b) * (U64)b));
}

// By squaring; wraps. A negative power of 1 and -1 is what it should be, of any other base 0.
TINYT_INLINE I64 pow(I64 base, I64 exponent) {
  const I64 negative = (I64)(exponent < 0);
  const I64 unit = (I64)(base == 1) | (I64)(base == -1);
  U64 power = U64{} + 1, square = (U64)base, e = (U64)exponent;
  // Only the parity of the exponent matters to 1 and -1; other bases are settled when it is < 0.
  e = select(unit, e & 1, select(negative, U64{}, e));
  repeat(
      64, carried(power, square, e), [&] { return (I64)(e != 0); },
      [&](I64) {
        power = select((e & 1) != 0, power * square, power);
        square *= square;
        e >>= 1;
      });
  return select(negative & ~unit, I64{}, (I64)power);
}

}  // namespace
}  // namespace tinyt::cpu
