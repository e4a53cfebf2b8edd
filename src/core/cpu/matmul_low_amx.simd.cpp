// Products of bfloat16, float16, int8 and uint8 on AMX tiles (docs/adr/0022): two tiles of A, two
// of B and the four of C that they make fill the eight registers.
#include "levels.h"
#include "matmul_low_pack.h"

namespace tinyt::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

void begin() {
  const TileConfig config;
  // GCC 12's _tile_loadconfig tells the optimiser of the first eight bytes only.
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}
void end() { _tile_release(); }

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

// The sums rounded to bfloat16, plus bfloat16s, rounded again: even and odd columns apart, so that
// neither needs converting. The second rounding is by hand, since here a result may be subnormal.
TINYT_INLINE void store_added(char* c, Row low, Row high, Row addends, int64_t n) {
  constexpr uint32_t kUpper = 0xFFFF0000;
  const Row sums = (Row)_mm512_maskz_cvtne2ps_pbh(0xFFFFFFFF, (__m512)high, (__m512)low);
  const Row even = round_upper((__m512)(sums << 16) + (__m512)(addends << 16));
  const Row odd = round_upper((__m512)(sums & kUpper) + (__m512)(addends & kUpper));
  _mm512_mask_storeu_epi8(c, first_bits(2 * n), (__m512i)(even >> 16 | (odd & kUpper)));
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

// ---- multiplying: C in tiles 0 to 3, A in 4 and 5, B in 6 and 7

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

constexpr int64_t kLine = 64;  // bytes of the cache's

// Brings lines closer, to L2.
TINYT_INLINE const char* fetch(const char* p, int64_t lines) {
  for (const char* const end = p + lines * kLine; p != end; p += kLine) {
    _mm_prefetch(p, _MM_HINT_T1);
  }
  return p;
}

// Rows of C come closer, to be written: 64 bytes of each, which may lie in two lines.
TINYT_INLINE void claim_rows(const Corner& at, int64_t first) {
  const int64_t end = at_most(at.rows, first + at.rows_of_step);
  for (int64_t r = first; r < end; ++r) {
    __builtin_prefetch(at.c + r * at.c_step, 1);
    __builtin_prefetch(at.c + r * at.c_step + kLine - 1, 1);
  }
}

// The operand that passes is read once for each panel that stays: it must not push that out of L1.
#define TINYT_LOAD_PAIR(passes, first, second, pair, from)                   \
  if constexpr (passes) {                                                    \
    _tile_stream_loadd(first, from, 64);                                     \
    if constexpr (pair == 2) _tile_stream_loadd(second, (from) + kTile, 64); \
  } else {                                                                   \
    _tile_loadd(first, from, 64);                                            \
    if constexpr (pair == 2) _tile_loadd(second, (from) + kTile, 64);        \
  }
#define TINYT_LOAD_A(from) TINYT_LOAD_PAIR(!ByRows, 4, 5, Rows, from)
#define TINYT_LOAD_B(from) TINYT_LOAD_PAIR(ByRows, 6, 7, Cols, from)

// Rows and Cols: tiles of A and of B in use.
#define TINYT_MULTIPLY(instruction)              \
  instruction(0, 4, 6);                          \
  if constexpr (Cols == 2) instruction(1, 4, 7); \
  if constexpr (Rows == 2) instruction(2, 5, 6); \
  if constexpr (Rows == 2 && Cols == 2) instruction(3, 5, 7)

template <class T, int Rows, int Cols, bool ByRows>
TINYT_INLINE void multiply(const TileBlock& g, const Corner& at, Leaving& before) {
  const char *a = at.a, *b = at.b, *ahead = at.ahead;
  for (int64_t i = 0; i < at.steps; ++i, a += kStep * kParts<T>, b += kStep * kParts<T>) {
    if (ahead != nullptr) ahead = fetch(ahead, at.ahead_lines);
    if (at.c != nullptr) claim_rows(at, i * at.rows_of_step);
    TINYT_LOAD_A(a);
    TINYT_LOAD_B(b);
    if constexpr (kParts<T> == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_B(b + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_A(a + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_B(b);
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (sizeof(T) == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (static_cast<T>(-1) < 0) {
      TINYT_MULTIPLY(_tile_dpbssd);
    } else {
      TINYT_MULTIPLY(_tile_dpbuud);
    }
    if (before.done < before.rows) write_some<T>(g, before, at.rows_of_step);
  }
}
#undef TINYT_MULTIPLY
#undef TINYT_LOAD_A
#undef TINYT_LOAD_B
#undef TINYT_LOAD_PAIR

template <class T, int Rows, int Cols, bool ByRows>
void corner(const TileBlock& g, const Corner& at, Leaving& sums) {
  if (at.first) {
    clear_tiles<Rows, Cols>();
  } else {
    load_tiles<Rows, Cols>(dense_square(at.sums));
  }
  multiply<T, Rows, Cols, ByRows>(g, at, sums);
  if (!at.last) return store_tiles<Rows, Cols>(dense_square(at.sums));
  store_tiles<Rows, Cols>(dense_square(sums.sums));  // those before have left
  sums.row = at.row;
  sums.col = at.col;
  sums.rows = at.rows;
  sums.cols = at.cols;
  sums.done = 0;
  sums.c = at.c;
  sums.one_run = at.col % g.run + at.cols <= g.run;
}

template <class T, bool ByRows>
void corner_of(const TileBlock& g, const Corner& at, Leaving& sums) {
  if (at.rows > 16) {
    return at.cols > 16 ? corner<T, 2, 2, ByRows>(g, at, sums)
                        : corner<T, 2, 1, ByRows>(g, at, sums);
  }
  return at.cols > 16 ? corner<T, 1, 2, ByRows>(g, at, sums) : corner<T, 1, 1, ByRows>(g, at, sums);
}

// One operand of a block.
struct Side {
  const char* data;
  int64_t block, lines;
};

// A panel of one operand by all of the other: a block of depth of it stays in L1 while the other's
// panels pass by, and what follows it comes closer.
template <class T>
void panel_by_all(const TileBlock& g, const Side& stays, const Side& passes, int64_t line,
                  Leaving& sums) {
  constexpr int64_t kStepBytes = kStep * kParts<T>;
  const int64_t item = g.wide ? 4 : static_cast<int64_t>(sizeof(T));
  const int64_t total = (g.depth + kDepthOfStep<T> - 1) / kDepthOfStep<T>;
  const int64_t panel = line / kTilePanel, others = (passes.lines + kTilePanel - 1) / kTilePanel;
  const char* stay = stays.data + panel * g.panel;
  const char* const next_panel = line + kTilePanel < stays.lines ? stay + g.panel : nullptr;
  Corner at{};
  at.ahead_lines = (kStepBytes / kLine + others - 1) / others;
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
      const int64_t fetched = i / kTilePanel * at.steps * at.ahead_lines * kLine;
      at.ahead = next != nullptr && fetched < at.steps * kStepBytes ? next + fetched : nullptr;
      at.c = at.last ? element_of_c(g, at.row, at.col, item) : nullptr;
      g.by_rows ? corner_of<T, true>(g, at, sums) : corner_of<T, false>(g, at, sums);
      pass += g.panel;
      at.sums += 4 * kTile;
    }
  }
}

template <class T>
bool block(const TileBlock& g) {
  const Side a = {static_cast<const char*>(g.a), g.a_block, g.rows};
  const Side b = {static_cast<const char*>(g.b), g.b_block, g.cols};
  const Side &stays = g.by_rows ? a : b, &passes = g.by_rows ? b : a;
  Leaving sums;
  sums.rows = sums.done = 0;
  sums.nan = false;
  __asm__ volatile("" : : : "memory");  // what was packed is in memory: GCC's loads do not say so
  for (int64_t i = 0; i < stays.lines; i += kTilePanel) {
    panel_by_all<T>(g, stays, passes, i, sums);
  }
  write_some<T>(g, sums, kTilePanel);
  return sums.nan;
}

template <class T>
constexpr int64_t kBlockSteps = kBlockBytes / (kStep * kParts<T>);
template <class T>
constexpr TileFormat kFormat = {kDepthOfStep<T>, kStep * kParts<T>, kBlockSteps<T>,
                                kBlockSteps<T> + kBlockSteps<T> / 4};

// By dtype: uint8, int8, float16 and bfloat16.
#define TINYT_BY_LOW(kernel)                                                                    \
  {                                                                                             \
    {}, kernel<uint8_t>, kernel<int8_t>, {}, {}, {}, kernel<Float16>, kernel<BFloat16>, {}, {}, \
        {}, {}                                                                                  \
  }

}  // namespace

extern "C" const AmxTable TINYT_TABLE(matmul);
const AmxTable TINYT_TABLE(matmul) = {
    begin, end, TINYT_BY_LOW(kFormat), TINYT_BY_LOW(pack), TINYT_BY_LOW(block),
};

}  // namespace tinyt::cpu
