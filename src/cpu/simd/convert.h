// Conversion of one value between any two dtypes, by PyTorch's rules. Written without branches, so
// that loops over it become vector code.
//
//   to bool: x != 0 (a NaN is true); float to integer: truncated as x86's cvtt does (out of range:
//   INT32_MIN or INT64_MIN, narrower integers take the low bits of an int32); to float16 and
//   bfloat16: through float32, rounded to nearest even; complex to real: the real part.
#pragma once

#include "core/base/dtype.h"
#include "cpu/simd/convert_bits.h"

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

inline float to_float(Half h) { return half_to_float(uint32_t{h.bits}); }
inline Half to_half(float x) { return {static_cast<uint16_t>(float_to_half(x))}; }
inline float to_float(BFloat16 b) { return bits_to_float(static_cast<uint32_t>(b.bits) << 16); }
inline BFloat16 to_bfloat16(float x) { return {static_cast<uint16_t>(float_to_brain(x))}; }

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
