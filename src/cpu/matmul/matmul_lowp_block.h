// A block of C from packed panels (ADR 0007), for the kernels of any units. A `Unit`, which is
// made with what is coming, multiplies:
// corner<T>(block, corner, leaving) adds a block of depth to the sums of a corner, and leaves the
// finished ones in `leaving`.
#pragma once

#include "cpu/matmul/matmul_lowp_pack.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// ---- the result

// 32 sums of one row of C, as they are or in the dtype of the operands.
struct AsTheyAre {
  static constexpr int kBytes = 4;
  static TINYT_INLINE void store(char* c, Row low, Row high, int64_t n) {
    _mm512_mask_storeu_epi8(c, first_bits(n < 16 ? 4 * n : 64), (__m512i)low);
    if (n > 16) _mm512_mask_storeu_epi8(c + 64, first_bits(4 * n - 64), (__m512i)high);
  }
};
struct ToBFloat16 {
  static constexpr int kBytes = 2;
  // Sums are never subnormal here, so the instruction's flushing of those does not show.
  static TINYT_INLINE void store(char* c, Row low, Row high, int64_t n) {
    const auto v = (__m512i)_mm512_maskz_cvtne2ps_pbh(0xFFFFFFFF, (__m512)high, (__m512)low);
    _mm512_mask_storeu_epi8(c, first_bits(2 * n), v);
  }
};
struct ToFloat16 {
  static constexpr int kBytes = 2;
  static TINYT_INLINE __m256i narrow(Row x) {
    return _mm512_maskz_cvtps_ph(0xFFFF, (__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static TINYT_INLINE void store(char* c, Row low, Row high, int64_t n) {
    const __m512i v =
        _mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(narrow(low)), narrow(high), 1);
    _mm512_mask_storeu_epi8(c, first_bits(2 * n), v);
  }
};
struct ToInt8 {
  static constexpr int kBytes = 1;
  static TINYT_INLINE void store(char* c, Row low, Row high, int64_t n) {
    const __m128i l = _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)low);
    const __m128i h = _mm512_maskz_cvtepi32_epi8(0xFFFF, (__m512i)high);
    const auto lanes = static_cast<unsigned>(first_bits(n));
    _mm_mask_storeu_epi8(c, static_cast<__mmask16>(lanes), l);
    if (n > 16) _mm_mask_storeu_epi8(c + 16, static_cast<__mmask16>(lanes >> 16), h);
  }
};

// As a bfloat16 in the upper half. NaNs need no care: a sum of bfloat16s that is one has zeros in
// the lower half, so nothing is carried.
TINYT_INLINE Row round_upper(__m512 x) {
  const Row bits = (Row)x;
  return bits + 0x7FFFu + (bits >> 16 & 1u);
}

// Sixteen sums plus bfloat16s, rounded once: by hand, since here a result may be subnormal.
TINYT_INLINE __m256i added(Row sums, __m256i addends) {
  const Row wide = (Row)_mm512_maskz_cvtepu16_epi32(0xFFFF, addends) << 16;
  const Row rounded = round_upper((__m512)sums + (__m512)wide) >> 16;
  return _mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)rounded);
}

TINYT_INLINE void store_added(char* c, Row low, Row high, Row addends, int64_t n) {
  const auto of = (__m512i)addends;
  const __m256i first = added(low, _mm512_maskz_extracti64x4_epi64(0xFF, of, 0));
  const __m256i second = added(high, _mm512_maskz_extracti64x4_epi64(0xFF, of, 1));
  const __m512i v = _mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(first), second, 1);
  _mm512_mask_storeu_epi8(c, first_bits(2 * n), v);
}

// Those of columns [col, col + n) of a row.
TINYT_INLINE Row load_addends(const TileBlock& g, int64_t row, int64_t col, int64_t n) {
  const auto* p = static_cast<const BFloat16*>(g.add) + row * g.add_row + col * g.add_col;
  if (g.add_col == 0) return Row{} + p->bits * 0x10001u;
  return (Row)_mm512_maskz_loadu_epi8(first_bits(2 * n), p);
}

