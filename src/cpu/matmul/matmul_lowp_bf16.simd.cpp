// Products of bfloat16, int8 and uint8 on AVX512-BF16 and AVX512-VNNI (ADR 0007).
#include "cpu/attention/attention_lowp.h"
#include "cpu/matmul/dot_rows.h"
#include "cpu/matmul/matmul_lowp_block.h"

namespace tinyt::cpu {
namespace {

void nothing() {}

// The instruction multiplies bytes with a sign by bytes without. One operand of each is there if
// A's are 128 away from what they are: then sums have 128 times the sum of B's column too many, or
// too few, which is what a row of 128s gives.
constexpr uint32_t kAway = 0x80808080;
struct Int8Dot {
  static TINYT_INLINE Row add(Row sums, Row a, Row b) {
    return (Row)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)a, (__m512i)b);
  }
};
struct UInt8Dot {
  static TINYT_INLINE Row add(Row sums, Row a, Row b) {
    return (Row)_mm512_dpbusd_epi32((__m512i)sums, (__m512i)b, (__m512i)a);
  }
};
template <class T>
struct DotOf {
  using type = BFloat16Dot;
  using To = ToBFloat16;
};
template <>
struct DotOf<int8_t> {
  using type = Int8Dot;
  using To = ToInt8;
};
template <>
struct DotOf<uint8_t> {
  using type = UInt8Dot;
  using To = ToInt8;
};
template <class T>
using Dot = typename DotOf<T>::type;

template <class T>
void pack_away(const StridedLines& m, const TilePanel& p, void* out) {
  pack<T>(m, p, out);
  if (sizeof(T) != 1 || p.columns) return;
  const int64_t steps = (p.depth + kDepthOfStep<T> - 1) / kDepthOfStep<T>;
  char* const end = static_cast<char*>(out) + steps * kStep;
  for (char* at = static_cast<char*>(out); at != end; at += 64) {
    store(at, load<uint32_t>(at) ^ kAway);
  }
}

// What the sums of bytes have too much, by column.
template <class T, int Vectors>
TINYT_INLINE void add_excess(const Corner& at, Row (&excess)[Vectors]) {
  const char* b = at.b;
  for (int64_t i = 0; i < at.steps; ++i, b += kStep) {
    for (int64_t u = 0; u < 16; ++u) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) {
        const Row bytes = load<uint32_t>(b + u * 64 + v * kTile);
        excess[v] = Dot<T>::add(excess[v], Row{} + kAway, bytes);
      }
    }
  }
}

// Finished sums from registers to C, whole ones.
template <class To, int Rows, int Vectors>
TINYT_INLINE void store_rows(const Corner& at, int64_t first, const Row (&sums)[Rows][Vectors]) {
  char* c = at.c + first * at.c_step;
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r, c += at.c_step) {
    To::store(c, sums[r][0], Vectors == 2 ? sums[r][Vectors - 1] : Row{}, 16 * Vectors);
  }
}

// Fetches what is coming, the lines of a step at a time.
struct Fetching {
  Coming coming;
  int64_t taken = 0;  // lines of the run

  TINYT_INLINE LinesAhead take(const char* near) {
    if (coming.runs == 0) return {near, 0};
    const LinesAhead some = {coming.at + taken * kCacheLine, kCacheLine};
    taken += kLinesOfStep;
    if (taken >= coming.lines) {
      taken = 0;
      coming.at += coming.stride;
      --coming.runs;
    }
    return some;
  }
};

// Rows from `first` on; their sums go `to` a buffer, or to C (null).
template <class T, int Rows, int Vectors>
TINYT_OUTLINE void rows_of_corner(const TileBlock& g, const Corner& at, int64_t first,
                                  const Row* excess, char* to, Fetching& ahead) {
  Row sums[Rows][Vectors] = {};
  if (!at.first) load_sums(at.sums, first, sums);
  const char *a = at.a + first * 64, *b = at.b;
  for (int64_t i = 0; i < at.steps; ++i, a += kStep, b += kStep) {
    add_step<Dot<T>>({a, 64}, {b, 64, kTile}, sums, ahead.take(b));
  }
  if constexpr (sizeof(T) == 1) {
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) sums[r][v] -= excess[v];
    }
  }
  if (to == nullptr) {
    if (g.wide) return store_rows<AsTheyAre>(at, first, sums);
    return store_rows<typename DotOf<T>::To>(at, first, sums);
  }
  store_sums(sums, to, first);
}

template <class T, int Vectors>
void corner_of(const TileBlock& g, const Corner& at, char* to, Fetching& ahead) {
  Row excess[Vectors] = {};
  if constexpr (sizeof(T) == 1) add_excess<T, Vectors>(at, excess);
  by_rows(at.rows, [&]<int Rows>(int64_t first) {
    if (at.c != nullptr) claim_rows(at, first, Rows);
    rows_of_corner<T, Rows, Vectors>(g, at, first, excess, to, ahead);
  });
}

struct Dots {
  Fetching ahead;

  template <class T>
  void corner(const TileBlock& g, const Corner& at, Leaving& sums) {
    if (at.ahead != nullptr) ahead = {{at.ahead, at.steps * at.ahead_lines, 1, 0}};
    char* to = at.sums;
    const bool plain = g.add == nullptr && at.cols % 16 == 0 && in_one_run(g, at);
    if (at.last) to = plain ? nullptr : sums.sums;
    at.cols > 16 ? corner_of<T, 2>(g, at, to, ahead) : corner_of<T, 1>(g, at, to, ahead);
    if (!at.last || to == nullptr) return;
    leave(g, at, sums);
    write_some<T>(g, sums, kTilePanel);
  }
};

template <class T>
bool block(const TileBlock& g) {
  return block_on<T, Dots>(g);
}

// By dtype: uint8, int8 and bfloat16. A float16 is of four products too many here.
#define TINYT_BY_DOT(kernel)                                                              \
  {                                                                                       \
    {}, kernel<uint8_t>, kernel<int8_t>, {}, {}, {}, {}, kernel<BFloat16>, {}, {}, {}, {} \
  }

}  // namespace

extern "C" const LowTable TINYT_TABLE(matmul);
const LowTable TINYT_TABLE(matmul) = {
    nothing,         nothing,   TINYT_BY_DOT(kFormat), TINYT_BY_DOT(pack_away), TINYT_BY_DOT(block),
    slopes_on_units, turn_sums,
};

}  // namespace tinyt::cpu
