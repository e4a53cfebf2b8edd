// The register tile of the blocked matmul.
//
// Per k, a tile of C loads the vectors of B once and broadcasts each row's value of A against them.
#include "cpu/matmul/matmul_pack.h"
#include "cpu/matmul/matmul_small.h"
#include "cpu/matmul/matmul_vector.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

template <class T>
struct TileOfC {
  const T* a;
  const T* b;
  T* c;  // of the first element
  int64_t row, rows, col, cols;
  bool part;   // B has no more columns than the tile
  bool plain;  // one run of C, and no part of a vector but where masks serve it
};

// c[i] = (c[i] +) sums[i] (+ add[i * add_col]) for i < n.
template <class T>
TINYT_INLINE void store_row(const GemmBlock& g, const T* sums, const T* add, int64_t n, T* c) {
  constexpr int kL = kWidth<T>;
  for (; n > 0; n -= kL, sums += kL, c += kL) {
    Vec<T> value = load_most(sums, n);
    if (g.accumulate) value = load_most(c, n) + value;
    if (g.add != nullptr) value += g.add_col == 0 ? broadcast(*add) : load_most(add, n);
    if (n < kL) return store_part(c, value, n);
    store(c, value);
    add += kL * g.add_col;
  }
}

// The same where C is transposed: columns run along memory. The sums are turned in registers.
template <class T>
void store_columns(const GemmBlock& g, const TileOfC<T>& t, const T* sums) {
  constexpr int kL = kWidth<T>;
  constexpr int kMost = (kRows + kL - 1) / kL * kL;
  T columns[kCols<T> * kMost];
  for (int64_t r = 0; r < t.rows; r += kL)
    for (int64_t j = 0; j < t.cols; j += kL)
      turn<T>(sums + r * kCols<T> + j, kCols<T>, t.rows - r, kL, columns + j * kMost + r, kMost);
  GemmBlock turned = g;
  turned.add_col = g.add_row;
  T* c = static_cast<T*>(g.c) + t.row + t.col * g.c_run;
  const T* add = static_cast<const T*>(g.add) + t.row * g.add_row + t.col * g.add_col;
  for (int64_t j = 0; j < t.cols; ++j, c += g.c_run, add += g.add_col)
    store_row(turned, columns + j * kMost, add, t.rows, c);
}

// Of each row, at most a vector; what the caller's description of C holds is not looked up anew.
template <bool Accumulate, class T>
TINYT_INLINE void store_pieces(const T* sums, int64_t rows, int64_t n, T* c, int64_t c_row) {
  for (int64_t r = 0; r < rows; ++r, sums += kCols<T>, c += c_row) {
    const Vec<T> value = load<T>(sums);
    store_part(c, Accumulate ? load_most(c, n) + value : value, n);
  }
}

// Sums that go to C row by row: those of columns that cross from one run to the next or fill a part
// of a vector, and those to which something is added.
template <class T>
TINYT_OUTLINE void store_rows(const GemmBlock& g, const TileOfC<T>& t, const T* sums) {
  if (g.c_row == 1 && g.run == 1) return store_columns(g, t, sums);
  for (int64_t done = 0; done < t.cols;) {
    const int64_t col = t.col + done, in_run = col % g.run;
    const int64_t left = g.run - in_run, n = left < t.cols - done ? left : t.cols - done;
    const int64_t used = g.used - in_run < n ? g.used - in_run : n;
    T* c = static_cast<T*>(g.c) + t.row * g.c_row + col / g.run * g.c_run + in_run;
    const T* add = static_cast<const T*>(g.add) + t.row * g.add_row + col * g.add_col;
    const T* from = sums + done;
    done += n;
    if (used > 0 && used <= kWidth<T> && g.add == nullptr) {
      g.accumulate ? store_pieces<true>(from, t.rows, used, c, g.c_row)
                   : store_pieces<false>(from, t.rows, used, c, g.c_row);
      continue;
    }
    for (int64_t r = 0; r < t.rows; ++r) {
      store_row(g, from + r * kCols<T>, add + r * g.add_row, used, c + r * g.c_row);
    }
  }
}

