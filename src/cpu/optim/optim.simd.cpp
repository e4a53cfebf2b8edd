// One contiguous row of an optimiser's step. Each rule takes the operations of its composite
// (python/tinyt/optim) in the same order and rounds each to the dtype, so both give the same bits.
//
//   every rule  g = -g (maximize);  p = p shrink;  g = g + decay p
//   Sgd         v = momentum v + take g, or g at first;  d = v, or g + momentum v (nesterov);
//               p = p + rate d
//   Adam        m = lerp(m, g, take);  v = keep v + join g g;  s = v, or l = max(l, v);
//               p = p + rate m / (sqrt(s) / correction + eps)
//   RmsProp     v = keep v + join g g;  m = lerp(m, g, take);  d = sqrt(v - m m) + eps;
//               p = p + rate g / d, or b = momentum b + g / d and p = p + rate b
//   Adagrad     v = v + g g;  p = p + rate g / (sqrt(v) + eps)
//   Scale       p = p rate
#include "cpu/math/math.h"
#include "cpu/norm/row_terms.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// What an operation's result is rounded to, when its dtype is narrower than the lanes.
struct Exact {
  template <class V>
  static TINYT_INLINE V round(V x) {
    return x;
  }
};
struct ToBFloat16 {
  static TINYT_INLINE F32 round(F32 x) {
    const U32 bits = bit_cast<U32>(x);
    const U32 rounded = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000U;
    return select(x != x, x, bit_cast<F32>(rounded));
  }
};
struct ToHalf {
  static TINYT_INLINE F32 round(F32 x) {
    constexpr uint32_t kNormal = (127 - 14) << 23, kTooLarge = (127 + 16) << 23;
    const U32 bits = bit_cast<U32>(x), size = bits & 0x7FFFFFFFU;
    const U32 normal = (size + 0xFFF + (size >> 13 & 1)) & ~0x1FFFU;
    // The unit in the last place of numbers near 0.5 is that of half's subnormals.
    const U32 subnormal = bit_cast<U32>((bit_cast<F32>(size) + 0.5F) - 0.5F);
    U32 rounded = select(size < U32{} + kNormal, subnormal, normal);
    rounded = select(normal >= U32{} + kTooLarge, U32{} + 0x7F800000U, rounded);
    return select(x != x, x, bit_cast<F32>(rounded | (bits & 0x80000000U)));
  }
};

// `count` elements from `i` on of one of the row's tensors.
template <class T>
TINYT_INLINE Vec<T> get(const void* p, int64_t i, int64_t count) {
  return fetch(static_cast<const T*>(p) + i, count);
}
template <class T>
TINYT_INLINE void put(void* p, Vec<T> v, int64_t i, int64_t count) {
  put(static_cast<T*>(p) + i, v, count);
}

// A number of the step in every lane.
template <class T>
TINYT_INLINE Vec<T> lanes(double x) {
  return splat(static_cast<T>(x));
}

// x + y z, and x + y / z
template <class R, class V>
TINYT_INLINE V add_product(V x, V y, V z) {
  return R::round(x + y * z);
}
template <class R, class V>
TINYT_INLINE V add_quotient(V x, V y, V z) {
  return R::round(x + y / z);
}

// g + decay p, the gradient that the rules follow; shrinks p.
template <class T, class R>
struct Gradient {
  const OptimRow& r;
  Vec<T> shrink, decay;

  TINYT_INLINE explicit Gradient(const OptimRow& row)
      : r(row), shrink(lanes<T>(row.terms.shrink)), decay(lanes<T>(row.terms.decay)) {}
  TINYT_INLINE Vec<T> operator()(Vec<T>& p, int64_t i, int64_t count) const {
    Vec<T> g = get<T>(r.grad, i, count);
    if (r.terms.maximize) g = -g;
    if (r.terms.shrink != 1) p = R::round(p * shrink);
    return r.terms.decay != 0 ? add_product<R>(g, p, decay) : g;
  }
};

struct Sgd {
  template <class T, class R>
  static void run(const OptimRow& r) {
    const Gradient<T, R> gradient(r);
    const Vec<T> momentum = lanes<T>(r.terms.momentum), take = lanes<T>(r.terms.take);
    const Vec<T> rate = lanes<T>(r.terms.rate);
    for_each_vector<T>(r.n, [&](int64_t i, int64_t count) {
      Vec<T> p = get<T>(r.param, i, count), d = gradient(p, i, count);
      if (r.state[0] != nullptr) {
        Vec<T> v = d;
        if (!r.terms.first) {
          const Vec<T> kept = R::round(get<T>(r.state[0], i, count) * momentum);
          v = add_product<R>(kept, d, take);
        }
        put<T>(r.state[0], v, i, count);
        d = r.terms.nesterov ? add_product<R>(d, v, momentum) : v;
      }
      put<T>(r.param, add_product<R>(p, d, rate), i, count);
    });
  }
};

