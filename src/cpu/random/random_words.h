// Philox on SIMD lanes, shared by the kernels that draw.
#pragma once

#include "core/base/random.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// The product of the low halves of each lane.
TINYT_INLINE U64 multiply_lowp(U64 a, uint32_t m) {
#if TINYT_VECTOR_BYTES == 64
  // The masked form: GCC 12 warns about the other one, the code is the same.
  return (U64)_mm512_maskz_mul_epu32(0xFF, (__m512i)a, _mm512_set1_epi64(m));
#elif TINYT_VECTOR_BYTES == 32
  return (U64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(m));
#elif defined(__SSE4_2__)
  return (U64)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(m));
#else
  return (a & UINT32_MAX) * m;
#endif
}

// 53 bits to [0, 1); in two exact halves, because not every level converts 64-bit integers.
TINYT_INLINE F64 unit_of(U64 w) {
  const F64 high = to_float((I64)(w >> 32)), low = to_float((I64)((w >> 11) & 0x1FFFFF));
  return high * 0x1p-32 + low * 0x1p-53;
}

}  // namespace
}  // namespace tinyt::cpu