TINYT_INLINE char* element_of_c(const TileBlock& g, int64_t row, int64_t col, int64_t item) {
  return static_cast<char*>(g.c) + (row * g.c_row + col / g.run * g.c_run + col % g.run) * item;
}

// The finished sums of four tiles, on their way to C: rows from `done` on. They are written while
// the tiles that follow are computed.
struct Leaving {
  int64_t row, col, rows, cols;
  int64_t done;
  char* c;
  bool one_run;  // of C
  bool nan;      // there was one, which only float16 asks
  alignas(64) char sums[4 * kTile];
};

template <class T, class To, bool Adds = false>
TINYT_INLINE void write_rows(const TileBlock& g, Leaving& l, int64_t end) {
  constexpr int kBytes = To::kBytes;
  bool nan = false;
  for (int64_t r = l.done; r < end; ++r) {
    const char* row = l.sums + r / 16 * 2 * kTile + r % 16 * 64;
    const Row low = load<uint32_t>(row);
    const Row high = l.cols > 16 ? load<uint32_t>(row + kTile) : Row{};
    if constexpr (kParts<T> == 2) {
      nan |= (_mm512_cmp_ps_mask((__m512)low, (__m512)low, _CMP_UNORD_Q) |
              _mm512_cmp_ps_mask((__m512)high, (__m512)high, _CMP_UNORD_Q)) != 0;
    }
    const auto store = [&](char* c) {
      if constexpr (Adds) {
        store_added(c, low, high, load_addends(g, l.row + r, l.col, l.cols), l.cols);
      } else {
        To::store(c, low, high, l.cols);
      }
    };
    if (l.one_run) {
      store(l.c + r * g.c_row * kBytes);
      continue;
    }
    char values[kTilePanel * kBytes];
    store(values);
    for (int64_t j = 0; j < l.cols; ++j) {
      __builtin_memcpy(element_of_c(g, l.row + r, l.col + j, kBytes), values + j * kBytes, kBytes);
    }
  }
  l.done = end;
  l.nan |= nan;
}

// The next `count` rows, or those that are left.
template <class T>
TINYT_OUTLINE void write_some(const TileBlock& g, Leaving& l, int64_t count) {
  const int64_t end = at_most(l.rows, l.done + count);
  if (g.wide) return write_rows<T, AsTheyAre>(g, l, end);
  if constexpr (sizeof(T) == 1) {
    write_rows<T, ToInt8>(g, l, end);
  } else if constexpr (kParts<T> == 2) {
    write_rows<T, ToFloat16>(g, l, end);
  } else {
    if (g.add != nullptr) return write_rows<T, ToBFloat16, true>(g, l, end);
    write_rows<T, ToBFloat16>(g, l, end);
  }
}

// At most kTilePanel rows and columns of C, over a block of depth.
struct Corner {
  int64_t row, col, rows, cols;
  const char *a, *b;
  int64_t steps;
  int64_t rows_of_step;  // of C, to be dealt with during one of them
  char* sums;
  bool first, last;
  const char* ahead;    // what will be read next, or null,
  int64_t ahead_lines;  // and how much of it to fetch with each step, in lines of the cache
  char* c;              // where the sums go, or null
  int64_t c_step;       // bytes of a row there
};

// Whether a row of a corner is one run of C.
TINYT_INLINE bool in_one_run(const TileBlock& g, const Corner& at) {
  return at.col % g.run + at.cols <= g.run;
}

// The sums of a corner are finished.
TINYT_INLINE void leave(const TileBlock& g, const Corner& at, Leaving& l) {
  l.row = at.row;
  l.col = at.col;
  l.rows = at.rows;
  l.cols = at.cols;
  l.done = 0;
  l.c = at.c;
  l.one_run = in_one_run(g, at);
}

// Brings lines closer, to L2.
TINYT_INLINE const char* fetch(const char* p, int64_t lines) {
  for (const char* const end = p + lines * kCacheLine; p != end; p += kCacheLine) {
    _mm_prefetch(p, _MM_HINT_T1);
  }
  return p;
}

