// Loops over one contiguous row whose terms are computed from several inputs: a sum in the order of
// a row's reduction (row_order.h), and a result for each element.
#pragma once

#include "cpu/reduce/moment_merge.h"
#include "cpu/reduce/reduce_ops.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T>
inline constexpr int kWidth = kLanes<Vec<T>>;

// Up to a whole vector.
template <class T>
TINYT_INLINE Vec<T> fetch(const T* p, int64_t count) {
  return count == kWidth<T> ? load<T>(p) : load_part<T>(p, count);
}

// The same of elements [i, i + count) of S, as the T that kernels compute in.
template <class S, class T>
TINYT_INLINE Vec<T> fetch_as(const char* in, int64_t i, int64_t count) {
  const char* p = in + i * static_cast<int64_t>(sizeof(S));
  return count == kWidth<T> ? load_lanes<S, T, kWidth<T>>(p)
                            : load_lanes_part<S, T, kWidth<T>>(p, count);
}

template <class T>
TINYT_INLINE void put(T* p, Vec<T> v, int64_t count) {
  count == kWidth<T> ? store(p, v) : store_part(p, v, count);
}

// Rows of n elements mostly follow each other: while one is computed (or some, n in all), the place
// that corresponds to `in` in the next one, or what lies far enough ahead, is on its way to the
// caches.
template <class T>
TINYT_INLINE void read_ahead(const T* in, int64_t n) {
  constexpr int64_t kLeast = kAheadOfRowBytes / sizeof(T);
  __builtin_prefetch(in + (n > kLeast ? n : kLeast), 0, 2);
}

// v in the first `count` lanes, zeros in the others.
template <class T>
TINYT_INLINE Vec<T> first_lanes(Vec<T> v, int64_t count) {
  return select(iota<T, kWidth<T>>() < static_cast<T>(count), v, Vec<T>{});
}

// body(part, i, count): the registers of elements [k, n), fewer than kReduceLanes of them.
template <class T, class F>
TINYT_INLINE void for_each_rest(int64_t k, int64_t n, const F& body) {
  for (int64_t part = 0; k < n; ++part, k += kWidth<T>) {
    body(part, k, n - k < kWidth<T> ? n - k : int64_t{kWidth<T>});
  }
}

// The lanes of term(i, count), the terms of elements [i, i + count), over one block.
template <class T, class F>
TINYT_INLINE Lanes<T, Add> lanes_of_terms(int64_t first, int64_t n, const F& term) {
  static_assert(kReduceLanes % kWidth<T> == 0);
  Lanes<T, Add> sum;
  int64_t k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < sum.kParts; ++i) {
      sum.add(i, term(first + k + i * kWidth<T>, int64_t{kWidth<T>}));
    }
  }
  for_each_rest<T>(k, n, [&](int64_t part, int64_t i, int64_t count) {
    sum.add_to(part, first_lanes<T>(term(first + i, count), count));
  });
  return sum;
}

// Their sum.
template <class T, class F>
TINYT_INLINE T sum_block(int64_t first, int64_t n, const F& term) {
  return lanes_of_terms<T>(first, n, term).fold();
}

template <class T, class F>
TINYT_INLINE T sum_terms(int64_t n, const F& term) {
  return reduce_blocks<T, Add>(
      0, n, [&term](int64_t first, int64_t count) { return sum_block<T>(first, count, term); });
}

// Two sums side by side, or registers of their terms.
template <class V>
struct Pair {
  V first, second;

  friend TINYT_INLINE Pair operator+(Pair a, Pair b) {
    return {a.first + b.first, a.second + b.second};
  }
};

