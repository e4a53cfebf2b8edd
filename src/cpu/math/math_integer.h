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
inline uint64_t gcd_lane(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}
TINYT_INLINE I64 gcd(I64 x, I64 y) {
  const U64 a = (U64)abs(x), b = (U64)abs(y);
  I64 result = {};
  for (int i = 0; i < kLanes<I64>; ++i) result[i] = static_cast<int64_t>(gcd_lane(a[i], b[i]));
  return result;
}
// |x / gcd y|, where the product may wrap before its absolute value; 0 where one of them is 0.
TINYT_INLINE I64 lcm(I64 x, I64 y) {
  const U64 a = (U64)abs(x), b = (U64)abs(y);
  U64 result = {};
  for (int i = 0; i < kLanes<I64>; ++i) {
    const uint64_t divisor = gcd_lane(a[i], b[i]);
    result[i] = divisor == 0 ? 0 : a[i] / divisor * b[i];
  }
  return (I64)abs((I64)result);
}

}  // namespace
}  // namespace tinyt::cpu
