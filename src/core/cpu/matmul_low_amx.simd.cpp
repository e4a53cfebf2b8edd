// Products of bfloat16, float16, int8 and uint8 on AMX tiles (docs/adr/0022).
//
// A tile has 16 rows of 64 bytes. In a step, 16 lines of A by 64 bytes of depth meet 16 columns of
// B, stored as rows of units: the 4 bytes of depth (two halves, four bytes) that a column adds up
// at once. Two tiles of A, two of B and the four of C that they make fill the eight registers.
#include <immintrin.h>

#include "levels.h"
#include "transpose.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kTile = 1024;             // bytes
constexpr int64_t kStep = 2 * kTile;        // of a panel
constexpr int64_t kBlockBytes = 8 * kStep;  // a panel of B in L1, beside the panels of A
using Row = Vec<uint32_t>;                  // of a tile

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
// A float16 is the sum of two bfloat16s, which are packed one after the other.
template <class T>
constexpr int kParts = 1;
template <>
constexpr int kParts<Float16> = 2;

// ---- packing

template <class T>
TINYT_INLINE Row load_lanes(const T* p, __mmask16 lanes) {
  if constexpr (sizeof(T) == 2) {
    return (Row)_mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_maskz_loadu_epi16(lanes, p));
  } else {
    return (Row)_mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_maskz_loadu_epi8(lanes, p));
  }
}

// The instruction looks at the lowest byte of n only.
TINYT_INLINE uint64_t first_bits(int64_t n) {
  return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(n < 64 ? n : 64));
}

// The first `depth` values of each of `count` lines, one line a row. Missing ones are zero.
template <class T>
TINYT_INLINE void load_lines(const T* from, int64_t line, int64_t count, int64_t depth,
                             Row (&rows)[16]) {
  const __mmask64 bytes = first_bits(depth * static_cast<int64_t>(sizeof(T)));
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const bool there = i < count;
    rows[i] = (Row)_mm512_maskz_loadu_epi8(there ? bytes : 0, from + (there ? i * line : 0));
  }
}

