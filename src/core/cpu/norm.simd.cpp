// Normalisation of contiguous rows. Sums are taken in the order of a row's reduction (levels.h).
//
// With s = 1 / sqrt(var + eps), h = (x - mean) s and y = h w + b, and u = g w for a gradient g of
// y:
//   dx = s (u - sum(u) / n - h sum(u h) / n),   dw = sum of g h,   db = sum of g over the rows.
// Without centring the mean is 0, var is the mean of x^2, and sum(u) drops out.
#include "levels.h"
#include "row_terms.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

// Of one number: roots and quotients of whole registers take several times as long.
TINYT_INLINE float inverse_root(float x) { return 1 / __builtin_sqrtf(x); }
TINYT_INLINE double inverse_root(double x) { return 1 / __builtin_sqrt(x); }

template <class T>
void stats(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  auto* out = static_cast<T*>(r.stats);
  const Moments<T> moments =
      r.center ? row_moments(x, r.n) : Moments<T>{.squares = row_squares(x, r.n)};
  const T var = moments.squares / static_cast<T>(r.n);
  out[0] = moments.mean;
  out[1] = inverse_root(var + static_cast<T>(r.eps));
}

template <class T>
void forward(const NormRow& r) {
  stats<T>(r);
  const auto* x = static_cast<const T*>(r.x);
  const auto* w = static_cast<const T*>(r.weight);
  const auto* b = static_cast<const T*>(r.bias);
  const auto* of_row = static_cast<const T*>(r.stats);
  const Vec<T> mean = splat(of_row[0]), scale = splat(of_row[1]);
  const auto value = [=, &r](int64_t i, int64_t k) {
    read_ahead(x + i, r.n);
    Vec<T> h = (fetch(x + i, k) - mean) * scale;
    if (w != nullptr) h = h * fetch(w + i, k);
    return b != nullptr ? h + fetch(b + i, k) : h;
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

// dx and, added to the sums over rows, g h and g: what of them is asked for.
template <class T>
void backward(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const auto* w = static_cast<const T*>(r.weight);
  const auto* of_row = static_cast<const T*>(r.stats);
  auto *dw = static_cast<T*>(r.out_weight), *db = static_cast<T*>(r.out_bias);
  const Vec<T> mean = splat(of_row[0]), scale = splat(of_row[1]);
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
  const auto value = [=, &r](int64_t i, int64_t k) {
    read_ahead(x + i, r.n);
    read_ahead(g + i, r.n);
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
