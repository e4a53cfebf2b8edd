// Normalisation of channels: of one contiguous row of one channel, whose elements share mean,
// scale, weight and bias, and of columns, each of which has its own. Sums of a row are taken in the
// order of a row's reduction (row_order.h), those of columns row after row.
#include "cpu/norm/row_terms.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// ---- rows

template <class T>
void moments(const ChannelRow& r, void* out) {
  *static_cast<Moments<T>*>(out) = row_moments(static_cast<const T*>(r.x), r.n);
}

// (x - mean) scale weight + bias
template <class T>
void forward(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  const Vec<T> w = splat(static_cast<T>(r.weight)), b = splat(static_cast<T>(r.bias));
  const auto value = [=](int64_t i, int64_t k) { return (fetch(x + i, k) - mean) * scale * w + b; };
  fill_row(r.n, static_cast<T*>(out), value, r.stream);
}

// The sums of g h, with h = (x - mean) scale, and of g.
template <class T>
void sums(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  const Pair<T> found = sum_pairs<T>(r.n, [=](int64_t i, int64_t k) {
    const Vec<T> v = fetch(g + i, k);
    return Pair<Vec<T>>{v * ((fetch(x + i, k) - mean) * scale), v};
  });
  static_cast<T*>(out)[0] = found.first;
  static_cast<T*>(out)[1] = found.second;
}

// scale (g weight - shift - h slope)
template <class T>
void input(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  const Vec<T> w = splat(static_cast<T>(r.weight));
  const Vec<T> shift = splat(static_cast<T>(r.shift)), slope = splat(static_cast<T>(r.slope));
  const auto value = [=](int64_t i, int64_t k) {
    const Vec<T> h = (fetch(x + i, k) - mean) * scale;
    return scale * ((fetch(g + i, k) * w - shift) - h * slope);
  };
  fill_row(r.n, static_cast<T*>(out), value, r.stream);
}

// ---- columns

// The element of column i in row `row` of data as wide as the block's.
template <class T>
TINYT_INLINE const T* cell(const void* data, const ChannelColumns& c, int64_t row, int64_t i) {
  return static_cast<const T*>(data) + row * c.step + i;
}

// out[i] = the sum of term(row, i, count) over the rows; registers of columns side by side hide the
// latency of an addition.
template <class T, class F>
TINYT_INLINE void sum_columns(const ChannelColumns& c, T* out, const F& term) {
  constexpr int kGroup = 4;
  constexpr int64_t kSide = kGroup * kWidth<T>;
  int64_t i = 0;
  for (; i + kSide <= c.cols; i += kSide) {
    Vec<T> sum[kGroup] = {};
    for (int64_t row = 0; row < c.rows; ++row) {
      for (int j = 0; j < kGroup; ++j) {
        sum[j] += term(row, i + j * kWidth<T>, int64_t{kWidth<T>});
      }
    }
    __builtin_memcpy(out + i, sum, sizeof sum);
  }
  for (; i < c.cols; i += kWidth<T>) {
    const int64_t count = c.cols - i < kWidth<T> ? c.cols - i : kWidth<T>;
    Vec<T> sum = {};
    for (int64_t row = 0; row < c.rows; ++row) sum += term(row, i, count);
    put(out + i, sum, count);
  }
}

template <class T>
TINYT_INLINE Vec<T> of_column(const void* values, int64_t i, int64_t count) {
  return fetch(static_cast<const T*>(values) + i, count);
}

template <class T>
TINYT_INLINE Vec<T> centred(const ChannelColumns& c, int64_t row, int64_t i, int64_t count) {
  return fetch(cell<T>(c.x, c, row, i), count) - of_column<T>(c.mean, i, count);
}

template <class T>
void column_sums(const ChannelColumns& c) {
  sum_columns<T>(c, static_cast<T*>(c.out), [&c](int64_t row, int64_t i, int64_t count) {
    return fetch(cell<T>(c.x, c, row, i), count);
  });
}

template <class T>
void column_squares(const ChannelColumns& c) {
  sum_columns<T>(c, static_cast<T*>(c.out), [&c](int64_t row, int64_t i, int64_t count) {
    const Vec<T> d = centred<T>(c, row, i, count);
    return d * d;
  });
}

// The sums of g h; of g they are column_sums.
template <class T>
void column_dots(const ChannelColumns& c) {
  sum_columns<T>(c, static_cast<T*>(c.out), [&c](int64_t row, int64_t i, int64_t count) {
    const Vec<T> h = centred<T>(c, row, i, count) * of_column<T>(c.scale, i, count);
    return fetch(cell<T>(c.grad, c, row, i), count) * h;
  });
}

template <class T, class F>
TINYT_INLINE void fill_columns(const ChannelColumns& c, const F& value) {
  for (int64_t row = 0; row < c.rows; ++row) {
    fill_row(c.cols, static_cast<T*>(c.out) + row * c.step,
             [&value, row](int64_t i, int64_t count) { return value(row, i, count); });
  }
}

template <class T>
void column_forward(const ChannelColumns& c) {
  fill_columns<T>(c, [&c](int64_t row, int64_t i, int64_t count) {
    const Vec<T> h = centred<T>(c, row, i, count) * of_column<T>(c.scale, i, count);
    return h * of_column<T>(c.weight, i, count) + of_column<T>(c.bias, i, count);
  });
}

template <class T>
void column_input(const ChannelColumns& c) {
  fill_columns<T>(c, [&c](int64_t row, int64_t i, int64_t count) {
    const Vec<T> scale = of_column<T>(c.scale, i, count);
    const Vec<T> h = centred<T>(c, row, i, count) * scale;
    const Vec<T> u = fetch(cell<T>(c.grad, c, row, i), count) * of_column<T>(c.weight, i, count);
    return scale * ((u - of_column<T>(c.shift, i, count)) - h * of_column<T>(c.slope, i, count));
  });
}

}  // namespace

extern "C" const BatchNormTable TINYT_TABLE(batch_norm);
const BatchNormTable TINYT_TABLE(batch_norm) = {
    TINYT_BY_FLOAT(moments),     TINYT_BY_FLOAT(forward),        TINYT_BY_FLOAT(sums),
    TINYT_BY_FLOAT(input),       TINYT_BY_FLOAT(column_sums),    TINYT_BY_FLOAT(column_squares),
    TINYT_BY_FLOAT(column_dots), TINYT_BY_FLOAT(column_forward), TINYT_BY_FLOAT(column_input),
};

}  // namespace tinyt::cpu
