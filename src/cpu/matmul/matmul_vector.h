// Products of a vector with lines, for matmul.simd.cpp: dot products in the order of a reduction,
// whichever way the lines lie in memory.
#pragma once

#include "cpu/matmul/matmul_pack.h"
#include "cpu/reduce/lanes.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// The first n elements of `next`, the others of `now`.
template <class T>
TINYT_INLINE Vec<T> replace_first(Vec<T> now, Vec<T> next, int64_t n) {
  T kept[kWidth<T>], fresh[kWidth<T>];
  store(kept, now);
  store(fresh, next);
  for (int64_t i = 0; i < n; ++i) kept[i] = fresh[i];
  return load<T>(kept);
}

// Elements of S, which is T or what converts to it: a register, or its first n lanes.
template <class T, class S>
TINYT_INLINE Vec<T> load_as(const S* p) {
  return load_lanes<S, T, kWidth<T>>(p);
}
template <class T, class S>
TINYT_INLINE Vec<T> load_first_as(const S* p, int64_t n) {
  return load_lanes_part<S, T, kWidth<T>>(p, n);
}

// `Count` lines at once, so that there are enough chains to fill the pipes.
template <class T, class S, int Count>
TINYT_INLINE void dot_lines(const DotBlock& d, const S* b, T* sums) {
  using Sums = Lanes<T, Add>;
  constexpr int kL = kWidth<T>, kParts = Sums::kParts;
  static_assert(Sums::kWidth == kL);
  const T* x = static_cast<const T*>(d.x);
  Sums lanes[Count];
  // To the next lines: the processor fetches ahead within a page.
  const int64_t ahead = Count * d.stride;
  int64_t k = 0;
  for (; k + kReduceLanes <= d.depth; k += kReduceLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) {
      const Vec<T> v = load<T>(x + k + i * kL);
#pragma GCC unroll 4
      for (int c = 0; c < Count; ++c) {
        const S* at = b + c * d.stride + k + i * kL;
        if (i * kL * sizeof(S) % kCacheLine == 0) __builtin_prefetch(at + ahead);
        lanes[c].part[i] = fma(v, load_as<T>(at), lanes[c].part[i]);
      }
    }
  }
  for (int i = 0; k < d.depth; ++i, k += kL) {
    const int64_t n = d.depth - k < kL ? d.depth - k : kL;
    const Vec<T> v = load_part<T>(x + k, n);
    for (int c = 0; c < Count; ++c) {
      const Vec<T> next = fma(v, load_first_as<T>(b + c * d.stride + k, n), lanes[c].part[i]);
      lanes[c].part[i] = replace_first<T>(lanes[c].part[i], next, n);
    }
  }
  for (int c = 0; c < Count; ++c) sums[c] = lanes[c].fold();
}

// Lines that run along memory.
template <class T, class S = T>
void dots(const DotBlock& d) {
  constexpr int kParts = kReduceLanes / kWidth<T>, kAtOnce = kParts < 4 ? 4 / kParts : 1;
  const S* b = static_cast<const S*>(d.b);
  T* sums = static_cast<T*>(d.sums);
  int64_t j = 0;
  for (; j + kAtOnce <= d.cols; j += kAtOnce) {
    dot_lines<T, S, kAtOnce>(d, b + j * d.stride, sums + j);
  }
  for (; j < d.cols; ++j) dot_lines<T, S, 1>(d, b + j * d.stride, sums + j);
}

// sums[j] += x[i * x_step] b[i][j] for i = 0, ..., Count - 1, a chain of fma.
template <class T, class S, int Count>
TINYT_INLINE void add_rows(const T* x, int64_t x_step, const S* b, int64_t b_step, int64_t cols,
                           T* sums) {
  Vec<T> value[Count];
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) value[i] = broadcast(x[i * x_step]);
  int64_t j = 0;
  for (; j + kWidth<T> <= cols; j += kWidth<T>) {
    Vec<T> sum = load<T>(sums + j);
#pragma GCC unroll 8
    for (int i = 0; i < Count; ++i) sum = fma(value[i], load_as<T>(b + i * b_step + j), sum);
    store(sums + j, sum);
  }
  if (j == cols) return;
  Vec<T> sum = load_part<T>(sums + j, cols - j);
#pragma GCC unroll 8
  for (int i = 0; i < Count; ++i) {
    sum = fma(value[i], load_first_as<T>(b + i * b_step + j, cols - j), sum);
  }
  store_part(sums + j, sum, cols - j);
}

// Lines next to each other: all of a lane's rows, lane after lane. The lanes come in the order in
// which the tree takes them (their bits reversed), so few sums wait at a time.
template <class T, class S = T>
void row_sums(const DotBlock& d) {
  constexpr int64_t kMost = 1024, kStep = kReduceLanes, kAtOnce = 8;
  constexpr int kLevels = 5;
  static_assert(kReduceLanes == 1 << kLevels);
  alignas(64) T waiting[kLevels + 1][kMost];
  const T* x = static_cast<const T*>(d.x);
  for (int64_t j = 0; j < d.cols; j += kMost) {
    const int64_t cols = d.cols - j < kMost ? d.cols - j : kMost;
    const S* b = static_cast<const S*>(d.b) + j;
    int level = 0;
    for (int i = 0; i < kReduceLanes; ++i) {
      int64_t k = 0;
      for (int bit = 0; bit < kLevels; ++bit) k |= static_cast<int64_t>(i >> bit & 1) << (4 - bit);
      T* sums = waiting[level++];
      __builtin_memset(sums, 0, static_cast<size_t>(cols) * sizeof(T));
      for (; k + (kAtOnce - 1) * kStep < d.depth; k += kAtOnce * kStep) {
        add_rows<T, S, kAtOnce>(x + k, kStep, b + k * d.stride, kStep * d.stride, cols, sums);
      }
      for (; k < d.depth; k += kStep) add_rows<T, S, 1>(x + k, 0, b + k * d.stride, 0, cols, sums);
      for (int done = i; done & 1; done >>= 1) {
        --level;
        for (int64_t c = 0; c < cols; ++c) waiting[level - 1][c] += waiting[level][c];
      }
    }
    __builtin_memcpy(static_cast<T*>(d.sums) + j, waiting[0],
                     static_cast<size_t>(cols) * sizeof(T));
  }
}

}  // namespace
}  // namespace tinyt::cpu
