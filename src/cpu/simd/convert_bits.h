// The bits of float16 and bfloat16 from those of a float and back: of scalars, or of the values of
// simd_trace.h. U holds 32 bits, F is a float.
#pragma once

#include <stdint.h>

namespace tinyt::cpu {
namespace {

inline float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t float_to_bits(float x) { return __builtin_bit_cast(uint32_t, x); }
inline uint32_t choose(bool condition, uint32_t a, uint32_t b) { return condition ? a : b; }

inline constexpr uint32_t kHalfRebias = (127 - 15) << 23;

template <class U>
inline auto half_to_float(U half) {
  constexpr uint32_t kExponent = 0x1F << 23;
  const U shifted = (half & 0x7FFF) << 13, sign = (half & 0x8000) << 16;
  const U exponent = shifted & kExponent;
  // A subnormal is the difference of two normal numbers.
  const auto subnormal = bits_to_float(shifted + (kHalfRebias + (1u << 23))) - 0x1p-14f;
  const U special = choose(exponent == kExponent, U(kHalfRebias), U(0));  // inf, NaN
  const U quiet = choose(shifted > kExponent, U(1u << 22), U(0));  // a NaN, as instructions do
  const U bits = choose(exponent == 0, float_to_bits(subnormal), shifted + kHalfRebias + special);
  return bits_to_float(bits | quiet | sign);
}

template <class F>
inline auto float_to_half(F x) {
  constexpr uint32_t kInf = 0x7F800000, kTooLarge = (127 + 16) << 23, kNormal = (127 - 14) << 23;
  const auto f = float_to_bits(x);
  using U = decltype(f + 0u);
  const U a = f & 0x7FFFFFFF;
  const U normal = (a - kHalfRebias + 0xFFF + (a >> 13 & 1)) >> 13;
  // The unit in the last place of numbers near 0.5 is that of half's subnormals.
  const U subnormal = float_to_bits(bits_to_float(a) + 0.5f) - 0x3F000000;
  const U special = choose(a > kInf, 0x7E00 | (a >> 13 & 0x3FF), U(0x7C00));
  const U finite = choose(a < kNormal, subnormal, normal);
  return choose(a >= kTooLarge, special, finite) | (f >> 16 & 0x8000);
}

template <class F>
inline auto float_to_brain(F x) {
  const auto f = float_to_bits(x);
  using U = decltype(f + 0u);
  const U rounded = (f + 0x7FFF + (f >> 16 & 1)) >> 16;
  return choose(x != x, U(0x7FC0), rounded);
}

}  // namespace
}  // namespace tinyt::cpu
