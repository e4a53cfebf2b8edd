// softmax and log_softmax of one contiguous row. Maximum and sum are taken in the order of a row's
// reduction (levels.h), so the bits are those of exp(x - amax(x)) / sum(exp(x - amax(x))) and of
// (x - amax(x)) - log(sum(exp(x - amax(x)))) along the last dimension.
#include "lanes.h"
#include "levels.h"
#include "math_exp.h"
#include "math_log.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

// The sum of exp(x - max) over one block; with `Keep`, its terms go to `out`.
template <bool Keep, class T>
T exp_block(const T* in, int64_t n, T max, T* out) {
  using V = Vec<T>;
  constexpr int kWidth = kLanes<V>;
  static_assert(kReduceLanes % kWidth == 0);
  const V top = splat(max);
  Lanes<T, Add> sum;
  int64_t k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < sum.kParts; ++i) {
      const V e = exp(load<T>(in + k + i * kWidth) - top);
      if constexpr (Keep) store(out + k + i * kWidth, e);
      sum.add(i, e);
    }
  }
  if (k == n) return sum.fold();
  T rest[kReduceLanes] = {};
  for (int64_t i = k; i < n; i += kWidth) {
    const int64_t count = n - i < kWidth ? n - i : kWidth;
    store_part(rest + (i - k), exp(load_part<T>(in + i, count) - top), count);
  }
  sum.add(rest);
  if constexpr (Keep) __builtin_memcpy(out + k, rest, static_cast<size_t>(n - k) * sizeof(T));
  return sum.fold();
}

template <bool Keep, class T>
T exp_row(const T* in, int64_t n, T max, T* out) {
  return reduce_blocks<T, Add>(0, n, [=](int64_t first, int64_t count) {
    return exp_block<Keep>(in + first, count, max, out + first);
  });
}

// out = f(in), element by element.
template <class T, class F>
TINYT_INLINE void map_row(const T* in, int64_t n, T* out, const F& f) {
  constexpr int kWidth = kLanes<Vec<T>>;
  int64_t k = 0;
  for (; k + kWidth <= n; k += kWidth) store(out + k, f(load<T>(in + k)));
  if (k < n) store_part(out + k, f(load_part<T>(in + k, n - k)), n - k);
}

template <class T>
void softmax(const void* from, int64_t n, void* to) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  const T max = reduce_row<T, Larger>(in, n);
  const Vec<T> sum = splat(exp_row<true>(in, n, max, out));
  map_row(out, n, out, [sum](Vec<T> e) { return e / sum; });
}

template <class T>
void log_softmax(const void* from, int64_t n, void* to) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  const T max = reduce_row<T, Larger>(in, n);
  const Vec<T> top = splat(max), log_sum = log(splat(exp_row<false>(in, n, max, out)));
  map_row(in, n, out, [top, log_sum](Vec<T> x) { return (x - top) - log_sum; });
}

template <class T>
void log_sum(const void* from, int64_t n, void* to) {
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  out[0] = reduce_row<T, Larger>(in, n);
  out[1] = log(splat(exp_row<false>(in, n, out[0], out)))[0];
}

template <class T>
void slopes(const void* from, int64_t n, const void* sums, double scale, void* to) {
  const auto* of_row = static_cast<const T*>(sums);
  const Vec<T> top = splat(of_row[0]), log_sum = splat(of_row[1]);
  const Vec<T> factor = splat(static_cast<T>(scale));
  map_row(static_cast<const T*>(from), n, static_cast<T*>(to),
          [=](Vec<T> x) { return exp((x - top) - log_sum) * factor; });
}

// f(at, k, i, count) for element k of rows [i, i + count), at most a vector of them; `at` is where
// the first lies.
template <class T, class F>
TINYT_INLINE void for_each_vector(const SoftmaxStrip& s, const F& f) {
  constexpr int64_t kWidth = kLanes<Vec<T>>;
  for (int64_t k = 0; k < s.n; ++k) {
    const auto* at = reinterpret_cast<const T*>(s.in + k * s.step);
    int64_t i = 0;
    for (; i + kWidth <= s.count; i += kWidth) f(load<T>(at + i), k, i, kWidth);
    if (i < s.count) f(load_part<T>(at + i, s.count - i), k, i, s.count - i);
  }
}

template <class T>
void log_sums(const SoftmaxStrip& s) {
  constexpr int64_t kWidth = kLanes<Vec<T>>;
  auto *top = static_cast<T*>(s.top), *out = static_cast<T*>(s.log_sum);
  alignas(64) T sums[kReduceLanes][kStripRows];
  const int64_t lanes = s.n < kReduceLanes ? s.n : kReduceLanes;
  for (int64_t i = 0; i < kStripRows; i += kWidth) {
    store(top + i, Vec<T>{} + Larger::kIdentity<T>);
    for (int64_t k = 0; k < lanes; ++k) store(&sums[k][i], Vec<T>{});
  }
  for_each_vector<T>(s, [=](Vec<T> x, int64_t, int64_t i, int64_t) {
    store(top + i, Larger::apply(load<T>(top + i), x));
  });
  for_each_vector<T>(s, [&](Vec<T> x, int64_t k, int64_t i, int64_t) {
    T* sum = &sums[k % kReduceLanes][i];
    store(sum, load<T>(sum) + exp(x - load<T>(top + i)));
  });
  // The fold of a row; lanes that no element has are zeros there, and left out here.
  for (int64_t half = kReduceLanes / 2, used = lanes; half > 0;
       used = used < half ? used : half, half /= 2) {
    for (int64_t k = 0; k + half < used; ++k) {
      for (int64_t i = 0; i < kStripRows; i += kWidth) {
        store(&sums[k][i], load<T>(&sums[k][i]) + load<T>(&sums[k + half][i]));
      }
    }
  }
  for (int64_t i = 0; i < kStripRows; i += kWidth) store(out + i, log(load<T>(&sums[0][i])));
}

template <class T>
void strip_slopes(const SoftmaxStrip& s) {
  const auto *top = static_cast<const T*>(s.top), *log_sum = static_cast<const T*>(s.log_sum);
  const auto* scale = static_cast<const T*>(s.scale);
  for_each_vector<T>(s, [=, &s](Vec<T> x, int64_t k, int64_t i, int64_t count) {
    const Vec<T> e = exp((x - load<T>(top + i)) - load<T>(log_sum + i)) * load<T>(scale + i);
    store_part(reinterpret_cast<T*>(s.out + k * s.out_step) + i, e, count);
  });
}

}  // namespace

extern "C" const SoftmaxTable TINYT_TABLE(softmax);
const SoftmaxTable TINYT_TABLE(softmax) = {
    TINYT_BY_FLOAT(softmax), TINYT_BY_FLOAT(log_softmax), TINYT_BY_FLOAT(log_sum),
    TINYT_BY_FLOAT(slopes),  TINYT_BY_FLOAT(log_sums),    TINYT_BY_FLOAT(strip_slopes),
};

}  // namespace tinyt::cpu