// Lines next to each other: one unit of all of them a row.
template <class T>
TINYT_INLINE void load_units(const T* from, int64_t step, int64_t count, int64_t depth,
                             Row (&rows)[16]) {
  const auto lanes = static_cast<__mmask16>(first_bits(count));
#pragma GCC unroll 16
  for (int u = 0; u < 16; ++u) {
    rows[u] = Row{};
#pragma GCC unroll 4
    for (int i = 0; i < kPerUnit<T>; ++i) {
      const int64_t k = u * kPerUnit<T> + i;
      const bool there = k < depth;
      rows[u] |= load_lanes(from + (there ? k * step : 0), there ? lanes : __mmask16{0})
                 << static_cast<uint32_t>(8 * sizeof(T) * i);
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

// 16 lines of one step.
template <class T, Along A, bool Columns>
TINYT_INLINE void pack_tile(const T* from, const StridedLines& m, int64_t count, int64_t depth,
                            char* out) {
  Row rows[16];
  if constexpr (A == Along::Depth) {
    load_lines(from, m.line, count, depth, rows);
  } else {
    load_units(from, m.depth, count, depth, rows);
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
      pack_tile<T, A, Columns>(from + half * m.line + k * m.depth, m, p.count - half, p.depth - k,
                               to);
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

// ---- multiplying: C in tiles 0 to 3, A in 4 and 5, B in 6 and 7

#define TINYT_LOAD_PAIR(first, second, pair, from) \
  _tile_loadd(first, from, 64);                    \
  if constexpr (pair == 2) _tile_loadd(second, (from) + kTile, 64)

// Rows and Cols: tiles of A and of B in use.
#define TINYT_MULTIPLY(instruction)              \
  instruction(0, 4, 6);                          \
  if constexpr (Cols == 2) instruction(1, 4, 7); \
  if constexpr (Rows == 2) instruction(2, 5, 6); \
  if constexpr (Rows == 2 && Cols == 2) instruction(3, 5, 7)

template <class T, int Rows, int Cols>
TINYT_INLINE void multiply(const char* a, const char* b, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i, a += kStep * kParts<T>, b += kStep * kParts<T>) {
    TINYT_LOAD_PAIR(4, 5, Rows, a);
    TINYT_LOAD_PAIR(6, 7, Cols, b);
    if constexpr (kParts<T> == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_PAIR(6, 7, Cols, b + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_PAIR(4, 5, Rows, a + kStep);
      TINYT_MULTIPLY(_tile_dpbf16ps);
      TINYT_LOAD_PAIR(6, 7, Cols, b);
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (sizeof(T) == 2) {
      TINYT_MULTIPLY(_tile_dpbf16ps);
    } else if constexpr (static_cast<T>(-1) < 0) {
      TINYT_MULTIPLY(_tile_dpbssd);
    } else {
      TINYT_MULTIPLY(_tile_dpbuud);
    }
  }
}
#undef TINYT_MULTIPLY
#undef TINYT_LOAD_PAIR

template <int Rows, int Cols>
TINYT_INLINE void clear_tiles() {
  _tile_zero(0);
  if constexpr (Cols == 2) _tile_zero(1);
  if constexpr (Rows == 2) _tile_zero(2);
  if constexpr (Rows == 2 && Cols == 2) _tile_zero(3);
}

template <int Rows, int Cols>
TINYT_INLINE void load_tiles(const char* c) {
  _tile_loadd(0, c, 64);
  if constexpr (Cols == 2) _tile_loadd(1, c + kTile, 64);
  if constexpr (Rows == 2) _tile_loadd(2, c + 2 * kTile, 64);
  if constexpr (Rows == 2 && Cols == 2) _tile_loadd(3, c + 3 * kTile, 64);
}

template <int Rows, int Cols>
TINYT_INLINE void store_tiles(char* c) {
  _tile_stored(0, c, 64);
  if constexpr (Cols == 2) _tile_stored(1, c + kTile, 64);
  if constexpr (Rows == 2) _tile_stored(2, c + 2 * kTile, 64);
  if constexpr (Rows == 2 && Cols == 2) _tile_stored(3, c + 3 * kTile, 64);
}

// ---- the result

// 32 sums of one row of C, as the bytes of `To`.
struct ToFloat32 {
  static constexpr int kBytes = 4;
  static TINYT_INLINE void store(char* c, Row low, Row high, int64_t n) {
    _mm512_mask_storeu_epi8(c, first_bits(n < 16 ? 4 * n : 64), (__m512i)low);
    if (n > 16) _mm512_mask_storeu_epi8(c + 64, first_bits(4 * n - 64), (__m512i)high);
  }
};
using ToInt32 = ToFloat32;
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

struct Corner {
  int64_t row, col, rows, cols;  // of C
};

// Writes the sums of four tiles to C. Returns whether one of them is a NaN, which only float16
// asks.
template <class T, class To>
bool write(const TileBlock& g, const Corner& at, const char* sums) {
  constexpr int kBytes = To::kBytes;
  const int64_t in_run = at.col % g.run;
  char* c =
      static_cast<char*>(g.c) + (at.row * g.c_row + at.col / g.run * g.c_run + in_run) * kBytes;
  bool nan = false;
  for (int64_t r = 0; r < at.rows; ++r, c += g.c_row * kBytes) {
    const char* row = sums + r / 16 * 2 * kTile + r % 16 * 64;
    const Row low = load<uint32_t>(row);
    const Row high = at.cols > 16 ? load<uint32_t>(row + kTile) : Row{};
    if constexpr (kParts<T> == 2) {
      nan |= (_mm512_cmp_ps_mask((__m512)low, (__m512)low, _CMP_UNORD_Q) |
              _mm512_cmp_ps_mask((__m512)high, (__m512)high, _CMP_UNORD_Q)) != 0;
    }
    if (in_run + at.cols <= g.run) {
      To::store(c, low, high, at.cols);
      continue;
    }
    char values[kTilePanel * kBytes];
    To::store(values, low, high, at.cols);
    char* to = static_cast<char*>(g.c) + (at.row + r) * g.c_row * kBytes;
    for (int64_t j = 0; j < at.cols; ++j) {
      const int64_t col = at.col + j;
      __builtin_memcpy(to + (col / g.run * g.c_run + col % g.run) * kBytes, values + j * kBytes,
                       kBytes);
    }
  }
  return nan;
}

template <class T>
bool write_sums(const TileBlock& g, const Corner& at, const char* sums) {
  if (g.wide) return write<T, ToFloat32>(g, at, sums);
  if constexpr (sizeof(T) == 1) return write<T, ToInt8>(g, at, sums);
  if constexpr (kParts<T> == 2) return write<T, ToFloat16>(g, at, sums);
  return write<T, ToBFloat16>(g, at, sums);
}

template <class T, int Rows, int Cols>
bool corner(const TileBlock& g, const Corner& at, const char* a, const char* b, int64_t steps,
            char* partial, bool first, bool last) {
  if (first) {
    clear_tiles<Rows, Cols>();
  } else {
    load_tiles<Rows, Cols>(partial);
  }
  multiply<T, Rows, Cols>(a, b, steps);
  if (!last) {
    store_tiles<Rows, Cols>(partial);
    return false;
  }
  alignas(64) char sums[4 * kTile];
  store_tiles<Rows, Cols>(sums);
  return write_sums<T>(g, at, sums);
}

template <class T>
bool corner_of(const TileBlock& g, const Corner& at, const char* a, const char* b, int64_t steps,
               char* partial, bool first, bool last) {
  if (at.rows > 16) {
    if (at.cols > 16) return corner<T, 2, 2>(g, at, a, b, steps, partial, first, last);
    return corner<T, 2, 1>(g, at, a, b, steps, partial, first, last);
  }
  if (at.cols > 16) return corner<T, 1, 2>(g, at, a, b, steps, partial, first, last);
  return corner<T, 1, 1>(g, at, a, b, steps, partial, first, last);
}

constexpr int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
bool block(const TileBlock& g) {
  constexpr int64_t kStepBytes = kStep * kParts<T>, kSteps = kBlockBytes / kStepBytes;
  const int64_t total = (g.depth + kDepthOfStep<T> - 1) / kDepthOfStep<T>;
  bool nan = false;
  __asm__ volatile("" : : : "memory");  // what was packed is in memory: GCC's loads do not say so
  for (int64_t k = 0; k < total; k += kSteps) {
    const int64_t steps = at_most(kSteps, total - k);
    const bool first = g.first && k == 0, last = g.last && k + steps == total;
    char* partial = static_cast<char*>(g.sums);
    const char* b = static_cast<const char*>(g.b) + k / kSteps * g.b_block;
    for (int64_t j = 0; j < g.cols; j += kTilePanel, b += g.panel) {
      const char* a = static_cast<const char*>(g.a) + k / kSteps * g.a_block;
      for (int64_t i = 0; i < g.rows; i += kTilePanel, a += g.panel) {
        const Corner at = {g.row + i, g.col + j, at_most(kTilePanel, g.rows - i),
                           at_most(kTilePanel, g.cols - j)};
        nan |= corner_of<T>(g, at, a, b, steps, partial, first, last);
        partial += 4 * kTile;
      }
    }
  }
  return nan;
}

template <class T>
constexpr TileFormat kFormat = {kDepthOfStep<T>, kStep * kParts<T>,
                                kBlockBytes / (kStep * kParts<T>)};

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
