// Integers: shifts, greatest common divisor, least common multiple.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

// x 2^n, wrapping; 0 where n is negative or no less than the width.
TINYT_INLINE I64 shift_left(I64 x, I64 n) {
  const I64 inside = (I64)(n >= 0) & (I64)(n < 64);
  return select(inside, (I64)((U64)x << ((U64)n & 63)), I64{});
}
// x / 2^n rounded down; the sign alone where n is negative or no less than the width.
TINYT_INLINE I64 shift_right(I64 x, I64 n) {
  const I64 inside = (I64)(n >= 0) & (I64)(n < 64);
  return x >> select(inside, n, I64{} + 63);
}

// Euclid's algorithm on magnitudes; there is no vector division of integers.
template <class U>
inline U gcd_lane(U a, U b) {
  constexpr int kMostSteps = 93;  // of Fibonacci numbers (Lamé)
  repeat(
      kMostSteps, carried(a, b), [&] { return b != 0; },
      [&](auto) {
        const U left = rest(a, b);
        a = b;
        b = left;
      });
  return a;
}
TINYT_INLINE I64 gcd(I64 x, I64 y) {
  return (I64)each_lane([](auto a, auto b) { return gcd_lane(a, b); }, (U64)abs(x), (U64)abs(y));
}
// |x / gcd y|, where the product may wrap before its absolute value; 0 where one of them is 0.
TINYT_INLINE I64 lcm(I64 x, I64 y) {
  const U64 result = each_lane([](auto a, auto b) { return quotient(a, gcd_lane(a, b)) * b; },
                               (U64)abs(x), (U64)abs(y));
  return (I64)abs((I64)result);
}

}  // namespace
}  // namespace tinyt::cpu
