// The register tile of the blocked matmul, and packing from strided memory.
//
// A tile of C is `rows` x 2 vectors: per k, the vectors of B are loaded once and each row's value
// of A is broadcast against them. Twelve rows fill 24 of 32 registers, six 12 of 16.
#include "levels.h"
#include "simd.h"
#include "transpose.h"

namespace tinyt::cpu {
namespace {

#if TINYT_VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr int kRows = 12;
#elif TINYT_VECTOR_BYTES == 32
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;

template <class T>
constexpr int kWidth = static_cast<int>(sizeof(Vec<T>) / sizeof(T));
template <class T>
constexpr int kCols = kVectors * kWidth<T>;
static_assert(kRows <= kMaxTileLines && kCols<float> <= kMaxTileLines);

// Unsigned, because integer matmul wraps.
TINYT_INLINE U64 fma(U64 a, U64 b, U64 c) { return a * b + c; }
TINYT_INLINE U64 broadcast(uint64_t x) { return U64{} + x; }
TINYT_INLINE F32 broadcast(float x) { return splat(x); }
TINYT_INLINE F64 broadcast(double x) { return splat(x); }

constexpr int at_most(int a, int b) { return a < b ? a : b; }

template <class T>
struct TileOfC {
  const T* a;
  const T* b;
  int64_t b_step, depth;
  T* c;  // the row of the tile's first element, at column 0
  int64_t rows, cols;
  int64_t col;  // of the first element
  int64_t c_row, run, c_run;
  bool accumulate;
};

// Columns that do not fill the vectors, or that cross from one run of C to the next.
template <class T>
void store_pieces(const TileOfC<T>& t, const T* values) {
  for (int64_t done = 0; done < t.cols;) {
    const int64_t col = t.col + done, in_run = col % t.run;
    const int64_t left = t.run - in_run, n = left < t.cols - done ? left : t.cols - done;
    for (int64_t r = 0; r < t.rows; ++r) {
      T* c = t.c + r * t.c_row + (col / t.run) * t.c_run + in_run;
      const T* v = values + r * kCols<T> + done;
      if (t.accumulate) {
        for (int64_t i = 0; i < n; ++i) c[i] += v[i];
      } else {
        for (int64_t i = 0; i < n; ++i) c[i] = v[i];
      }
    }
    done += n;
  }
}

// Rows >= t.rows: the rows of A beyond are zero and their results are dropped.
template <class T, int Rows, int Vectors>
void tile(const TileOfC<T>& t) {
  constexpr int kL = kWidth<T>;
  Vec<T> acc[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) acc[r][v] = Vec<T>{};
  }
  const T* a = t.a;
  const T* b = t.b;
  for (int64_t k = 0; k < t.depth; ++k) {
    Vec<T> line[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) line[v] = load<T>(b + v * kL);
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const Vec<T> x = broadcast(a[r]);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) acc[r][v] = fma(x, line[v], acc[r][v]);
    }
    a += kRows;
    b += t.b_step;
  }
  const int64_t in_run = t.col % t.run;
  if (t.cols != Vectors * kL || t.run - in_run < t.cols) {
    T values[Rows * kCols<T>];
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) store(values + r * kCols<T> + v * kL, acc[r][v]);
    }
    return store_pieces(t, values);
  }
  T* c = t.c + (t.col / t.run) * t.c_run + in_run;
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
    if (r >= t.rows) return;
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      if (t.accumulate) acc[r][v] += load<T>(c + v * kL);
      store(c + v * kL, acc[r][v]);
    }
    c += t.c_row;
  }
}

template <class T, int Vectors>
void tile_of_rows(const TileOfC<T>& t) {
  if (t.rows > 8) return tile<T, kRows, Vectors>(t);
  if (t.rows > 4) return tile<T, at_most(8, kRows), Vectors>(t);
  if (t.rows > 2) return tile<T, at_most(4, kRows), Vectors>(t);
  if (t.rows == 2) return tile<T, 2, Vectors>(t);
  tile<T, 1, Vectors>(t);
}

