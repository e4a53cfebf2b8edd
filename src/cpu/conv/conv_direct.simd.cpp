// Sums of shifted lines, products of a line with shifted ones, and copies of lines.
#include "cpu/reduce/lanes.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

template <class T, int Count>
TINYT_INLINE void correlate_vectors(const T* in, const int64_t* offset, const T* weight,
                                    int64_t taps, T* out) {
  Vec<T> sum[Count];
#pragma GCC unroll 8
  for (int v = 0; v < Count; ++v) sum[v] = Vec<T>{};
  for (int64_t t = 0; t < taps; ++t) {
    const Vec<T> w = splat(weight[t]);
    const T* from = in + offset[t];
#pragma GCC unroll 8
    for (int v = 0; v < Count; ++v) sum[v] = fma(w, load<T>(from + v * kRegister<T>), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < Count; ++v) store(out + v * kRegister<T>, sum[v]);
}

template <class T>
void correlate(const void* lines, const int64_t* offset, const void* weights, int64_t taps,
               int64_t n, void* result) {
  constexpr int64_t kLanesOfT = kRegister<T>;
  const auto* in = static_cast<const T*>(lines);
  const auto* weight = static_cast<const T*>(weights);
  auto* out = static_cast<T*>(result);
  int64_t i = 0;
  for (; i + 8 * kLanesOfT <= n; i += 8 * kLanesOfT) {
    correlate_vectors<T, 8>(in + i, offset, weight, taps, out + i);
  }
  if (i + 4 * kLanesOfT <= n) {
    correlate_vectors<T, 4>(in + i, offset, weight, taps, out + i);
    i += 4 * kLanesOfT;
  }
  if (i + 2 * kLanesOfT <= n) {
    correlate_vectors<T, 2>(in + i, offset, weight, taps, out + i);
    i += 2 * kLanesOfT;
  }
  if (i + kLanesOfT <= n) {
    correlate_vectors<T, 1>(in + i, offset, weight, taps, out + i);
    i += kLanesOfT;
  }
  if (i == n) return;
  Vec<T> sum = {};
  for (int64_t t = 0; t < taps; ++t) {
    sum = fma(splat(weight[t]), load_part<T>(in + offset[t] + i, n - i), sum);
  }
  store_part(out + i, sum, n - i);
}

constexpr int kRows = 4;                                    // computed side by side
constexpr int kVectors = TINYT_VECTOR_BYTES == 64 ? 4 : 2;  // of a row

// kRows rows of Vectors registers, of which `rows` and n elements count. Each register of the
// source is read once for all rows it belongs to.
template <class T, int Vectors>
void block_of_rows(const DirectRows& g, int64_t row, int64_t rows, int64_t col, int64_t n) {
  constexpr int kL = kRegister<T>;
  const auto* in = static_cast<const T*>(g.in) + row * g.pitch + col;
  const auto* weight = static_cast<const T*>(g.weight);
  Vec<T> sum[kRows][Vectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) sum[r][v] = Vec<T>{};
  }
  for (const DirectColumn* c = g.column; c < g.column + g.columns; ++c) {
    const T* line = in + c->offset;
    const T* tap = weight + c->tap;  // that row 0 meets in the line
    for (int64_t i = 0; i < rows + c->count - 1; ++i, line += g.pitch, tap += g.step) {
      Vec<T> x[Vectors];
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; ++v) x[v] = load<T>(line + v * kL);
      const bool all = i >= kRows - 1 && i < c->count;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        if (!all && (i < r || i - r >= c->count)) continue;
        const Vec<T> w = splat(tap[-r * g.step]);
#pragma GCC unroll 4
        for (int v = 0; v < Vectors; ++v) sum[r][v] = fma(w, x[v], sum[r][v]);
      }
    }
  }
  T* out = static_cast<T*>(g.out) + row * g.out_row + col;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r, out += g.out_row) {
    if (r >= rows) return;
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; ++v) {
      const int64_t left = n - v * kL;
      if (left >= kL) {
        store(out + v * kL, sum[r][v]);
      } else if (left > 0) {
        store_part(out + v * kL, sum[r][v], left);
      }
    }
  }
}