// Rows of C come closer, to be written: 64 bytes of each, which may lie in two lines.
TINYT_INLINE void claim_rows(const Corner& at, int64_t first, int64_t count) {
  const int64_t end = at_most(at.rows, first + count);
  for (int64_t r = first; r < end; ++r) {
    __builtin_prefetch(at.c + r * at.c_step, 1);
    __builtin_prefetch(at.c + r * at.c_step + kCacheLine - 1, 1);
  }
}

// One operand of a block.
struct Side {
  const char* data;
  int64_t block, lines;
};

template <class T>
constexpr int64_t kStepBytes = kStep * kParts<T>;

// A panel of one operand by all of the other: a block of depth of it stays in L1 while the other's
// panels pass by, and what follows it comes closer.
template <class T, class Unit>
void panel_by_all(const TileBlock& g, const Side& stays, const Side& passes, int64_t line,
                  Unit& unit, Leaving& sums) {
  const int64_t item = g.wide ? 4 : static_cast<int64_t>(sizeof(T));
  const int64_t total = (g.depth + kDepthOfStep<T> - 1) / kDepthOfStep<T>;
  const int64_t panel = line / kTilePanel, others = (passes.lines + kTilePanel - 1) / kTilePanel;
  const char* stay = stays.data + panel * g.panel;
  const char* const next_panel = line + kTilePanel < stays.lines ? stay + g.panel : nullptr;
  Corner at{};
  at.ahead_lines = (kStepBytes<T> / kCacheLine + others - 1) / others;
  at.c_step = g.c_row * item;
  for (int64_t k = 0; k < total; k += g.steps, stay += stays.block) {
    const char* pass = passes.data + k / g.steps * passes.block;
    at.steps = at_most(g.steps, total - k);
    at.rows_of_step = (kTilePanel + at.steps - 1) / at.steps;
    at.first = g.first && k == 0;
    at.last = g.last && k + at.steps == total;
    at.sums = static_cast<char*>(g.sums) + panel * g.sums_panel;
    const char* const next = k + at.steps < total ? stay + stays.block : next_panel;
    for (int64_t i = 0; i < passes.lines; i += kTilePanel) {
      const int64_t row = g.by_rows ? line : i, col = g.by_rows ? i : line;
      at.row = g.row + row;
      at.col = g.col + col;
      at.rows = at_most(kTilePanel, g.rows - row);
      at.cols = at_most(kTilePanel, g.cols - col);
      at.a = g.by_rows ? stay : pass;
      at.b = g.by_rows ? pass : stay;
      const int64_t fetched = i / kTilePanel * at.steps * at.ahead_lines * kCacheLine;
      at.ahead = next != nullptr && fetched < at.steps * kStepBytes<T> ? next + fetched : nullptr;
      at.c = at.last ? element_of_c(g, at.row, at.col, item) : nullptr;
      unit.template corner<T>(g, at, sums);
      pass += g.panel;
      at.sums += 4 * kTile;
    }
  }
}

template <class T, class Unit>
bool block_on(const TileBlock& g) {
  const Side a = {static_cast<const char*>(g.a), g.a_block, g.rows};
  const Side b = {static_cast<const char*>(g.b), g.b_block, g.cols};
  const Side &stays = g.by_rows ? a : b, &passes = g.by_rows ? b : a;
  Unit unit{g.coming};
  Leaving sums;
  sums.rows = sums.done = 0;
  sums.nan = false;
  __asm__ volatile("" : : : "memory");  // what was packed is in memory: GCC's loads do not say so
  for (int64_t i = 0; i < stays.lines; i += kTilePanel) {
    panel_by_all<T>(g, stays, passes, i, unit, sums);
  }
  write_some<T>(g, sums, kTilePanel);
  return sums.nan;
}

template <class T>
constexpr TileFormat kFormat = {kDepthOfStep<T>, kStepBytes<T>, kBlockBytes / kStepBytes<T>,
                                kMostBlockBytes / kStepBytes<T>};

// By dtype: uint8, int8, float16 and bfloat16.
#define TINYT_BY_LOW(kernel)                                                                    \
  {                                                                                             \
    {}, kernel<uint8_t>, kernel<int8_t>, {}, {}, {}, kernel<Float16>, kernel<BFloat16>, {}, {}, \
        {}, {}                                                                                  \
  }

}  // namespace
}  // namespace tinyt::cpu
