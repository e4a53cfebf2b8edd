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

template <class T>
void forward(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* w = static_cast<const T*>(r.weight);
  const auto* b = static_cast<const T*>(r.bias);
  auto* stats = static_cast<T*>(r.stats);
  const T count = static_cast<T>(r.n);
  stats[0] = r.center ? reduce_row<T, Add>(x, r.n) / count : T{0};
  const Vec<T> mean = splat(stats[0]);
  const T squares = sum_terms<T>(r.n, [=](int64_t i, int64_t k) {
    const Vec<T> d = fetch(x + i, k) - mean;
    return d * d;
  });
  const Vec<T> scale = 1 / sqrt(splat(squares / count) + splat(static_cast<T>(r.eps)));
  stats[1] = scale[0];
  fill_row(r.n, static_cast<T*>(r.out), [=](int64_t i, int64_t k) {
    Vec<T> h = (fetch(x + i, k) - mean) * scale;
    if (w != nullptr) h = h * fetch(w + i, k);
    return b != nullptr ? h + fetch(b + i, k) : h;
  });
}

template <class T>
void input(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const auto* w = static_cast<const T*>(r.weight);
  const auto* stats = static_cast<const T*>(r.stats);
  const Vec<T> mean = splat(stats[0]), scale = splat(stats[1]);
  const T count = static_cast<T>(r.n);
  const auto u = [=](int64_t i, int64_t k) {
    const Vec<T> v = fetch(g + i, k);
    return w != nullptr ? v * fetch(w + i, k) : v;
  };
  const auto h = [=](int64_t i, int64_t k) { return (fetch(x + i, k) - mean) * scale; };
  const Vec<T> shift = splat(r.center ? sum_terms<T>(r.n, u) / count : T{0});
  const T dot = sum_terms<T>(r.n, [=](int64_t i, int64_t k) { return u(i, k) * h(i, k); });
  const Vec<T> slope = splat(dot / count);
  fill_row(r.n, static_cast<T*>(r.out),
           [=](int64_t i, int64_t k) { return scale * ((u(i, k) - shift) - h(i, k) * slope); });
}

// dw += g h and db += g for n elements of one row.
template <class T>
void params(const NormRow& r) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const auto* stats = static_cast<const T*>(r.stats);
  auto* dw = static_cast<T*>(r.out);
  auto* db = static_cast<T*>(r.out_bias);
  const Vec<T> mean = splat(stats[0]), scale = splat(stats[1]);
  fill_row(r.n, dw, [=](int64_t i, int64_t k) {
    return fetch(dw + i, k) + fetch(g + i, k) * ((fetch(x + i, k) - mean) * scale);
  });
  fill_row(r.n, db, [=](int64_t i, int64_t k) { return fetch(db + i, k) + fetch(g + i, k); });
}

}  // namespace

extern "C" const NormTable TINYT_TABLE(norm);
const NormTable TINYT_TABLE(norm) = {
    TINYT_BY_FLOAT(forward),
    TINYT_BY_FLOAT(input),
    TINYT_BY_FLOAT(params),
};

}  // namespace tinyt::cpu
