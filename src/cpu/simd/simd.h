// SIMD values for kernels: F32, F64, I32, I64, U32, U64 and B8 (bools) fill one register of the
// level. Arithmetic, comparisons and bit operations are the language's own operators; a comparison
// gives a lane mask (-1 or 0). This header adds what the operators lack. Everything has internal
// linkage (see levels.h).
//
//   load<T>, store, load_part<T>, store_part   unaligned, whole or the first n lanes
//   stream, stream_fence                       stores past the caches
//   load_between<T>                            lanes first to last of a register, unaligned
//   splat, select, any, bit_cast               broadcast, blend, "is any lane set"
//   any_above                                  whether a lane is larger than a number
//   has_nan                                    whether a lane of two registers is a NaN
//   sum_bytes                                  sums of neighbouring bytes, by eights
//   load_mask<V>, store_mask                   lane masks from and to bools in memory
//   fma                                        a * b + c, rounded once where kHasFma, else twice
//   sqrt, floor, ceil, trunc, round_even, abs, copysign, maximum, minimum
//   at_least, at_most                          a limit on one side; a NaN stays
//   widen, narrow, nearest, to_float           conversions
//   pick                                       lanes of two registers by number
//   set_bytes, compress                        lanes of a mask side by side (if TINYT_COMPRESS)
#pragma once

#include "cpu/simd/simd_types.h"
#if defined(__SSE4_2__)
#include "cpu/simd/simd_x86.h"
#else
#include "cpu/simd/simd_portable.h"
#endif

namespace tinyt::cpu {
namespace {

// ---- the first n lanes, 0 <= n <= lanes; the others read as zero. Touches no memory beyond.

#if TINYT_VECTOR_BYTES == 16  // wider registers have masked loads and stores
template <class T>
TINYT_INLINE Vec<T> load_part(const void* p, int64_t n) {
  Vec<T> v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
}
template <class V>
TINYT_INLINE void store_part(void* p, V v, int64_t n) {
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(Element<V>));
}
// Lanes [first, last) of 4 bytes each; the others read as zero. Touches no memory beside them.
template <class T>
TINYT_INLINE Vec<T> load_between(const T* p, int64_t first, int64_t last) {
  if (last - first == kLanes<Vec<T>>) return load<T>(p);
  Vec<T> v = {};
  for (int64_t i = first; i < last; ++i) v[i] = p[i];
  return v;
}
#endif

#if TINYT_VECTOR_BYTES < 64  // there one instruction
TINYT_INLINE bool any_above(F32 x, float limit) { return any((I32)(x > limit)); }
template <class V>
TINYT_INLINE bool has_nan(V a, V b) {
  return any((Mask<V>)((a != a) | (b != b)));
}
#endif

// Lane i of the result is lane index[i] of a and b side by side.
#if TINYT_VECTOR_BYTES == 16
template <class V>
TINYT_INLINE V pick(V a, V b, Mask<V> index) {
  V both[2] = {a, b};
  Element<V> lanes[2 * kLanes<V>];
  __builtin_memcpy(lanes, both, sizeof lanes);
  V out{};
  for (int i = 0; i < kLanes<V>; ++i) out[i] = lanes[index[i]];
  return out;
}
#else  // of others than signed integers: as bits
template <class V>
TINYT_INLINE V pick(V a, V b, Mask<V> index) {
  return bit_cast<V>(pick(bit_cast<Mask<V>>(a), bit_cast<Mask<V>>(b), index));
}
#endif

// Of integers, which wrap: unsigned.
TINYT_INLINE U64 fma(U64 a, U64 b, U64 c) { return a * b + c; }

// ---- lane masks of V from bools in memory, one byte a lane, and back

template <class V>
TINYT_INLINE Mask<V> load_mask(const void* p) {
  if constexpr (sizeof(Element<V>) == 1) {
    return (Mask<V>)(load<uint8_t>(p) != 0);
  } else {
    return bytes_to_mask(p, static_cast<Mask<V>*>(nullptr));
  }
}
template <class V>
TINYT_INLINE Mask<V> load_mask_part(const void* p, int64_t n) {
  uint8_t bytes[kLanes<V>] = {};
  __builtin_memcpy(bytes, p, static_cast<size_t>(n));
  return load_mask<V>(bytes);
}
template <class M>
TINYT_INLINE void store_mask(void* p, M mask) {
  if constexpr (sizeof(mask[0]) == 1) {
    store(p, mask & 1);
  } else {
    mask_to_bytes(p, mask);
  }
}
template <class M>
TINYT_INLINE void store_mask_part(void* p, M mask, int64_t n) {
  uint8_t bytes[sizeof(M) / sizeof(mask[0])];
  store_mask(bytes, mask);
  __builtin_memcpy(p, bytes, static_cast<size_t>(n));
}

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
TINYT_INLINE F64 nearest(F64 x, I64& k) {
  const F64 shifted = x + 0x1.8p52;
  k = (I64)(bit_cast<U64>(shifted) - 0x4338000000000000);
  return shifted - 0x1.8p52;
}
// The same of x * y; near the middle of two integers, one of them.
TINYT_INLINE F32 nearest_product(F32 x, float y, I32& k) {
  const F32 shifted = fma(x, splat(y), splat(0x1.8p23f));
  k = (I32)(bit_cast<U32>(shifted) - 0x4B400000);
  return shifted - 0x1.8p23f;
}
TINYT_INLINE F32 to_float(I32 k) { return __builtin_convertvector(k, F32); }
// |k| < 2^51: not every level converts 64-bit integers.
TINYT_INLINE F64 to_float(I64 k) { return bit_cast<F64>(k + 0x4338000000000000) - 0x1.8p52; }

// ---- signs

TINYT_INLINE F32 abs(F32 x) { return bit_cast<F32>(bit_cast<I32>(x) & INT32_MAX); }
TINYT_INLINE F64 abs(F64 x) { return bit_cast<F64>(bit_cast<I64>(x) & INT64_MAX); }
// INT64_MIN stays what it is.
TINYT_INLINE I64 abs(I64 x) {
  const U64 negative = (U64)(x < 0);
  return (I64)(((U64)x ^ negative) - negative);
}

TINYT_INLINE I32 sign_bit(F32 x) { return bit_cast<I32>(x) & INT32_MIN; }
TINYT_INLINE I64 sign_bit(F64 x) { return bit_cast<I64>(x) & INT64_MIN; }

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
