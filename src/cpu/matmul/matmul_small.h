// Batches of products so small that the set-up of one would cost more than its sums, for
// matmul.simd.cpp: one loop over all of them for each tile of C.
#pragma once

#include <utility>

#include "cpu/matmul/matmul_pack.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// The same tile of neighbouring products; pointers are of its first element in the first of them.
template <class T>
struct SmallTile {
  const T *a, *b;
  T* c;
  int64_t count, depth, a_line, a_step, a_next, b_step, b_next, c_row, c_next;
  int64_t last;  // columns of the last vector
};

template <class T, int Rows, int Vectors>
void small_tile(const SmallTile<T>& t) {
  constexpr int kL = kWidth<T>;
  const T *a0 = t.a, *b0 = t.b;
  T* c0 = t.c;
  for (int64_t i = 0; i < t.count; ++i, a0 += t.a_next, b0 += t.b_next, c0 += t.c_next) {
    Vec<T> acc[Rows][Vectors] = {};
    const T *a = a0, *b = b0;
    for (int64_t k = 0; k < t.depth; ++k, a += t.a_step, b += t.b_step) {
      Vec<T> line[Vectors];
      if constexpr (Vectors == 2) line[0] = load<T>(b);
      line[Vectors - 1] = load_most(b + (Vectors - 1) * kL, t.last);
#pragma GCC unroll 12
      for (int r = 0; r < Rows; ++r) {
        const Vec<T> x = broadcast(a[r * t.a_line]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) acc[r][v] = fma(x, line[v], acc[r][v]);
      }
    }
    T* c = c0;
#pragma GCC unroll 12
    for (int r = 0; r < Rows; ++r, c += t.c_row) {
      if constexpr (Vectors == 2) store(c, acc[r][0]);
      T* end = c + (Vectors - 1) * kL;
      if (t.last < kL) {
        store_part(end, acc[r][Vectors - 1], t.last);
      } else {
        store(end, acc[r][Vectors - 1]);
      }
    }
  }
}

template <class T>
using SmallKernelOf = void (*)(const SmallTile<T>&);
template <class T, int Vectors, class Rows = std::make_index_sequence<kRows>>
struct SmallKernels;
template <class T, int Vectors, size_t... I>
struct SmallKernels<T, Vectors, std::index_sequence<I...>> {
  static constexpr SmallKernelOf<T> kernel[] = {small_tile<T, I + 1, Vectors>...};
};

// Products that stay in L1 while their tiles are computed one after another.
template <class T>
void small_group(const SmallProducts& p, SmallTile<T> t) {
  const T *a = t.a, *b = t.b;
  T* c = t.c;
  const int64_t tiles = (p.m + kRows - 1) / kRows, height = (p.m + tiles - 1) / tiles;
  for (int64_t j = 0; j < p.n; j += kCols<T>) {
    const int64_t cols = p.n - j < kCols<T> ? p.n - j : kCols<T>;
    const bool wide = cols > kWidth<T>;
    const auto& kernels = wide ? SmallKernels<T, 2>::kernel : SmallKernels<T, 1>::kernel;
    t.b = b + j;
    t.last = wide ? cols - kWidth<T> : cols;
    for (int64_t i = 0; i < p.m; i += height) {
      const int64_t rows = p.m - i < height ? p.m - i : height;
      t.a = a + i * t.a_line;
      t.c = c + i * p.n + j;
      kernels[rows - 1](t);
    }
  }
}

template <class T>
void small(const SmallProducts& p) {
  alignas(64) T packed[kSmallB / sizeof(T)];
  const int64_t of_a = p.m * p.k, of_b = p.k * p.n, of_c = p.m * p.n;
  const int64_t most = kSmallB / static_cast<int64_t>(sizeof(T));
  const bool packs = p.b.line != 1;
  const int64_t fit = most / (packs ? of_b : of_a + of_b + of_c);
  const int64_t group = fit < 1 ? 1 : fit;
  const T *a = static_cast<const T*>(p.a.data), *b = static_cast<const T*>(p.b.data);
  for (int64_t i = 0; i < p.count; i += group) {
    const int64_t count = p.count - i < group ? p.count - i : group;
    SmallTile<T> t = {.a = a + i * p.a_next,
                      .b = b + i * p.b_next,
                      .c = static_cast<T*>(p.c) + i * of_c,
                      .count = count,
                      .depth = p.k,
                      .a_line = p.a.line,
                      .a_step = p.a.depth,
                      .a_next = p.a_next,
                      .b_step = p.b.depth,
                      .b_next = p.b_next,
                      .c_row = p.n,
                      .c_next = of_c,
                      .last = 0};
    if (packs) {
      for (int64_t j = 0; j < count; ++j) {
        const StridedLines lines = {t.b + j * p.b_next, p.b.line, p.b.depth};
        pack<T>(&lines, {0, p.n, 0, p.k, p.n}, packed + j * of_b);
      }
      t.b = packed;
      t.b_step = p.n;
      t.b_next = of_b;
    }
    small_group(p, t);
  }
}

}  // namespace
}  // namespace tinyt::cpu
