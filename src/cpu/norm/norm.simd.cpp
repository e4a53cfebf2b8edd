// Normalisation of contiguous rows. Sums are taken in the order of a row's reduction (row_order.h).
//
// With s = 1 / sqrt(var + eps), h = (x - mean) s and y = h w + b, and u = g w for a gradient g of
// y:
//   dx = s (u - sum(u) / n - h sum(u h) / n),   dw = sum of g h,   db = sum of g over the rows.
// Without centring the mean is 0, var is the mean of x^2, and sum(u) drops out.
#include "cpu/norm/row_terms.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// Of one number: roots and quotients of whole registers take several times as long.
TINYT_INLINE float inverse_root(float x) { return 1 / __builtin_sqrtf(x); }
TINYT_INLINE double inverse_root(double x) { return 1 / __builtin_sqrt(x); }

template <class T>
void stats(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const Moments<T> moments =
      r.center ? row_moments(x, r.n) : Moments<T>{.squares = row_squares(x, r.n)};
  const T var = moments.squares / static_cast<T>(r.n);
  *static_cast<T*>(r.mean) = moments.mean;
  *static_cast<T*>(r.scale) = inverse_root(var + static_cast<T>(r.eps));
}

// As many short rows as a register has lanes are computed together: their sums are folded, and
// their roots and quotients taken, a row a lane: of rows that stay in L1.

template <class T>
void stats_together(const NormRow& r) {
  using Folded = FoldedRows<T, Add>;
  constexpr int kRows = kWidth<T>;
  static_assert(Folded::kWidth == kRows);
  const auto* x = static_cast<const char*>(r.x);
  const int64_t row = r.n * static_cast<int64_t>(sizeof(T));
  const Vec<T> count = splat(static_cast<T>(r.n));
  Vec<T> folded[kRows];
  alignas(TINYT_VECTOR_BYTES) T mean[kRows] = {}, scale[kRows];
  if (r.center) {
    for (int i = 0; i < kRows; ++i) {
      folded[i] = lanes_of_block<Kind<T, T, Same, Add>>(x + i * row, r.n).fold_parts();
    }
    store(mean, Folded::template fold<kRows, 0>(folded) / count);
  }
  for (int i = 0; i < kRows; ++i) {
    const auto* in = reinterpret_cast<const T*>(x + i * row);
    const Vec<T> center = splat(mean[i]);
    folded[i] = lanes_of_terms<T>(0, r.n, [in, center](int64_t k, int64_t n) {
                  const Vec<T> d = fetch(in + k, n) - center;
                  return d * d;
                }).fold_parts();
  }
  const Vec<T> var = Folded::template fold<kRows, 0>(folded) / count;
  store(scale, splat(T{1}) / sqrt(var + splat(static_cast<T>(r.eps))));
  for (int i = 0; i < kRows; ++i) {
    static_cast<T*>(r.mean)[i] = mean[i];
    static_cast<T*>(r.scale)[i] = scale[i];
  }
}

// The results of row i of `rows` that are computed one right after the other.
template <class T>
void normalise(const NormRow& r, int64_t i, int64_t rows) {
  const auto* x = static_cast<const T*>(r.x) + i * r.n;
  const auto* w = static_cast<const T*>(r.weight);
  const auto* b = static_cast<const T*>(r.bias);
  const Vec<T> mean = splat(static_cast<const T*>(r.mean)[i]);
  const Vec<T> scale = splat(static_cast<const T*>(r.scale)[i]);
  const int64_t ahead = rows * r.n;
  const auto value = [=](int64_t k, int64_t n) {
    read_ahead(x + k, ahead);
    Vec<T> h = (fetch(x + k, n) - mean) * scale;
    if (w != nullptr) h = h * fetch(w + k, n);
    return b != nullptr ? h + fetch(b + k, n) : h;
  };
  fill_row(r.n, static_cast<T*>(r.out) + i * r.n, value, r.stream);
}

template <class T>
void forward(const NormRow& all) {
  constexpr int64_t kRows = kWidth<T>;
  const bool short_rows = all.n * TINYT_VECTOR_BYTES <= kLeastL1Bytes;
  NormRow r = all;
  for (int64_t i = 0; i < all.rows;) {
    const int64_t count = short_rows && all.rows - i >= kRows ? kRows : 1;
    r.x = static_cast<const T*>(all.x) + i * r.n;
    r.mean = static_cast<T*>(all.mean) + i;
    r.scale = static_cast<T*>(all.scale) + i;
    r.out = static_cast<T*>(all.out) + i * r.n;
    count > 1 ? stats_together<T>(r) : stats<T>(r);
    for (int64_t k = 0; k < count; ++k) normalise<T>(r, k, count);
    i += count;
  }
}

// dx and, added to the sums over rows, g h and g: what of them is asked for.
template <class T>
void backward(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const auto* w = static_cast<const T*>(r.weight);
  auto *dw = static_cast<T*>(r.out_weight), *db = static_cast<T*>(r.out_bias);
  const Vec<T> mean = splat(*static_cast<const T*>(r.mean));
  const Vec<T> scale = splat(*static_cast<const T*>(r.scale));
  const auto standardised = [=](int64_t i, int64_t k) { return (fetch(x + i, k) - mean) * scale; };
  const auto add_to_sums = [=](int64_t i, int64_t k, Vec<T> h) {
    const Vec<T> v = fetch(g + i, k);
    put(dw + i, fetch(dw + i, k) + v * h, k);
    put(db + i, fetch(db + i, k) + v, k);
  };
  if (r.out == nullptr) {
    for_each_vector<T>(r.n, [=](int64_t i, int64_t k) { add_to_sums(i, k, standardised(i, k)); });
    return;
  }
  const auto weighted = [=](int64_t i, int64_t k) {
    const Vec<T> v = fetch(g + i, k);
    return w != nullptr ? v * fetch(w + i, k) : v;
  };
  const Pair<T> sums = sum_pairs<T>(r.n, [=](int64_t i, int64_t k) {
    const Vec<T> u = weighted(i, k);
    return Pair<Vec<T>>{u, u * standardised(i, k)};
  });
  const T count = static_cast<T>(r.n);
  const Vec<T> shift = splat(r.center ? sums.first / count : T{0});
  const Vec<T> slope = splat(sums.second / count);
  const auto value = [=](int64_t i, int64_t k) {
    const Vec<T> h = standardised(i, k);
    if (dw != nullptr) add_to_sums(i, k, h);
    return scale * ((weighted(i, k) - shift) - h * slope);
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

}  // namespace

extern "C" const NormTable TINYT_TABLE(norm);
const NormTable TINYT_TABLE(norm) = {
    TINYT_BY_FLOAT(stats),
    TINYT_BY_FLOAT(forward),
    TINYT_BY_FLOAT(backward),
};

}  // namespace tinyt::cpu
