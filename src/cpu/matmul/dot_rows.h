// What the kernels on AVX512-BF16 and AVX512-VNNI share: rows of C, a register of columns each, of
// which one instruction adds up the products of a unit (two halves, four bytes) of depth.
#pragma once

#include "cpu/matmul/lowp_panels.h"

namespace tinyt::cpu {
namespace {

// Twelve rows of two registers are enough chains for two pipes, and leave room for the operands.
constexpr int64_t kMostRows = 12;

// Rows `line` apart, of units next to each other.
struct DotRows {
  const char* at;
  int64_t line;
};
// Registers of columns `next` apart; units `unit` apart.
struct DotColumns {
  const char* at;
  int64_t unit, next;
};

// Lines of the cache to be fetched during a step: two with each unit, so that memory works while
// units do. A fetch of what is near costs nothing.
struct NothingAhead {
  TINYT_INLINE void fetch() {}
};
constexpr int64_t kLinesOfStep = 32;
struct LinesAhead {
  const char* at;
  int64_t step;
  TINYT_INLINE void fetch() {
    _mm_prefetch(at, _MM_HINT_T1);
    _mm_prefetch(at + step, _MM_HINT_T1);
    at += 2 * step;
  }
};

struct BFloat16Dot {
  static TINYT_INLINE Row add(Row sums, Row a, Row b) {
    return (Row)_mm512_dpbf16_ps((__m512)sums, (__m512bh)a, (__m512bh)b);
  }
};

// The sums of a step: 16 units.
template <class Dot, class Ahead = NothingAhead, int Rows, int Vectors>
TINYT_INLINE void add_step(DotRows rows, DotColumns columns, Row (&sums)[Rows][Vectors],
                           Ahead ahead = {}) {
  constexpr int kPointers = (Rows + 2) / 3;  // three rows share one
  const char* a[kPointers];
#pragma GCC unroll 4
  for (int i = 0; i < kPointers; ++i) a[i] = rows.at + 3 * i * rows.line;
#pragma GCC unroll 1
  for (int64_t u = 0; u < 16; ++u) {
    ahead.fetch();
    Row b[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) b[v] = load<uint32_t>(columns.at + v * columns.next);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      uint32_t unit;
      __builtin_memcpy(&unit, a[r / 3] + r % 3 * rows.line, 4);
      const Row x = Row{} + unit;
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sums[r][v] = Dot::add(sums[r][v], x, b[v]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) a[i] += 4;
    columns.at += columns.unit;
  }
}

// Row r of the sums of a corner, which lie as the four tiles of AMX do, and its register v.
template <class Char>
TINYT_INLINE Char* sums_of_row(Char* sums, int64_t r, int v) {
  return sums + 64 * (r + (r & -16)) + v * kTile;
}

// The same of `Rows` rows from `first` on, for all their registers.
template <int Rows, int Vectors>
TINYT_INLINE void load_sums(const char* sums, int64_t first, Row (&to)[Rows][Vectors]) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) to[r][v] = load<uint32_t>(sums_of_row(sums, first + r, v));
  }
}
template <int Rows, int Vectors>
TINYT_INLINE void store_sums(const Row (&from)[Rows][Vectors], char* sums, int64_t first) {
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) store(sums_of_row(sums, first + r, v), from[r][v]);
  }
}

// Calls body.template operator()<Rows>(first) for rows [first, first + Rows) of some: as few parts
// as possible, of heights as equal as possible.
template <class Body>
TINYT_INLINE void by_rows(int64_t rows, Body body) {
  const int64_t parts = (rows + kMostRows - 1) / kMostRows;
  for (int64_t first = 0, left = parts; left > 0; --left) {
    const int64_t n = (rows - first + left - 1) / left;
    switch (n) {
#define TINYT_CASE(n)                   \
  case n:                               \
    body.template operator()<n>(first); \
    break;
      TINYT_CASE(1)
      TINYT_CASE(2)
      TINYT_CASE(3)
      TINYT_CASE(4)
      TINYT_CASE(5)
      TINYT_CASE(6)
      TINYT_CASE(7)
      TINYT_CASE(8)
      TINYT_CASE(9)
      TINYT_CASE(10)
      TINYT_CASE(11)
      TINYT_CASE(12)
#undef TINYT_CASE
    }
    first += n;
  }
}

}  // namespace
}  // namespace tinyt::cpu
