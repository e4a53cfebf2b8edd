// Packing of halves and bytes for units made for them (ADR 0007).
//
// A tile has 16 rows of 64 bytes. In a step, 16 lines of A by 64 bytes of depth meet 16 columns of
// B, stored as rows of units: the 4 bytes of depth (two halves, four bytes) that a column adds up
// at once.
#pragma once

#include "cpu/matmul/lowp_panels.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

// The panel that stays in L1. Tiles take most of it; the others read a panel that passes several
// times, so it has to stay there, too.
#if defined(__AMX_TILE__)
constexpr int64_t kBlockBytes = 16 * kStep, kMostBlockBytes = 20 * kStep;
#else
constexpr int64_t kBlockBytes = 8 * kStep, kMostBlockBytes = 12 * kStep;
#endif

// ---- dtypes

struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

template <class T>
constexpr int kPerUnit = 4 / sizeof(T);
template <class T>
constexpr int64_t kDepthOfStep = 64 / sizeof(T);
template <class T>
constexpr int64_t kNextBlock = kBlockBytes / kStep * kDepthOfStep<T>;
// A float16 is the sum of two bfloat16s, which are packed one after the other.
template <class T>
constexpr int kParts = 1;
template <>
constexpr int kParts<Float16> = 2;

// ---- packing
//
// Each load fetches what the next block of depth, or the next panel, will read from the same line.

template <class T>
TINYT_INLINE Row load_lanes(const T* p, __mmask16 lanes) {
  if constexpr (sizeof(T) == 2) {
    return (Row)_mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_maskz_loadu_epi16(lanes, p));
  } else {
    return (Row)_mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_maskz_loadu_epi8(lanes, p));
  }
}

// Below, Whole: 16 lines and a whole step of depth; else what is missing is zero.

// One line a row.
template <class T, bool Whole>
TINYT_INLINE void load_lines(const T* from, int64_t line, int64_t count, int64_t depth,
                             Row (&rows)[16]) {
  const __mmask64 bytes = first_bits(depth * static_cast<int64_t>(sizeof(T)));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const bool there = Whole || i < count;
    const T* p = from + (there ? i * line : 0);
    rows[i] = Whole ? load<uint32_t>(p) : (Row)_mm512_maskz_loadu_epi8(there ? bytes : 0, p);
    _mm_prefetch(p + kNextBlock<T>, _MM_HINT_T1);
  }
}

// Lines next to each other: one unit of all of them a row.
template <class T, bool Whole>
TINYT_INLINE void load_units(const T* from, int64_t step, int64_t count, int64_t depth,
                             Row (&rows)[16]) {
  const auto lanes = static_cast<__mmask16>(Whole ? 0xFFFF : first_bits(count));
#pragma GCC unroll 16
  for (int u = 0; u < 16; ++u) {
    rows[u] = Row{};
#pragma GCC unroll 4
    for (int i = 0; i < kPerUnit<T>; ++i) {
      const int64_t k = u * kPerUnit<T> + i;
      const bool there = Whole || k < depth;
      const T* p = from + (there ? k * step : 0);
      rows[u] |= load_lanes(p, there ? lanes : __mmask16{0})
                 << static_cast<uint32_t>(8 * sizeof(T) * i);
      _mm_prefetch(p + kTilePanel, _MM_HINT_T1);
    }
  }
}

// The two halves of 32 float16s as bfloat16s whose sum they are: the leading 8 bits of each, and
// the rest. Of an infinity or a NaN the rest is a NaN.
TINYT_INLINE void split(Row halves, Row& high, Row& low) {
  const auto v = (__m512i)halves;
  const __m512 a = _mm512_maskz_cvtph_ps(0xFFFF, _mm512_maskz_extracti64x4_epi64(0xFF, v, 0));
  const __m512 b = _mm512_maskz_cvtph_ps(0xFFFF, _mm512_maskz_extracti64x4_epi64(0xFF, v, 1));
  const Row high_a = (Row)a & 0xFFFF0000u, high_b = (Row)b & 0xFFFF0000u;
  const Row low_a = (Row)(a - (__m512)high_a), low_b = (Row)(b - (__m512)high_b);
  const auto upper = [](Row x, Row y) {
    const __m256i lo = _mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)(x >> 16));
    const __m256i hi = _mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)(y >> 16));
    return (Row)_mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(lo), hi, 1);
  };
  high = upper(high_a, high_b);
  low = upper(low_a, low_b);
}

