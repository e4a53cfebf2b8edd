// SIMD value types over GCC/Clang vector extensions, as wide as the level's registers.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#define TINYT_VECTOR_BYTES 64
#elif defined(__AVX2__) && defined(__FMA__) && defined(__BMI2__)
#define TINYT_VECTOR_BYTES 32
#else
#define TINYT_VECTOR_BYTES 16
#endif

#define TINYT_INLINE inline __attribute__((always_inline))
// Long functions, called for the body and the tail of several loops: one copy of each.
#define TINYT_OUTLINE [[maybe_unused]] __attribute__((noinline))

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T, int Lanes>
struct VecOf {
  typedef T type __attribute__((vector_size(sizeof(T) * Lanes)));
};
// int64_t lanes are of the type the compiler gives a comparison of doubles: long with GCC, long
// long with Clang, and vectors of the two do not mix.
#if defined(__clang__)
using Lane64 = long long;
#else
using Lane64 = long;
#endif
template <int Lanes>
struct VecOf<int64_t, Lanes> {
  typedef Lane64 type __attribute__((vector_size(8 * Lanes)));
};
// `Lanes` elements of T; the default fills a register.
template <class T, int Lanes = static_cast<int>(TINYT_VECTOR_BYTES / sizeof(T))>
using Vec = typename VecOf<T, Lanes>::type;

using F32 = Vec<float>;
using F64 = Vec<double>;
using I32 = Vec<int32_t>;
using I64 = Vec<int64_t>;
using U16 = Vec<uint16_t>;
using U32 = Vec<uint32_t>;
using U64 = Vec<uint64_t>;
using B8 = Vec<uint8_t>;  // bools, one byte each, 0 or 1

template <class V>
struct VecTraits;
template <>
struct VecTraits<F32> {
  using Element = float;
  using Mask = I32;
};
template <>
struct VecTraits<F64> {
  using Element = double;
  using Mask = I64;
};
template <>
struct VecTraits<I32> {
  using Element = int32_t;
  using Mask = I32;
};
template <>
struct VecTraits<I64> {
  using Element = int64_t;
  using Mask = I64;
};
template <>
struct VecTraits<U32> {
  using Element = uint32_t;
  using Mask = I32;
};
template <>
struct VecTraits<U64> {
  using Element = uint64_t;
  using Mask = I64;
};
template <>
struct VecTraits<U16> {
  using Element = uint16_t;
  using Mask = Vec<int16_t>;
};
template <>
struct VecTraits<B8> {
  using Element = uint8_t;
  using Mask = Vec<int8_t>;
};
template <class V>
using Element = typename VecTraits<V>::Element;
// Lane masks (-1 or 0 in each lane): the signed integers as wide as V's elements.
template <class V>
using Mask = typename VecTraits<V>::Mask;

template <class V>
inline constexpr int kLanes = static_cast<int>(sizeof(V) / sizeof(Element<V>));
template <class V>
inline constexpr bool kIsFloat = static_cast<Element<V>>(0.5) != 0;

template <class To, class From>
TINYT_INLINE To bit_cast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

template <class T>
TINYT_INLINE Vec<T> load(const void* p) {
  Vec<T> v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}

template <class V>
TINYT_INLINE void store(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}

// Through the bits: adding -0.0 to a zero vector would give +0.0.
TINYT_INLINE I32 splat(int32_t x) { return I32{} + x; }
TINYT_INLINE I64 splat(int64_t x) { return I64{} + x; }
TINYT_INLINE U64 splat(uint64_t x) { return U64{} + x; }
TINYT_INLINE U16 splat(uint16_t x) { return U16{} + x; }
TINYT_INLINE B8 splat(uint8_t x) { return B8{} + x; }
TINYT_INLINE F32 splat(float x) { return bit_cast<F32>(splat(bit_cast<int32_t>(x))); }
TINYT_INLINE F64 splat(double x) { return bit_cast<F64>(splat(bit_cast<int64_t>(x))); }

template <class M, class V>
TINYT_INLINE V select(M mask, V a, V b) {
  return mask ? a : b;
}

// Float32 lanes as two registers of float64 lanes, in order.
struct F64Pair {
  F64 lo, hi;
};

// Rounding directions, in the x86 encoding.
enum Rounding { kToNearestEven = 0, kDown = 1, kUp = 2, kToZero = 3 };

}  // namespace
}  // namespace tinyt::cpu
