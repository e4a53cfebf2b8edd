// What the vector extensions lack, in x86 instructions: v2 (SSE4.2), v3 (AVX2, FMA), v4 (AVX-512).
#pragma once

#include <immintrin.h>

#include "cpu/simd/simd_types.h"

namespace tinyt::cpu {
namespace {

#if TINYT_VECTOR_BYTES == 64

// To memory past the caches; `p` is aligned to the register.
template <class V>
TINYT_INLINE void stream(void* p, V v) {
  _mm512_stream_si512(static_cast<__m512i*>(p), (__m512i)v);
}

inline constexpr bool kHasFma = true;
TINYT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
TINYT_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }

// GCC 12 warns about its own unmasked forms of these; the instructions are the same.
TINYT_INLINE F32 sqrt(F32 x) { return _mm512_maskz_sqrt_ps(0xFFFF, x); }
TINYT_INLINE F64 sqrt(F64 x) { return _mm512_maskz_sqrt_pd(0xFF, x); }
template <Rounding R>
TINYT_INLINE F32 round_to(F32 x) {
  return _mm512_maskz_roundscale_ps(0xFFFF, x, R | _MM_FROUND_NO_EXC);
}
template <Rounding R>
TINYT_INLINE F64 round_to(F64 x) {
  return _mm512_maskz_roundscale_pd(0xFF, x, R | _MM_FROUND_NO_EXC);
}
// x * 2^k, rounded once.
TINYT_INLINE F32 scale(F32 x, I32 k) {
  return _mm512_maskz_scalef_ps(0xFFFF, x, __builtin_convertvector(k, F32));
}
TINYT_INLINE F64 scale(F64 x, I64 k) {
  return _mm512_maskz_scalef_pd(0xFF, x, __builtin_convertvector(k, F64));
}
TINYT_INLINE F32 scale(F32 x, F32 n, I32) { return _mm512_maskz_scalef_ps(0xFFFF, x, n); }
TINYT_INLINE F64 scale(F64 x, F64 n, I64) { return _mm512_maskz_scalef_pd(0xFF, x, n); }
// The second operand of these instructions wins where one is a NaN.
TINYT_INLINE F32 at_least(F32 x, F32 low) { return _mm512_maskz_max_ps(0xFFFF, low, x); }
TINYT_INLINE F64 at_least(F64 x, F64 low) { return _mm512_maskz_max_pd(0xFF, low, x); }
TINYT_INLINE F32 at_most(F32 x, F32 high) { return _mm512_maskz_min_ps(0xFFFF, high, x); }
TINYT_INLINE F64 at_most(F64 x, F64 high) { return _mm512_maskz_min_pd(0xFF, high, x); }
// One instruction for numbers and zeros of both signs; of two NaNs the first operand's stays.
template <int Which>  // 4: the smaller one, 5: the larger one
TINYT_INLINE F32 extreme(F32 a, F32 b) {
  const __m512i nans = _mm512_set1_epi32(0x11);  // in place of a number
  const F32 numbers = _mm512_maskz_range_ps(0xFFFF, a, b, Which);
  return _mm512_fixupimm_ps(_mm512_fixupimm_ps(numbers, b, nans, 0), a, nans, 0);
}
template <int Which>
TINYT_INLINE F64 extreme(F64 a, F64 b) {
  const __m512i nans = _mm512_set1_epi64(0x11);
  const F64 numbers = _mm512_maskz_range_pd(0xFF, a, b, Which);
  return _mm512_fixupimm_pd(_mm512_fixupimm_pd(numbers, b, nans, 0), a, nans, 0);
}
TINYT_INLINE F32 maximum(F32 a, F32 b) { return extreme<5>(a, b); }
TINYT_INLINE F64 maximum(F64 a, F64 b) { return extreme<5>(a, b); }
TINYT_INLINE F32 minimum(F32 a, F32 b) { return extreme<4>(a, b); }
TINYT_INLINE F64 minimum(F64 a, F64 b) { return extreme<4>(a, b); }
TINYT_INLINE F64Pair widen(F32 x) {
  return {_mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, x, 0)),
          _mm512_maskz_cvtps_pd(0xFF, _mm512_maskz_extractf32x8_ps(0xFF, x, 1))};
}
TINYT_INLINE F32 narrow(F64 lo, F64 hi) {
  return _mm512_maskz_insertf32x8(0xFFFF, _mm512_castps256_ps512(_mm512_maskz_cvtpd_ps(0xFF, lo)),
                                  _mm512_maskz_cvtpd_ps(0xFF, hi), 1);
}