// The chains of fma. Of B in lines of memory the next panel is fetched. Part: the last vector of B
// has only `last` columns in memory.
template <bool Part, class T, int Rows, int Vectors>
TINYT_INLINE void multiply(const GemmBlock& g, const TileOfC<T>& t, int64_t last,
                           Vec<T> (&acc)[Rows][Vectors]) {
  constexpr int kPointers = (Rows + 2) / 3;  // three rows share one
  const T* a[kPointers];
#pragma GCC unroll 4
  for (int i = 0; i < kPointers; ++i) a[i] = t.a + 3 * i * g.a_line;
  const T* b = t.b;
  const int64_t ahead = g.b_offset != nullptr ? kCols<T> : kStepsAheadOfB * g.b_step;
  const int64_t ahead_of_a = g.a_panel != 0 ? kAheadOfABytes / static_cast<int64_t>(sizeof(T)) : 0;
  for (int64_t k = 0; k < g.depth; ++k) {
    if (g.b_offset != nullptr) b = t.b + g.b_offset[k];
    __builtin_prefetch(a[0] + ahead_of_a);
    Vec<T> line[Vectors];
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const T* from = b + v * kWidth<T>;
      __builtin_prefetch(from + ahead);
      line[v] = Part && v + 1 == Vectors ? load_part<T>(from, last) : load<T>(from);
    }
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
      const Vec<T> x = broadcast(a[r / 3][r % 3 * g.a_line]);
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) acc[r][v] = fma(x, line[v], acc[r][v]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) a[i] += g.a_step;
    b += g.b_step;
  }
}

// sums = (C +) sums + what is added.
template <class T, int Rows, int Vectors>
TINYT_INLINE void add_in_registers(const GemmBlock& g, const TileOfC<T>& t, int64_t last,
                                   Vec<T> (&acc)[Rows][Vectors]) {
  constexpr int kL = kWidth<T>;
  const T* add = static_cast<const T*>(g.add) + t.row * g.add_row + t.col * g.add_col;
  const T* c = t.c;
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r, c += g.c_row, add += g.add_row) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      const int64_t n = v + 1 == Vectors ? last : kL;
      if (g.accumulate) acc[r][v] = load_most(c + v * kL, n) + acc[r][v];
      acc[r][v] += g.add_col == 0 ? broadcast(*add) : load_most(add + v * kL, n);
    }
  }
}

template <class T, int Rows, int Vectors>
void tile(const GemmBlock& g, const TileOfC<T>& t) {
  constexpr int kL = kWidth<T>;
  const int64_t last = t.cols - (Vectors - 1) * kL;  // columns of the last vector
  Vec<T> acc[Rows][Vectors];
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) acc[r][v] = Vec<T>{};
  }
  const T* ahead = t.c;
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r, ahead += g.c_row) {
    __builtin_prefetch(ahead, 1);
    __builtin_prefetch(ahead + Vectors * kL - 1, 1);
  }
  if (kMasked && t.part) {
    multiply<true>(g, t, last, acc);
  } else {
    multiply<false>(g, t, last, acc);
  }
  if (!t.plain) {
    T sums[Rows * kCols<T> + kL];  // whole vectors are read from the last row's columns on
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) store(sums + r * kCols<T> + v * kL, acc[r][v]);
    }
    return store_rows(g, t, sums);
  }
  T* c = t.c;
  const bool accumulate = g.accumulate && g.add == nullptr;
  if (g.add != nullptr) add_in_registers(g, t, last, acc);
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r, c += g.c_row) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      if (kMasked && v + 1 == Vectors && last != kL) {
        if (accumulate) acc[r][v] = load_part<T>(c + v * kL, last) + acc[r][v];
        store_part(c + v * kL, acc[r][v], last);
      } else {
        if (accumulate) acc[r][v] = load<T>(c + v * kL) + acc[r][v];
        store(c + v * kL, acc[r][v]);
      }
    }
  }
}