template <class T>
TINYT_INLINE void store_tile(const Row (&rows)[16], char* out) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    if constexpr (kParts<T> == 2) {
      Row high, low;
      split(rows[i], high, low);
      __builtin_memcpy(out + 64 * i, &high, 64);
      __builtin_memcpy(out + kStep + 64 * i, &low, 64);
    } else {
      __builtin_memcpy(out + 64 * i, &rows[i], 64);
    }
  }
}

enum class Along { Depth, Lines };  // how neighbours in memory lie

// At most 16 lines of one step.
template <class T, Along A, bool Columns, bool Whole>
TINYT_INLINE void pack_tile(const T* from, const StridedLines& m, int64_t count, int64_t depth,
                            char* out) {
  Row rows[16];
  if constexpr (A == Along::Depth) {
    load_lines<T, Whole>(from, m.line, count, depth, rows);
  } else {
    load_units<T, Whole>(from, m.depth, count, depth, rows);
  }
  if constexpr ((A == Along::Depth) == Columns) transpose(rows);
  store_tile<T>(rows, out);
}

template <class T, Along A, bool Columns>
void pack_as(const StridedLines& m, const TilePanel& p, char* out) {
  const T* from = static_cast<const T*>(m.data) + p.first * m.line + p.k0 * m.depth;
  for (int64_t half = 0; half < p.count; half += 16) {
    char* to = out + half / 16 * kTile;
    for (int64_t k = 0; k < p.depth; k += kDepthOfStep<T>, to += kStep * kParts<T>) {
      const T* tile = from + half * m.line + k * m.depth;
      const int64_t count = p.count - half, depth = p.depth - k;
      if (count >= 16 && depth >= kDepthOfStep<T>) {
        pack_tile<T, A, Columns, true>(tile, m, count, depth, to);
      } else {
        pack_tile<T, A, Columns, false>(tile, m, count, depth, to);
      }
    }
  }
}

// Any strides: values are gathered first.
template <class T>
void pack_scattered(const StridedLines& m, const TilePanel& p, char* out) {
  constexpr int64_t kDepth = kDepthOfStep<T>;
  const T* from = static_cast<const T*>(m.data) + p.first * m.line + p.k0 * m.depth;
  T dense[kTilePanel * kDepth];
  for (int64_t k = 0; k < p.depth; k += kDepth, out += kStep * kParts<T>) {
    const int64_t depth = p.depth - k < kDepth ? p.depth - k : kDepth;
    for (int64_t i = 0; i < p.count; ++i) {
      for (int64_t j = 0; j < depth; ++j) {
        dense[i * kDepth + j] = from[i * m.line + (k + j) * m.depth];
      }
    }
    const TilePanel part = {0, p.count, 0, depth, p.columns};
    if (p.columns) {
      pack_as<T, Along::Depth, true>({dense, kDepth, 1}, part, out);
    } else {
      pack_as<T, Along::Depth, false>({dense, kDepth, 1}, part, out);
    }
  }
}

template <class T>
void pack(const StridedLines& m, const TilePanel& p, void* out) {
  char* to = static_cast<char*>(out);
  if (m.depth == 1) {
    if (p.columns) return pack_as<T, Along::Depth, true>(m, p, to);
    return pack_as<T, Along::Depth, false>(m, p, to);
  }
  if (m.line == 1) {
    if (p.columns) return pack_as<T, Along::Lines, true>(m, p, to);
    return pack_as<T, Along::Lines, false>(m, p, to);
  }
  pack_scattered<T>(m, p, to);
}
template <>
void pack<int8_t>(const StridedLines& m, const TilePanel& p, void* out) {
  pack<uint8_t>(m, p, out);
}

}  // namespace
}  // namespace tinyt::cpu
