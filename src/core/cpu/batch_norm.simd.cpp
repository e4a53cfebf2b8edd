// One contiguous row of one channel: all of its elements have the same mean, scale, weight and
// bias. Sums are taken in the order of a row's reduction (levels.h).
#include "levels.h"
#include "row_terms.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

template <class T>
void squares(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const Vec<T> mean = splat(static_cast<T>(r.mean));
  *static_cast<T*>(out) = sum_terms<T>(r.n, [=](int64_t i, int64_t k) {
    const Vec<T> d = fetch(x + i, k) - mean;
    return d * d;
  });
}

// (x - mean) scale weight + bias
template <class T>
void forward(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  const Vec<T> w = splat(static_cast<T>(r.weight)), b = splat(static_cast<T>(r.bias));
  fill_row(r.n, static_cast<T*>(out),
           [=](int64_t i, int64_t k) { return (fetch(x + i, k) - mean) * scale * w + b; });
}

// The sum of g h, with h = (x - mean) scale.
template <class T>
void dot(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  *static_cast<T*>(out) = sum_terms<T>(r.n, [=](int64_t i, int64_t k) {
    return fetch(g + i, k) * ((fetch(x + i, k) - mean) * scale);
  });
}

// scale weight (g - shift - h slope)
template <class T>
void input(const ChannelRow& r, void* out) {
  const auto* x = static_cast<const T*>(r.x);
  const auto* g = static_cast<const T*>(r.grad);
  const Vec<T> mean = splat(static_cast<T>(r.mean)), scale = splat(static_cast<T>(r.scale));
  const Vec<T> factor = scale * splat(static_cast<T>(r.weight));
  const Vec<T> shift = splat(static_cast<T>(r.shift)), slope = splat(static_cast<T>(r.slope));
  fill_row(r.n, static_cast<T*>(out), [=](int64_t i, int64_t k) {
    const Vec<T> h = (fetch(x + i, k) - mean) * scale;
    return factor * ((fetch(g + i, k) - shift) - h * slope);
  });
}

}  // namespace

extern "C" const BatchNormTable TINYT_TABLE(batch_norm);
const BatchNormTable TINYT_TABLE(batch_norm) = {
    TINYT_BY_FLOAT(squares),
    TINYT_BY_FLOAT(forward),
    TINYT_BY_FLOAT(dot),
    TINYT_BY_FLOAT(input),
};

}  // namespace tinyt::cpu