template <class T>
using TileKernelOf = void (*)(const GemmBlock&, const TileOfC<T>&);
template <class T, int Vectors, int... Rows>
struct TileKernels {
  static constexpr TileKernelOf<T> kernel[] = {tile<T, Rows, Vectors>...};
};
#if TINYT_VECTOR_BYTES == 64 || defined(__aarch64__)
template <class T, int Vectors>
using Tiles = TileKernels<T, Vectors, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12>;
#elif TINYT_VECTOR_BYTES == 32
template <class T, int Vectors>
using Tiles = TileKernels<T, Vectors, 1, 2, 3, 4, 5, 6>;
#else
template <class T, int Vectors>
using Tiles = TileKernels<T, Vectors, 1, 2, 3, 4>;
#endif

// A panel of B stays in L1 while the rows of A pass by.
template <class T>
void block(const GemmBlock& g) {
  // Where A lies as it is, tiles of equal height; packed ones have a fixed one.
  const int64_t tiles = (g.rows + kRows - 1) / kRows;
  const int64_t height = g.a_panel != 0 ? kRows : (g.rows + tiles - 1) / tiles;
  const int64_t next_a = g.a_panel != 0 ? g.a_panel : height * g.a_line;
  const int64_t next_b = g.b_panel != 0 ? g.b_panel : kCols<T>;
  TileOfC<T> t;
  t.b = static_cast<const T*>(g.b);
  for (int64_t j = 0; j < g.cols; j += kCols<T>, t.b += next_b) {
    t.col = g.col + j;
    t.cols = g.cols - j < kCols<T> ? g.cols - j : kCols<T>;
    const int64_t in_run = t.col < g.run ? t.col : t.col % g.run;
    T* c = static_cast<T*>(g.c) + g.row * g.c_row + t.col / g.run * g.c_run + in_run;
    t.part = g.b_panel == 0 && t.cols % kWidth<T> != 0;
    const int64_t room = (g.run < g.used ? g.run : g.used) - in_run;
    t.plain = room >= t.cols && (kMasked || t.cols % kWidth<T> == 0);
    const auto& kernels = t.cols > kWidth<T> ? Tiles<T, 2>::kernel : Tiles<T, 1>::kernel;
    t.a = static_cast<const T*>(g.a);
    for (int64_t i = 0; i < g.rows; i += height, t.a += next_a) {
      t.c = c + i * g.c_row;
      t.row = g.row + i;
      t.rows = g.rows - i < height ? g.rows - i : height;
      kernels[t.rows - 1](g, t);
    }
  }
}

template <class T>
constexpr GemmTile kTile = {kRows, kCols<T>, kMasked ? 1 : kWidth<T>};

// And Int32: pairs of int16.
#define TINYT_BY_PRODUCT(kernel)                                                                   \
  {                                                                                                \
    {}, {}, {}, {}, kernel<uint32_t>, kernel<uint64_t>, {}, {}, kernel<float>, kernel<double>, {}, \
    {}                                                                                             \
  }
// And halves as they lie: their sums are float32.
#define TINYT_BY_LINES(kernel)                                                          \
  {                                                                                     \
    {}, {}, {}, {}, {}, kernel<uint64_t>, kernel<float, Half>, kernel<float, BFloat16>, \
        kernel<float>, kernel<double>, {}, {}                                           \
  }

}  // namespace

extern "C" const GemmTable TINYT_TABLE(gemm);
const GemmTable TINYT_TABLE(gemm) = {
    TINYT_BY_PRODUCT(kTile), TINYT_BY_PRODUCT(block),  TINYT_BY_DTYPE(pack),
    TINYT_BY_LINES(dots),    TINYT_BY_LINES(row_sums), TINYT_BY_DTYPE(small),
};

}  // namespace tinyt::cpu