// float16 in memory; the bits are those of convert.h.
#define TINYT_NATIVE_HALF
TINYT_INLINE F32 load_half(const void* p) {
  return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(static_cast<const __m256i*>(p)));
}
TINYT_INLINE void store_half(void* p, F32 x) {
  _mm256_storeu_si256(
      static_cast<__m256i*>(p),
      _mm512_maskz_cvtps_ph(0xFFFF, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
// Lanes of at most 16 bits.
TINYT_INLINE void store_words(void* p, U32 x) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)x));
}
TINYT_INLINE void store_words(void* p, U32 a, U32 b) {
  store_words(p, a);
  store_words(static_cast<char*>(p) + sizeof a / 2, b);
}

template <class M>
TINYT_INLINE bool any(M mask) {
  return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
}
TINYT_INLINE bool any_above(F32 x, float limit) {
  return _mm512_cmp_ps_mask(x, splat(limit), _CMP_GT_OQ) != 0;
}
TINYT_INLINE bool has_nan(F32 a, F32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) != 0; }
TINYT_INLINE bool has_nan(F64 a, F64 b) { return _mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q) != 0; }
TINYT_INLINE U64 sum_bytes(B8 x) { return (U64)_mm512_sad_epu8((__m512i)x, __m512i{}); }

TINYT_INLINE I32 pick(I32 a, I32 b, I32 index) {
  return (I32)_mm512_permutex2var_epi32((__m512i)a, (__m512i)index, (__m512i)b);
}
TINYT_INLINE I64 pick(I64 a, I64 b, I64 index) {
  return (I64)_mm512_permutex2var_epi64((__m512i)a, (__m512i)index, (__m512i)b);
}

TINYT_INLINE __mmask64 first_bytes(int64_t n) {
  return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(n));
}
template <class T>
TINYT_INLINE Vec<T> load_part(const void* p, int64_t n) {
  return (Vec<T>)_mm512_maskz_loadu_epi8(first_bytes(n * static_cast<int64_t>(sizeof(T))), p);
}
template <class V>
TINYT_INLINE void store_part(void* p, V v, int64_t n) {
  _mm512_mask_storeu_epi8(p, first_bytes(n * static_cast<int64_t>(sizeof(Element<V>))), (__m512i)v);
}
// Lanes [first, last) of 4 bytes each; the others read as zero. Touches no memory beside them.
template <class T>
TINYT_INLINE Vec<T> load_between(const T* p, int64_t first, int64_t last) {
  const unsigned lanes = _bzhi_u32(0xFFFF, static_cast<unsigned>(last));
  const unsigned before = _bzhi_u32(0xFFFF, static_cast<unsigned>(first));
  return (Vec<T>)_mm512_maskz_loadu_ps(static_cast<__mmask16>(lanes & ~before), p);
}

// The bytes of 16 or 8 bools to lanes (sign-extended from -1 or 0) and back.
TINYT_INLINE I32 bytes_to_lanes(__m128i b, I32*) {
  return (I32)_mm512_maskz_cvtepi8_epi32(0xFFFF, b);
}
TINYT_INLINE I64 bytes_to_lanes(__m128i b, I64*) {
  return (I64)_mm512_maskz_cvtepi8_epi64(0xFF, b);
}
TINYT_INLINE __m128i lanes_to_bytes(I32 m) {
  return _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)m);
}
TINYT_INLINE __m128i lanes_to_bytes(I64 m) { return _mm512_maskz_cvtepi64_epi8(0xFF, (__m512i)m); }

// Bit i: whether byte i of the first n <= 16 is other than 0.
#define TINYT_COMPRESS
TINYT_INLINE __mmask16 set_bytes(const void* p, int64_t n) {
  const auto first = static_cast<__mmask16>(_bzhi_u32(0xFFFF, static_cast<unsigned>(n)));
  const __m128i b = _mm_maskz_loadu_epi8(first, p);
  return _mm_test_epi8_mask(b, b);
}
// The lanes whose bit is set, side by side; zeros behind them.
TINYT_INLINE U32 compress(U32 v, __mmask16 mask) {
  return (U32)_mm512_maskz_compress_epi32(mask, (__m512i)v);
}
TINYT_INLINE U64 compress(U64 v, __mmask16 mask) {
  return (U64)_mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), (__m512i)v);
}

#elif TINYT_VECTOR_BYTES == 32

template <class V>
TINYT_INLINE void stream(void* p, V v) {
  _mm256_stream_si256(static_cast<__m256i*>(p), (__m256i)v);
}