template <class T>
void rows(const DirectRows& g) {
  constexpr int kL = kRegister<T>;
  for (int64_t col = 0; col < g.n;) {
    const int64_t left = g.n - col,
                  vectors = left < kVectors * kL ? (left + kL - 1) / kL : kVectors;
    for (int64_t row = 0; row < g.rows; row += kRows) {
      const int64_t count = g.rows - row < kRows ? g.rows - row : kRows;
      if (vectors == 1) block_of_rows<T, 1>(g, row, count, col, left);
      if (vectors == 2) block_of_rows<T, 2>(g, row, count, col, left);
      if constexpr (kVectors > 2) {
        if (vectors == 3) block_of_rows<T, 3>(g, row, count, col, left);
        if (vectors == 4) block_of_rows<T, 4>(g, row, count, col, left);
      }
    }
    col += vectors * kL;
  }
}

template <class T>
void copy(const DirectLines& g) {
  constexpr int kL = kRegister<T>;
  Mask<Vec<T>> evens;
  for (int i = 0; i < kL; ++i) evens[i] = 2 * i;
  const auto* from = static_cast<const T*>(g.from);
  auto* to = static_cast<T*>(g.to);
  for (int64_t r = 0; r < g.rows; ++r, from += g.from_row, to += g.to_row) {
    int64_t i = 0;
    if (g.step == 1) {
      for (; i + kL <= g.n; i += kL) store(to + i, load<T>(from + i));
      if (i < g.n) store_part(to + i, load_part<T>(from + i, g.n - i), g.n - i);
      continue;
    }
    if (g.step == 2) {  // what lies between is read too, but not what follows the last element
      for (; i + kL < g.n; i += kL) {
        store(to + i, pick(load<T>(from + 2 * i), load<T>(from + 2 * i + kL), evens));
      }
    }
    for (; i < g.n; ++i) to[i] = from[i * g.step];
  }
}

// Lanes combine in halves.
template <class T>
TINYT_INLINE T add_lanes(Vec<T> v) {
  T lane[kRegister<T>];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int step = kRegister<T> / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lane[i] += lane[i + step];
  }
  return lane[0];
}

template <class T, int Count>
TINYT_INLINE void dot_taps(const T* a, const T* b, const int64_t* offset, int64_t n, T* out) {
  Vec<T> sum[Count];
#pragma GCC unroll 8
  for (int t = 0; t < Count; ++t) sum[t] = Vec<T>{};
  int64_t i = 0;
  for (; i + kRegister<T> <= n; i += kRegister<T>) {
    const Vec<T> x = load<T>(a + i);
#pragma GCC unroll 8
    for (int t = 0; t < Count; ++t) sum[t] = fma(x, load<T>(b + offset[t] + i), sum[t]);
  }
  if (i < n) {
    const Vec<T> x = load_part<T>(a + i, n - i);
    for (int t = 0; t < Count; ++t) {
      sum[t] = fma(x, load_part<T>(b + offset[t] + i, n - i), sum[t]);
    }
  }
  for (int t = 0; t < Count; ++t) out[t] += add_lanes<T>(sum[t]);
}

template <class T>
void dots(const void* line, const void* lines, const int64_t* offset, int64_t taps, int64_t n,
          void* sums) {
  const auto* a = static_cast<const T*>(line);
  const auto* b = static_cast<const T*>(lines);
  auto* out = static_cast<T*>(sums);
  for (; taps >= 8; taps -= 8, offset += 8, out += 8) dot_taps<T, 8>(a, b, offset, n, out);
  for (; taps >= 3; taps -= 3, offset += 3, out += 3) dot_taps<T, 3>(a, b, offset, n, out);
  for (; taps > 0; --taps, ++offset, ++out) dot_taps<T, 1>(a, b, offset, n, out);
}

}  // namespace

extern "C" const DirectTable TINYT_TABLE(direct);
const DirectTable TINYT_TABLE(direct) = {
    TINYT_BY_DTYPE(correlate),
    TINYT_BY_DTYPE(rows),
    TINYT_BY_DTYPE(dots),
    TINYT_BY_DTYPE(copy),
};

}  // namespace tinyt::cpu