template <class T, class F>
TINYT_INLINE Pair<T> pair_block(int64_t first, int64_t n, const F& term) {
  Lanes<T, Add> a, b;
  int64_t k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < a.kParts; ++i) {
      const Pair<Vec<T>> v = term(first + k + i * kWidth<T>, int64_t{kWidth<T>});
      a.add(i, v.first);
      b.add(i, v.second);
    }
  }
  for_each_rest<T>(k, n, [&](int64_t part, int64_t i, int64_t count) {
    const Pair<Vec<T>> v = term(first + i, count);
    a.add_to(part, first_lanes<T>(v.first, count));
    b.add_to(part, first_lanes<T>(v.second, count));
  });
  return {a.fold(), b.fold()};
}

// Two sums whose terms come together, each in its own order as sum_terms has it.
template <class T, class F>
TINYT_INLINE Pair<T> sum_pairs(int64_t n, const F& term) {
  return reduce_blocks<Pair<T>, Add>(
      0, n, [&term](int64_t first, int64_t count) { return pair_block<T>(first, count, term); });
}

template <class T, class Op>
TINYT_INLINE T reduce_elements(const T* x, int64_t n) {
  return reduce_row<Kind<T, T, Same, Op>>(x, n);
}
template <class T>
TINYT_INLINE T row_squares(const T* x, int64_t n) {
  return reduce_row<Kind<T, T, Square, Add>>(x, n);
}

// Of one block of elements of S: their mean, then their distances from it, while they are in cache.
template <class S, class T>
TINYT_INLINE Moments<double> block_moments(const char* in, int64_t n) {
  const T center = reduce_block<Kind<S, T, Same, Add>>(in, n) / static_cast<T>(n);
  const Vec<T> mean = splat(center);
  const Pair<T> sums = pair_block<T>(0, n, [in, mean](int64_t i, int64_t count) {
    const Vec<T> d = fetch_as<S, T>(in, i, count) - mean;
    return Pair<Vec<T>>{d * d, d};
  });
  return Moments<double>::about(center, sums.first, sums.second, static_cast<double>(n));
}

// Of a row that its mean is taken off: what rounding the mean costs, that costs too.
template <class T>
TINYT_INLINE Moments<T> row_moments(const T* x, int64_t n) {
  return reduce_blocks<Moments<T>, Add>(0, n, [x](int64_t first, int64_t length) {
    const T* in = x + first;
    const T size = static_cast<T>(length), center = reduce_block<Kind<T, T, Same, Add>>(
                                                        reinterpret_cast<const char*>(in), length) /
                                                    size;
    const Vec<T> mean = splat(center);
    const T squares = sum_block<T>(0, length, [in, mean](int64_t i, int64_t count) {
      const Vec<T> d = fetch(in + i, count) - mean;
      return d * d;
    });
    return Moments<T>{size, center, squares};
  });
}

// Elements before the first that a whole register can be streamed to.
template <class T>
TINYT_INLINE int64_t before_register(const T* out, int64_t n) {
  const auto past = static_cast<int64_t>(reinterpret_cast<uint64_t>(out) % TINYT_VECTOR_BYTES);
  const int64_t before = past == 0 ? 0 : kWidth<T> - past / static_cast<int64_t>(sizeof(T));
  return before < n ? before : n;
}

// out[i] = value(i, count) for all elements; whole registers past the caches, if `past`.
template <class T, class F>
TINYT_INLINE void fill_row(int64_t n, T* out, const F& value, bool past = false) {
  int64_t k = past ? before_register(out, n) : 0;
  if (k > 0) store_part(out, value(0, k), k);
  for (; k + kWidth<T> <= n; k += kWidth<T>) {
    const Vec<T> v = value(k, int64_t{kWidth<T>});
    past ? stream(out + k, v) : store(out + k, v);
  }
  if (k < n) store_part(out + k, value(k, n - k), n - k);
}

// body(i, count) for all elements, a vector at a time.
template <class T, class F>
TINYT_INLINE void for_each_vector(int64_t n, const F& body) {
  int64_t i = 0;
  for (; i + kWidth<T> <= n; i += kWidth<T>) body(i, int64_t{kWidth<T>});
  if (i < n) body(i, n - i);
}

}  // namespace
}  // namespace tinyt::cpu