inline constexpr bool kHasFma = true;
TINYT_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
TINYT_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
TINYT_INLINE F32 sqrt(F32 x) { return _mm256_sqrt_ps(x); }
TINYT_INLINE F64 sqrt(F64 x) { return _mm256_sqrt_pd(x); }
template <Rounding R>
TINYT_INLINE F32 round_to(F32 x) {
  return _mm256_round_ps(x, R | _MM_FROUND_NO_EXC);
}
template <Rounding R>
TINYT_INLINE F64 round_to(F64 x) {
  return _mm256_round_pd(x, R | _MM_FROUND_NO_EXC);
}
TINYT_INLINE F32 at_least(F32 x, F32 low) { return _mm256_max_ps(low, x); }
TINYT_INLINE F64 at_least(F64 x, F64 low) { return _mm256_max_pd(low, x); }
TINYT_INLINE F32 at_most(F32 x, F32 high) { return _mm256_min_ps(high, x); }
TINYT_INLINE F64 at_most(F64 x, F64 high) { return _mm256_min_pd(high, x); }
TINYT_INLINE F64Pair widen(F32 x) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}
TINYT_INLINE F32 narrow(F64 lo, F64 hi) {
  return _mm256_set_m128(_mm256_cvtpd_ps(hi), _mm256_cvtpd_ps(lo));
}

#if defined(__F16C__)
#define TINYT_NATIVE_HALF
TINYT_INLINE F32 load_half(const void* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p)));
}
TINYT_INLINE void store_half(void* p, F32 x) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
// Lanes of at most 16 bits.
TINYT_INLINE void store_words(void* p, U32 x) {
  const __m256i v = (__m256i)x;
  _mm_storeu_si128(static_cast<__m128i*>(p),
                   _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}
TINYT_INLINE void store_words(void* p, U32 a, U32 b) {
  const __m256i packed = _mm256_packus_epi32((__m256i)a, (__m256i)b);  // within 16 bytes
  _mm256_storeu_si256(static_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xD8));
}
#endif

template <class M>
TINYT_INLINE bool any(M mask) {
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
}
TINYT_INLINE U64 sum_bytes(B8 x) { return (U64)_mm256_sad_epu8((__m256i)x, __m256i{}); }

TINYT_INLINE I32 pick(I32 a, I32 b, I32 index) {
  const I32 from_a = (I32)_mm256_permutevar8x32_epi32((__m256i)a, (__m256i)index);
  const I32 from_b = (I32)_mm256_permutevar8x32_epi32((__m256i)b, (__m256i)index);
  return select((I32)(index > 7), from_b, from_a);
}
TINYT_INLINE I64 pick(I64 a, I64 b, I64 index) {
  const I64 halves = (index * 2) | ((index * 2 + 1) << 32);
  const I64 from_a = (I64)_mm256_permutevar8x32_epi32((__m256i)a, (__m256i)halves);
  const I64 from_b = (I64)_mm256_permutevar8x32_epi32((__m256i)b, (__m256i)halves);
  return select((I64)(index > 3), from_b, from_a);
}

// The first n lanes of 4 or 8 bytes.
TINYT_INLINE __m256i first_lanes_32(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
TINYT_INLINE __m256i first_lanes_64(int64_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
template <class T>
TINYT_INLINE Vec<T> load_part(const void* p, int64_t n) {
  if constexpr (sizeof(T) == 4) {
    return (Vec<T>)_mm256_maskload_epi32(static_cast<const int*>(p), first_lanes_32(n));
  } else if constexpr (sizeof(T) == 8) {
    return (Vec<T>)_mm256_maskload_epi64(static_cast<const long long*>(p), first_lanes_64(n));
  } else {
    Vec<T> v = {};
    __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
    return v;
  }
}
template <class V>
TINYT_INLINE void store_part(void* p, V v, int64_t n) {
  if constexpr (sizeof(Element<V>) == 4) {
    _mm256_maskstore_epi32(static_cast<int*>(p), first_lanes_32(n), (__m256i)v);
  } else if constexpr (sizeof(Element<V>) == 8) {
    _mm256_maskstore_epi64(static_cast<long long*>(p), first_lanes_64(n), (__m256i)v);
  } else {
    __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(Element<V>));
  }
}

// Lanes [first, last) of 4 bytes each; the others read as zero. Touches no memory beside them.
template <class T>
TINYT_INLINE Vec<T> load_between(const T* p, int64_t first, int64_t last) {
  const __m256i lanes = _mm256_andnot_si256(first_lanes_32(first), first_lanes_32(last));
  return (Vec<T>)_mm256_maskload_epi32(reinterpret_cast<const int*>(p), lanes);
}

// Lane masks of 4 bytes as such of one byte, in order.
#define TINYT_JOIN_MASKS
TINYT_INLINE B8 join_masks(I32 a, I32 b, I32 c, I32 d) {
  const __m256i low = _mm256_packs_epi32((__m256i)a, (__m256i)b);
  const __m256i high = _mm256_packs_epi32((__m256i)c, (__m256i)d);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);  // packed within 16 bytes
  return (B8)_mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}
