// softmax and log_softmax, of rows and of columns that lie side by side. Sums are taken in the
// order of a row's reduction (row_order.h), whichever way a line lies.
//
// The maximum passes over NaN: one makes the sum NaN, and so every element.
#include "cpu/math/math_exp.h"
#include "cpu/math/math_log.h"
#include "cpu/norm/row_terms.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

struct Higher {
  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    return b > a ? b : a;
  }
  template <class T>
  static constexpr T kIdentity = kLowest<T>;
};

// ---- rows

template <class T>
void softmax(const SoftmaxRow& r) {
  const auto* in = static_cast<const T*>(r.in);
  auto* work = static_cast<T*>(r.work);
  const Vec<T> top = splat(reduce_elements<T, Higher>(in, r.n));
  const T sum = sum_terms<T>(r.n, [=, &r](int64_t i, int64_t count) {
    read_ahead(in + i, r.n);
    const Vec<T> e = exp_below(fetch(in + i, count) - top);
    put(work + i, e, count);
    return e;
  });
  const Vec<T> factor = splat(1 / sum);
  const auto value = [=](int64_t i, int64_t count) { return fetch(work + i, count) * factor; };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

// The logarithm of the sum of exp(x - top).
template <class T>
T log_of_sum(const T* in, int64_t n, T max) {
  const Vec<T> top = splat(max);
  const T sum = sum_terms<T>(n, [=](int64_t i, int64_t count) {
    read_ahead(in + i, n);
    return exp_below(fetch(in + i, count) - top);
  });
  return log(splat(sum))[0];
}

template <class T>
void log_softmax(const SoftmaxRow& r) {
  const auto* in = static_cast<const T*>(r.in);
  const T max = reduce_elements<T, Higher>(in, r.n);
  const Vec<T> top = splat(max), log_sum = splat(log_of_sum(in, r.n, max));
  const auto value = [=](int64_t i, int64_t count) {
    return (fetch(in + i, count) - top) - log_sum;
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

template <class T>
void softmax_backward(const SoftmaxRow& r) {
  const auto *g = static_cast<const T*>(r.grad), *y = static_cast<const T*>(r.in);
  const Vec<T> dot = splat(sum_terms<T>(
      r.n, [=](int64_t i, int64_t count) { return fetch(g + i, count) * fetch(y + i, count); }));
  const auto value = [=](int64_t i, int64_t count) {
    return fetch(y + i, count) * (fetch(g + i, count) - dot);
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

template <class T>
void log_softmax_backward(const SoftmaxRow& r) {
  const auto *g = static_cast<const T*>(r.grad), *y = static_cast<const T*>(r.in);
  const Vec<T> sum = splat(reduce_elements<T, Add>(g, r.n));
  const auto value = [=, &r](int64_t i, int64_t count) {
    read_ahead(g + i, r.n);
    read_ahead(y + i, r.n);
    return fetch(g + i, count) - exp_below(fetch(y + i, count)) * sum;
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

template <class T>
void log_sum(const SoftmaxRow& r) {
  const auto* in = static_cast<const T*>(r.in);
  auto* out = static_cast<T*>(r.out);
  out[0] = reduce_elements<T, Higher>(in, r.n);
  out[1] = log_of_sum(in, r.n, out[0]);
}

template <class T>
void slopes(const SoftmaxRow& r) {
  const auto* in = static_cast<const T*>(r.in);
  const auto* of_row = static_cast<const T*>(r.sums);
  const Vec<T> top = splat(of_row[0]), log_sum = splat(of_row[1]);
  const Vec<T> scale = splat(static_cast<T>(r.scale));
  const int64_t wanted = r.wanted;
  const auto value = [=](int64_t i, int64_t count) {
    const Vec<T> v = exp_below((fetch(in + i, count) - top) - log_sum) * scale;
    if (wanted < i || wanted >= i + count) return v;
    return select(iota<T, kWidth<T>>() == static_cast<T>(wanted - i), v - scale, v);
  };
  fill_row(r.n, static_cast<T*>(r.out), value, r.stream);
}

// ---- columns

template <class T>
TINYT_INLINE const T* line(const char* data, int64_t k, int64_t step) {
  return reinterpret_cast<const T*>(data + k * step);
}
template <class T>
TINYT_INLINE T* line(char* data, int64_t k, int64_t step) {
  return reinterpret_cast<T*>(data + k * step);
}

// The sum of term(k) for k < n, in each lane the order of a row's reduction.
template <class T, class F>
TINYT_INLINE Vec<T> sum_column(int64_t n, const F& term) {
  return reduce_blocks<Vec<T>, Add>(0, n, [&term](int64_t first, int64_t count) {
    Vec<T> sum[kReduceLanes];
    int64_t used = count < kReduceLanes ? count : kReduceLanes;
    for (int64_t k = 0; k < used; ++k) sum[k] = Vec<T>{};
    for (int64_t k = 0; k < count; ++k) sum[k % kReduceLanes] += term(first + k);
    // Lanes that no element has are zeros in a row, and left out here.
    for (int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      for (int64_t k = 0; k + half < used; ++k) sum[k] += sum[k + half];
      used = used < half ? used : half;
    }
    return sum[0];
  });
}

// Copies the strip to `work`, along the rows of memory, and finds the columns' maxima on the way.
template <class T>
void load_strip(const SoftmaxStrip& s, T* top) {
  for_each_vector<T>(s.count, [top](int64_t i, int64_t) { store(top + i, splat(kLowest<T>)); });
  for (int64_t k = 0; k < s.n; ++k) {
    const T* from = line<T>(s.in, k, s.step);
    T* to = line<T>(s.work, k, s.work_step);
    for_each_vector<T>(s.count, [=](int64_t i, int64_t count) {
      const Vec<T> x = fetch(from + i, count);
      put(to + i, x, count);
      store(top + i, Higher::apply(load<T>(top + i), x));
    });
  }
}

// Element k of columns [i, i + count) of a strip that was loaded.
template <class T>
TINYT_INLINE Vec<T> loaded(const SoftmaxStrip& s, int64_t k, int64_t i, int64_t count) {
  return fetch(line<T>(static_cast<const char*>(s.work), k, s.work_step) + i, count);
}

// The columns' sums of exp(x - maximum); with `Keep`, the terms take the place of the elements.
template <bool Keep, class T>
void exp_sums(const SoftmaxStrip& s, const T* top, T* sum) {
  for_each_vector<T>(s.count, [=, &s](int64_t i, int64_t count) {
    const Vec<T> max = load<T>(top + i);
    store(sum + i, sum_column<T>(s.n, [=, &s](int64_t k) {
            __builtin_prefetch(line<T>(s.in, k, s.step) + s.count + i, 0, 2);  // of the next strip
            const Vec<T> e = exp_below(loaded<T>(s, k, i, count) - max);
            if constexpr (Keep) put(line<T>(s.work, k, s.work_step) + i, e, count);
            return e;
          }));
  });
}

// out = value(k, i, count) for all elements, along the rows of memory.
template <class T, class F>
TINYT_INLINE void fill_strip(const SoftmaxStrip& s, const F& value) {
  for (int64_t k = 0; k < s.n; ++k) {
    const auto of_row = [&value, k](int64_t i, int64_t count) { return value(k, i, count); };
    fill_row(s.count, line<T>(s.out, k, s.out_step), of_row, s.stream);
  }
}

template <class T>
struct alignas(64) PerColumn {
  T value[kStripColumns];
};

template <class T>
void strip_softmax(const SoftmaxStrip& s) {
  PerColumn<T> top, factor;
  load_strip(s, top.value);
  exp_sums<true>(s, top.value, factor.value);
  fill_row(s.count, factor.value,
           [&factor](int64_t i, int64_t) { return 1 / load<T>(factor.value + i); });
  fill_strip<T>(s, [&](int64_t k, int64_t i, int64_t count) {
    return loaded<T>(s, k, i, count) * load<T>(factor.value + i);
  });
}

template <class T>
void strip_log_sum(const SoftmaxStrip& s) {
  auto *top = static_cast<T*>(s.top), *out = static_cast<T*>(s.log_sum);
  load_strip(s, top);
  exp_sums<false>(s, top, out);
  for_each_vector<T>(s.count, [out](int64_t i, int64_t) { store(out + i, log(load<T>(out + i))); });
}

template <class T>
void strip_log_softmax(const SoftmaxStrip& strip) {
  PerColumn<T> top, log_sum;
  SoftmaxStrip s = strip;
  s.top = top.value;
  s.log_sum = log_sum.value;
  strip_log_sum<T>(s);
  fill_strip<T>(s, [&](int64_t k, int64_t i, int64_t count) {
    return (loaded<T>(s, k, i, count) - load<T>(top.value + i)) - load<T>(log_sum.value + i);
  });
}

template <class T>
void strip_softmax_backward(const SoftmaxStrip& s) {
  PerColumn<T> dot;
  const auto y = [&s](int64_t k, int64_t i, int64_t count) {
    return fetch(line<T>(s.in, k, s.step) + i, count);
  };
  const auto g = [&s](int64_t k, int64_t i, int64_t count) {
    return fetch(line<T>(s.grad, k, s.step) + i, count);
  };
  for_each_vector<T>(s.count, [&](int64_t i, int64_t count) {
    store(dot.value + i,
          sum_column<T>(s.n, [&, i, count](int64_t k) { return g(k, i, count) * y(k, i, count); }));
  });
  fill_strip<T>(s, [&](int64_t k, int64_t i, int64_t count) {
    return y(k, i, count) * (g(k, i, count) - load<T>(dot.value + i));
  });
}

template <class T>
void strip_log_softmax_backward(const SoftmaxStrip& s) {
  PerColumn<T> sum;
  const auto g = [&s](int64_t k, int64_t i, int64_t count) {
    return fetch(line<T>(s.grad, k, s.step) + i, count);
  };
  for_each_vector<T>(s.count, [&](int64_t i, int64_t count) {
    store(sum.value + i, sum_column<T>(s.n, [&, i, count](int64_t k) { return g(k, i, count); }));
  });
  fill_strip<T>(s, [&](int64_t k, int64_t i, int64_t count) {
    const Vec<T> e = exp_below(fetch(line<T>(s.in, k, s.step) + i, count));
    return g(k, i, count) - e * load<T>(sum.value + i);
  });
}

template <class T>
void strip_slopes(const SoftmaxStrip& s) {
  const auto *top = static_cast<const T*>(s.top), *log_sum = static_cast<const T*>(s.log_sum);
  const auto* scale = static_cast<const T*>(s.scale);
  fill_strip<T>(s, [=, &s](int64_t k, int64_t i, int64_t count) {
    const Vec<T> x = fetch(line<T>(s.in, k, s.step) + i, count);
    return exp_below((x - load<T>(top + i)) - load<T>(log_sum + i)) * load<T>(scale + i);
  });
}

}  // namespace

extern "C" const SoftmaxTable TINYT_TABLE(softmax);
const SoftmaxTable TINYT_TABLE(softmax) = {
    TINYT_BY_FLOAT(softmax),
    TINYT_BY_FLOAT(log_softmax),
    TINYT_BY_FLOAT(softmax_backward),
    TINYT_BY_FLOAT(log_softmax_backward),
    TINYT_BY_FLOAT(log_sum),
    TINYT_BY_FLOAT(slopes),
    TINYT_BY_FLOAT(strip_softmax),
    TINYT_BY_FLOAT(strip_log_softmax),
    TINYT_BY_FLOAT(strip_softmax_backward),
    TINYT_BY_FLOAT(strip_log_softmax_backward),
    TINYT_BY_FLOAT(strip_log_sum),
    TINYT_BY_FLOAT(strip_slopes),
};

}  // namespace tinyt::cpu
