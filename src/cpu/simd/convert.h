// Conversion of one value between any two dtypes, by PyTorch's rules. Written without branches, so
// that loops over it become vector code.
//
//   to bool: x != 0 (a NaN is true); float to integer: truncated as x86's cvtt does (out of range:
//   INT32_MIN or INT64_MIN, narrower integers take the low bits of an int32); to float16 and
//   bfloat16: through float32, rounded to nearest even; complex to real: the real part.
#pragma once

#include "core/base/dtype.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace tinyt::cpu {
namespace {

// The storage of DType::Bool, which dtype.def shares with uint8. Every byte but 0 is true: memory
// of others (NumPy, DLPack, a view of uint8, uninitialised) may hold any. Our results are 0 or 1.
struct BoolByte {
  uint8_t value;
};

inline float to_float(Half h) {
  constexpr uint32_t kRebias = (127 - 15) << 23, kExponent = 0x1F << 23;
  const uint32_t shifted = static_cast<uint32_t>(h.bits & 0x7FFF) << 13;
  const uint32_t sign = static_cast<uint32_t>(h.bits & 0x8000) << 16;
  const uint32_t exponent = shifted & kExponent;
  // A subnormal is the difference of two normal numbers.
  const float subnormal = __builtin_bit_cast(float, shifted + kRebias + (1u << 23)) - 0x1p-14f;
  const uint32_t special = exponent == kExponent ? kRebias : 0;  // inf, NaN
  const uint32_t quiet = shifted > kExponent ? 1u << 22 : 0;     // a NaN, as instructions do
  const uint32_t bits =
      exponent == 0 ? __builtin_bit_cast(uint32_t, subnormal) : shifted + kRebias + special;
  return __builtin_bit_cast(float, bits | quiet | sign);
}

inline Half to_half(float x) {
  constexpr uint32_t kInf = 0x7F800000, kTooLarge = (127 + 16) << 23, kNormal = (127 - 14) << 23;
  const uint32_t f = __builtin_bit_cast(uint32_t, x);
  const uint32_t a = f & 0x7FFFFFFF;
  const uint32_t normal = (a - ((127 - 15) << 23) + 0xFFF + (a >> 13 & 1)) >> 13;
  // The unit in the last place of numbers near 0.5 is that of half's subnormals.
  const uint32_t subnormal =
      __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, a) + 0.5f) - 0x3F000000;
  const uint32_t special = a > kInf ? 0x7E00 | (a >> 13 & 0x3FF) : 0x7C00;
  uint32_t bits = a < kNormal ? subnormal : normal;
  bits = a >= kTooLarge ? special : bits;
  return {static_cast<uint16_t>(bits | (f >> 16 & 0x8000))};
}

inline float to_float(BFloat16 b) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(b.bits) << 16);
}

inline BFloat16 to_bfloat16(float x) {
  const uint32_t f = __builtin_bit_cast(uint32_t, x);
  const uint32_t rounded = (f + 0x7FFF + (f >> 16 & 1)) >> 16;
  return {static_cast<uint16_t>(x != x ? 0x7FC0 : rounded)};
}

template <class T>
inline constexpr bool kIsReal = static_cast<T>(0.5) != 0;

inline int32_t to_int32(float x) {
  return x >= -0x1p31f && x < 0x1p31f ? static_cast<int32_t>(x) : INT32_MIN;
}
inline int32_t to_int32(double x) {
  return x > -2147483649.0 && x < 0x1p31 ? static_cast<int32_t>(x) : INT32_MIN;
}
#if defined(__SSE2__) && !defined(__AVX512DQ__)
// The instruction itself: the lines below become branches without registers of such conversions.
inline int64_t to_int64(float x) { return _mm_cvttss_si64(_mm_set_ss(x)); }
inline int64_t to_int64(double x) { return _mm_cvttsd_si64(_mm_set_sd(x)); }
#else
template <class T>
inline int64_t to_int64(T x) {
  constexpr T kLimit = 0x1p63f;
  return x >= -kLimit && x < kLimit ? static_cast<int64_t>(x) : INT64_MIN;
}
#endif

// Between the arithmetic types.
template <class To, class From>
inline To convert_number(From x) {
  if constexpr (!kIsReal<From> || kIsReal<To>) {
    return static_cast<To>(x);
  } else if constexpr (sizeof(To) == 8) {
    return to_int64(x);
  } else {
    return static_cast<To>(to_int32(x));
  }
}

template <class T>
struct Tag {};

template <class To, class From>
inline To convert(From x, Tag<To>) {
  return convert_number<To>(x);
}
template <class From>
inline BoolByte convert(From x, Tag<BoolByte>) {
  return {x != 0};
}
template <class From>
inline Half convert(From x, Tag<Half>) {
  return to_half(static_cast<float>(x));
}
template <class From>
inline BFloat16 convert(From x, Tag<BFloat16>) {
  return to_bfloat16(static_cast<float>(x));
}
template <class From>
inline ComplexFloat convert(From x, Tag<ComplexFloat>) {
  return {static_cast<float>(x), 0};
}
template <class From>
inline ComplexDouble convert(From x, Tag<ComplexDouble>) {
  return {static_cast<double>(x), 0};
}

// The number a stored value stands for.
template <class T>
inline T number(T x) {
  return x;
}
inline uint8_t number(BoolByte x) { return x.value != 0; }
inline float number(Half x) { return to_float(x); }
inline float number(BFloat16 x) { return to_float(x); }
inline float number(ComplexFloat x) { return x.re; }
inline double number(ComplexDouble x) { return x.re; }

template <class To, class From>
inline To convert(From x) {
  return convert(number(x), Tag<To>());
}
template <>
inline BoolByte convert(ComplexFloat x) {
  return {static_cast<uint8_t>((x.re != 0) | (x.im != 0))};
}
template <>
inline BoolByte convert(ComplexDouble x) {
  return {static_cast<uint8_t>((x.re != 0) | (x.im != 0))};
}
template <>
inline ComplexDouble convert(ComplexFloat x) {
  return {x.re, x.im};
}
template <>
inline ComplexFloat convert(ComplexDouble x) {
  return {static_cast<float>(x.re), static_cast<float>(x.im)};
}

}  // namespace
}  // namespace tinyt::cpu