// The same of 8 bytes each.
TINYT_INLINE Vec<uint8_t, 16> join_masks(I64 a, I64 b, I64 c, I64 d) {
  const __m256i low = _mm256_packs_epi32((__m256i)a, (__m256i)b);
  const __m256i high = _mm256_packs_epi32((__m256i)c, (__m256i)d);
  const __m256i words = _mm256_packs_epi16(low, high);  // of each two in turn: 0, 1, then 2, 3
  const __m128i bytes =
      _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m128i order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
  return (Vec<uint8_t, 16>)_mm_shuffle_epi8(bytes, order);
}

TINYT_INLINE I32 bytes_to_lanes(__m128i b, I32*) { return (I32)_mm256_cvtepi8_epi32(b); }
TINYT_INLINE I64 bytes_to_lanes(__m128i b, I64*) { return (I64)_mm256_cvtepi8_epi64(b); }
TINYT_INLINE __m128i lanes_to_bytes(I32 m) {
  const __m256i v = (__m256i)m;
  const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  return _mm_packs_epi16(words, words);
}
TINYT_INLINE __m128i lanes_to_bytes(I64 m) {
  const __m256i v = (__m256i)m;
  // Two equal words a lane, then one, then a byte.
  const __m128i pairs = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i words = _mm_packs_epi32(pairs, pairs);
  return _mm_packs_epi16(words, words);
}

#else

template <class V>
TINYT_INLINE void stream(void* p, V v) {
  _mm_stream_si128(static_cast<__m128i*>(p), (__m128i)v);
}

inline constexpr bool kHasFma = false;
TINYT_INLINE F32 fma(F32 a, F32 b, F32 c) { return a * b + c; }
TINYT_INLINE F64 fma(F64 a, F64 b, F64 c) { return a * b + c; }
TINYT_INLINE F32 sqrt(F32 x) { return _mm_sqrt_ps(x); }
TINYT_INLINE F64 sqrt(F64 x) { return _mm_sqrt_pd(x); }
template <Rounding R>
TINYT_INLINE F32 round_to(F32 x) {
  return _mm_round_ps(x, R | _MM_FROUND_NO_EXC);
}
template <Rounding R>
TINYT_INLINE F64 round_to(F64 x) {
  return _mm_round_pd(x, R | _MM_FROUND_NO_EXC);
}
TINYT_INLINE F32 at_least(F32 x, F32 low) { return _mm_max_ps(low, x); }
TINYT_INLINE F64 at_least(F64 x, F64 low) { return _mm_max_pd(low, x); }
TINYT_INLINE F32 at_most(F32 x, F32 high) { return _mm_min_ps(high, x); }
TINYT_INLINE F64 at_most(F64 x, F64 high) { return _mm_min_pd(high, x); }
TINYT_INLINE F64Pair widen(F32 x) { return {_mm_cvtps_pd(x), _mm_cvtps_pd(_mm_movehl_ps(x, x))}; }
TINYT_INLINE F32 narrow(F64 lo, F64 hi) {
  return _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi));
}

template <class M>
TINYT_INLINE bool any(M mask) {
  return !_mm_testz_si128((__m128i)mask, (__m128i)mask);
}
TINYT_INLINE U64 sum_bytes(B8 x) { return (U64)_mm_sad_epu8((__m128i)x, __m128i{}); }

TINYT_INLINE I32 bytes_to_lanes(__m128i b, I32*) { return (I32)_mm_cvtepi8_epi32(b); }
TINYT_INLINE I64 bytes_to_lanes(__m128i b, I64*) { return (I64)_mm_cvtepi8_epi64(b); }
TINYT_INLINE __m128i lanes_to_bytes(I32 m) {
  const __m128i words = _mm_packs_epi32((__m128i)m, (__m128i)m);
  return _mm_packs_epi16(words, words);
}
TINYT_INLINE __m128i lanes_to_bytes(I64 m) {
  const __m128i pairs = _mm_packs_epi32((__m128i)m, (__m128i)m);
  const __m128i words = _mm_packs_epi32(pairs, pairs);
  return _mm_packs_epi16(words, words);
}

#endif

// Orders streamed stores before what follows, for other threads.
[[maybe_unused]] void stream_fence() { _mm_sfence(); }

TINYT_INLINE I32 bytes_to_mask(const void* p, I32* tag) {
  __m128i b = {};
  __builtin_memcpy(&b, p, kLanes<I32>);
  return (I32)(bytes_to_lanes(b, tag) != 0);
}
TINYT_INLINE I64 bytes_to_mask(const void* p, I64* tag) {
  __m128i b = {};
  __builtin_memcpy(&b, p, kLanes<I64>);
  return (I64)(bytes_to_lanes(b, tag) != 0);
}
template <class M>
TINYT_INLINE void mask_to_bytes(void* p, M mask) {
  const __m128i b = lanes_to_bytes(mask) & _mm_set1_epi8(1);
  __builtin_memcpy(p, &b, kLanes<M>);
}

}  // namespace
}  // namespace tinyt::cpu
