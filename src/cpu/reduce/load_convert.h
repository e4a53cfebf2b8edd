// Elements as they lie in memory, as lanes of the dtype that kernels compute in.
#pragma once

#include "cpu/simd/convert.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T, int N>
struct LanesOf {
  using type = Vec<T, N>;
};
template <class T>
struct LanesOf<T, 1> {
  using type = T;
};

template <size_t Size>
struct RawOf;  // the unsigned integer of that size
template <>
struct RawOf<1> {
  using type = uint8_t;
};
template <>
struct RawOf<2> {
  using type = uint16_t;
};
template <>
struct RawOf<4> {
  using type = uint32_t;
};
template <>
struct RawOf<8> {
  using type = uint64_t;
};

// Integers in wider lanes. GCC 12 takes conversions of parts of a register lane by lane.
template <class S, class T, int N>
TINYT_INLINE Vec<T, N> widen_lanes(const void* p) {
#if defined(__SSE4_2__)
  __m128i raw = {};
  if constexpr (N * sizeof(S) <= sizeof raw) __builtin_memcpy(&raw, p, N * sizeof(S));
  constexpr bool kBytes = sizeof(S) == 1 && sizeof(T) == 8, kWords = sizeof(S) == 2;
#if TINYT_VECTOR_BYTES == 64
  if constexpr (kBytes && N == 8) return (Vec<T, N>)_mm512_maskz_cvtepu8_epi64(0xFF, raw);
  if constexpr (kWords && N == 16) {
    const __m256i words = _mm256_loadu_si256(static_cast<const __m256i*>(p));
    return (Vec<T, N>)_mm512_maskz_cvtepu16_epi32(0xFFFF, words);
  }
#endif
#if TINYT_VECTOR_BYTES >= 32
  if constexpr (kBytes && N == 4) return (Vec<T, N>)_mm256_cvtepu8_epi64(raw);
  if constexpr (kWords && N == 8) return (Vec<T, N>)_mm256_cvtepu16_epi32(raw);
#endif
  if constexpr (kBytes && N == 2) return (Vec<T, N>)_mm_cvtepu8_epi64(raw);
  if constexpr (kWords && N == 4) return (Vec<T, N>)_mm_cvtepu16_epi32(raw);
#endif
  Vec<S, N> v;
  __builtin_memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, Vec<T, N>);
}

template <int N>
TINYT_INLINE Vec<float, N> halves_to_float(const void* p) {
#if defined(__AVX512F__)
  if constexpr (N == 16) {
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(static_cast<const __m256i*>(p)));
  }
#endif
#if defined(__F16C__)
  if constexpr (N == 8) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
  }
#endif
  Half raw[N];
  float values[N];
  __builtin_memcpy(raw, p, sizeof raw);
  for (int i = 0; i < N; ++i) values[i] = to_float(raw[i]);
  Vec<float, N> v;
  __builtin_memcpy(&v, values, sizeof v);
  return v;
}

// N neighbouring elements of S as values of T, which is S or what its kernels compute in.
template <class S, class T, int N>
TINYT_INLINE typename LanesOf<T, N>::type load_lanes(const void* p) {
  if constexpr (N == 1) {
    S raw;
    __builtin_memcpy(&raw, p, sizeof raw);
    return static_cast<T>(number(raw));
  } else if constexpr (__is_same(S, BoolByte)) {
    const auto v = load_lanes<uint8_t, T, N>(p);
    return v < 1 ? v : Vec<T, N>{} + 1;
  } else if constexpr (__is_same(S, T)) {
    Vec<T, N> v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  } else if constexpr (__is_same(S, BFloat16)) {
    return bit_cast<Vec<float, N>>(widen_lanes<uint16_t, uint32_t, N>(p) << 16);
  } else if constexpr (__is_same(S, Half)) {
    return halves_to_float<N>(p);
  } else {
    return widen_lanes<S, T, N>(p);
  }
}

// The first n lanes, 0 < n < N; the others are zero. Touches no memory beyond.
template <class S, class T, int N>
TINYT_INLINE Vec<T, N> load_lanes_part(const void* p, int64_t n) {
  using Raw = typename RawOf<sizeof(S)>::type;
  static_assert(N * sizeof(S) <= TINYT_VECTOR_BYTES);
  const Vec<Raw> raw = load_part<Raw>(p, n);
  return load_lanes<S, T, N>(&raw);
}

#if defined(TINYT_NATIVE_HALF)
// Rounded as to_bfloat16 does.
TINYT_INLINE U32 brain_bits(F32 x) {
  const U32 f = bit_cast<U32>(x), rounded = (f + 0x7FFF + (f >> 16 & 1)) >> 16;
  return select((I32)(x != x), U32{} + 0x7FC0, rounded);
}
TINYT_INLINE void store_brain(void* p, F32 x) { store_words(p, brain_bits(x)); }
#endif

// 0, 1, 2, ...
template <class T, int N>
TINYT_INLINE Vec<T, N> iota() {
  Vec<T, N> v;
  for (int i = 0; i < N; ++i) v[i] = static_cast<T>(i);
  return v;
}

}  // namespace
}  // namespace tinyt::cpu