// A panel of B stays in L1 while the panels of A pass by.
template <class T>
void block(const GemmBlock& g) {
  TileOfC<T> t;
  t.b_step = g.b_step;
  t.depth = g.depth;
  t.c_row = g.c_row;
  t.run = g.run;
  t.c_run = g.c_run;
  t.accumulate = g.accumulate;
  t.b = static_cast<const T*>(g.b);
  for (int64_t j = 0; j < g.cols; j += kCols<T>, t.b += g.b_panel) {
    t.col = g.col + j;
    t.cols = g.cols - j < kCols<T> ? g.cols - j : kCols<T>;
    t.a = static_cast<const T*>(g.a);
    for (int64_t i = 0; i < g.rows; i += kRows, t.a += kRows * g.depth) {
      t.c = static_cast<T*>(g.c) + (g.row + i) * g.c_row;
      t.rows = g.rows - i < kRows ? g.rows - i : kRows;
      if (t.cols > kWidth<T>) {
        tile_of_rows<T, kVectors>(t);
      } else {
        tile_of_rows<T, 1>(t);
      }
    }
  }
}

// ---- packing

// Lines next to each other: each k is a copy of `Width` values.
template <class T, int Width>
void pack_rows(const T* from, int64_t step, int64_t depth, T* to) {
  for (int64_t k = 0; k < depth; ++k) {
    __builtin_memcpy(to, from, Width * sizeof(T));
    from += step;
    to += Width;
  }
}

template <int Size>
struct UnsignedOf;
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};
// Side values of T: a register, or 16 bytes.
template <class T, int Side>
using Run = typename VecOf<T, Side>::type;

// Packs `Side` lines that run along memory: a transposition, as bits.
template <class T, int Side>
void pack_square_lines(const T* lines, int64_t line, const Panel& p, T* out) {
  using Bits = typename UnsignedOf<sizeof(T)>::type;
  int64_t k = 0;
  for (; k + Side <= p.depth; k += Side) {
    Run<Bits, Side> square[Side];
#pragma GCC unroll 16
    for (int64_t s = 0; s < Side; ++s) {
      __builtin_memcpy(&square[s], lines + s * line + k, sizeof square[s]);
    }
    transpose(square);
#pragma GCC unroll 16
    for (int64_t s = 0; s < Side; ++s) {
      __builtin_memcpy(out + (k + s) * p.width, &square[s], sizeof square[s]);
    }
  }
  for (; k < p.depth; ++k) {
    for (int64_t s = 0; s < Side; ++s) out[k * p.width + s] = lines[s * line + k];
  }
}

// Lines that run along memory: squares of whole registers, then of 16 bytes, then one by one.
template <class T>
void pack_lines(const T* from, int64_t line, const Panel& p, T* to) {
  constexpr int kSmall = 16 / sizeof(T);
  int64_t i = 0;
  for (; i + kWidth<T> <= p.count; i += kWidth<T>) {
    pack_square_lines<T, kWidth<T>>(from + i * line, line, p, to + i);
  }
  for (; i + kSmall <= p.count; i += kSmall) {
    pack_square_lines<T, kSmall>(from + i * line, line, p, to + i);
  }
  for (; i < p.count; ++i) {
    const T* l = from + i * line;
    for (int64_t k = 0; k < p.depth; ++k) to[k * p.width + i] = l[k];
  }
}

template <class T>
void pack(const void* context, const Panel& p, void* out) {
  const auto& m = *static_cast<const StridedLines*>(context);
  const T* from = static_cast<const T*>(m.data) + p.first * m.line + p.k0 * m.depth;
  T* to = static_cast<T*>(out);
  if (p.count < p.width) {
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int64_t i = p.count; i < p.width; ++i) to[k * p.width + i] = 0;
    }
  }
  if (m.line == 1 && p.count == p.width) {
    if (p.width == kCols<T>) return pack_rows<T, kCols<T>>(from, m.depth, p.depth, to);
    if (p.width == kRows) return pack_rows<T, kRows>(from, m.depth, p.depth, to);
  }
  if (m.depth == 1) return pack_lines(from, m.line, p, to);
  for (int64_t k = 0; k < p.depth; ++k) {
    for (int64_t i = 0; i < p.count; ++i) to[k * p.width + i] = from[i * m.line + k * m.depth];
  }
}

template <class T>
constexpr GemmTile kTile = {kRows, kCols<T>};

}  // namespace

extern "C" const GemmTable TINYT_TABLE(gemm);
const GemmTable TINYT_TABLE(gemm) = {
    TINYT_BY_DTYPE(kTile),
    TINYT_BY_DTYPE(block),
    TINYT_BY_DTYPE(pack),
};

}  // namespace tinyt::cpu
