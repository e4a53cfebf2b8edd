// What simd.h makes of operators and of what each kind of machine brings: rounding, signs,
// extremes, loops and lanes. Values of the trace (simd_trace.h) have it, too.
#pragma once

#include <stdint.h>

namespace tinyt::cpu {
namespace {

// Of integers, which wrap: unsigned.
TINYT_INLINE U64 fma(U64 a, U64 b, U64 c) { return a * b + c; }

// ---- rounding to an integer

template <class V>
TINYT_INLINE V floor(V x) {
  return round_to<kDown>(x);
}
template <class V>
TINYT_INLINE V ceil(V x) {
  return round_to<kUp>(x);
}
template <class V>
TINYT_INLINE V trunc(V x) {
  return round_to<kToZero>(x);
}
template <class V>
TINYT_INLINE V round_even(V x) {
  return round_to<kToNearestEven>(x);
}

// The nearest integer of a small float (|x| < 2^22, 2^51), ties to even, also as an integer:
// adding 1.5 * 2^(mantissa bits) leaves it in the low bits. Of others, anything.
TINYT_INLINE F32 nearest(F32 x, I32& k) {
  const F32 shifted = x + 0x1.8p23f;
  k = (I32)(bit_cast<U32>(shifted) - 0x4B400000);
  return shifted - 0x1.8p23f;
}
// The same of x * y; near the middle of two integers, one of them.
TINYT_INLINE F32 nearest_product(F32 x, float y, I32& k) {
  const F32 shifted = fma(x, splat(y), splat(0x1.8p23f));
  k = (I32)(bit_cast<U32>(shifted) - 0x4B400000);
  return shifted - 0x1.8p23f;
}

// ---- signs

TINYT_INLINE F32 abs(F32 x) { return bit_cast<F32>(bit_cast<I32>(x) & INT32_MAX); }
// INT64_MIN stays what it is.
TINYT_INLINE I64 abs(I64 x) {
  const U64 negative = (U64)(x < 0);
  return (I64)(((U64)x ^ negative) - negative);
}

TINYT_INLINE I32 sign_bit(F32 x) { return bit_cast<I32>(x) & INT32_MIN; }

#if !defined(TINYT_TRACE_SINGLE)  // of double words: simd_double_word.h
TINYT_INLINE F64 nearest(F64 x, I64& k) {
  const F64 shifted = x + 0x1.8p52;
  k = (I64)(bit_cast<U64>(shifted) - 0x4338000000000000);
  return shifted - 0x1.8p52;
}
// |k| < 2^51: not every level converts 64-bit integers.
TINYT_INLINE F64 to_float(I64 k) { return bit_cast<F64>(k + 0x4338000000000000) - 0x1.8p52; }
TINYT_INLINE F64 abs(F64 x) { return bit_cast<F64>(bit_cast<I64>(x) & INT64_MAX); }
TINYT_INLINE I64 sign_bit(F64 x) { return bit_cast<I64>(x) & INT64_MIN; }
#endif

// Magnitude of x, sign of s.
template <class V>
TINYT_INLINE V copysign(V x, V s) {
  return bit_cast<V>(bit_cast<Mask<V>>(abs(x)) | sign_bit(s));
}

// ---- minimum, maximum: a NaN wins, and +0 is above -0, so the operands' order is the same. Floats
// of 64-byte registers have forms of their own.

template <class V>
TINYT_INLINE V maximum(V a, V b) {
  V m = select(a > b, a, b);
  if constexpr (kIsFloat<V>) {
    m = select(a == b, bit_cast<V>(bit_cast<Mask<V>>(a) & bit_cast<Mask<V>>(b)), m);
    m = select(a != a, a, m);
  }
  return m;
}
template <class V>
TINYT_INLINE V minimum(V a, V b) {
  V m = select(a < b, a, b);
  if constexpr (kIsFloat<V>) {
    m = select(a == b, bit_cast<V>(bit_cast<Mask<V>>(a) | bit_cast<Mask<V>>(b)), m);
    m = select(a != a, a, m);
  }
  return m;
}

}  // namespace
}  // namespace tinyt::cpu