struct Adam {
  template <class T, class R>
  static void run(const OptimRow& r) {
    const Gradient<T, R> gradient(r);
    const Vec<T> take = lanes<T>(r.terms.take), keep = lanes<T>(r.terms.keep);
    const Vec<T> join = lanes<T>(r.terms.join), correction = lanes<T>(r.terms.correction);
    const Vec<T> eps = lanes<T>(r.terms.eps), rate = lanes<T>(r.terms.rate);
    for_each_vector<T>(r.n, [&](int64_t i, int64_t count) {
      Vec<T> p = get<T>(r.param, i, count);
      const Vec<T> g = gradient(p, i, count);
      const Vec<T> m = R::round(lerp(get<T>(r.state[0], i, count), g, take));
      put<T>(r.state[0], m, i, count);
      const Vec<T> kept = R::round(get<T>(r.state[1], i, count) * keep);
      Vec<T> v = add_product<R>(kept, g * join, g);
      put<T>(r.state[1], v, i, count);
      if (r.state[2] != nullptr) {
        v = maximum(get<T>(r.state[2], i, count), v);
        put<T>(r.state[2], v, i, count);
      }
      const Vec<T> root = R::round(R::round(sqrt(v)) / correction);
      const Vec<T> scale = R::round(root + eps);
      put<T>(r.param, add_quotient<R>(p, m * rate, scale), i, count);
    });
  }
};

struct RmsProp {
  template <class T, class R>
  static void run(const OptimRow& r) {
    const Gradient<T, R> gradient(r);
    const Vec<T> take = lanes<T>(r.terms.take), keep = lanes<T>(r.terms.keep);
    const Vec<T> join = lanes<T>(r.terms.join), momentum = lanes<T>(r.terms.momentum);
    const Vec<T> eps = lanes<T>(r.terms.eps), rate = lanes<T>(r.terms.rate);
    for_each_vector<T>(r.n, [&](int64_t i, int64_t count) {
      Vec<T> p = get<T>(r.param, i, count);
      const Vec<T> g = gradient(p, i, count);
      const Vec<T> kept = R::round(get<T>(r.state[0], i, count) * keep);
      Vec<T> v = add_product<R>(kept, g * join, g);
      put<T>(r.state[0], v, i, count);
      if (r.state[1] != nullptr) {
        const Vec<T> m = R::round(lerp(get<T>(r.state[1], i, count), g, take));
        put<T>(r.state[1], m, i, count);
        v = add_product<R>(v, -m, m);
      }
      const Vec<T> scale = R::round(R::round(sqrt(v)) + eps);
      if (r.state[2] != nullptr) {
        const Vec<T> kept_b = R::round(get<T>(r.state[2], i, count) * momentum);
        const Vec<T> b = add_quotient<R>(kept_b, g, scale);
        put<T>(r.state[2], b, i, count);
        p = add_product<R>(p, b, rate);
      } else {
        p = add_quotient<R>(p, g * rate, scale);
      }
      put<T>(r.param, p, i, count);
    });
  }
};

struct Adagrad {
  template <class T, class R>
  static void run(const OptimRow& r) {
    const Gradient<T, R> gradient(r);
    const Vec<T> eps = lanes<T>(r.terms.eps), rate = lanes<T>(r.terms.rate);
    for_each_vector<T>(r.n, [&](int64_t i, int64_t count) {
      Vec<T> p = get<T>(r.param, i, count);
      const Vec<T> g = gradient(p, i, count);
      const Vec<T> v = add_product<R>(get<T>(r.state[0], i, count), g, g);
      put<T>(r.state[0], v, i, count);
      const Vec<T> scale = R::round(R::round(sqrt(v)) + eps);
      put<T>(r.param, add_quotient<R>(p, g * rate, scale), i, count);
    });
  }
};

struct Scale {
  template <class T, class R>
  static void run(const OptimRow& r) {
    const Vec<T> rate = lanes<T>(r.terms.rate);
    for_each_vector<T>(r.n, [&](int64_t i, int64_t count) {
      put<T>(r.param, R::round(get<T>(r.param, i, count) * rate), i, count);
    });
  }
};

template <class Rule>
constexpr void fill(OptimTable& table, OptimRule rule) {
  auto& row = table.update[static_cast<int>(rule)];
  row[static_cast<int>(DType::Float16)] = Rule::template run<float, ToHalf>;
  row[static_cast<int>(DType::BFloat16)] = Rule::template run<float, ToBFloat16>;
  row[static_cast<int>(DType::Float32)] = Rule::template run<float, Exact>;
  row[static_cast<int>(DType::Float64)] = Rule::template run<double, Exact>;
}

constexpr OptimTable build() {
  OptimTable table{};
  fill<Sgd>(table, OptimRule::Sgd);
  fill<Adam>(table, OptimRule::Adam);
  fill<RmsProp>(table, OptimRule::RmsProp);
  fill<Adagrad>(table, OptimRule::Adagrad);
  fill<Scale>(table, OptimRule::Scale);
  return table;
}

}  // namespace

extern "C" constexpr OptimTable TINYT_TABLE(optim) = build();

}  // namespace tinyt::cpu
