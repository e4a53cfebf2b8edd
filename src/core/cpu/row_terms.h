// Loops over one contiguous row whose terms are computed from several inputs: a sum in the order of
// a row's reduction (levels.h), and a result for each element.
#pragma once

#include "lanes.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T>
inline constexpr int kWidth = kLanes<Vec<T>>;

// Up to a whole vector.
template <class T>
TINYT_INLINE Vec<T> fetch(const T* p, int64_t count) {
  return count == kWidth<T> ? load<T>(p) : load_part<T>(p, count);
}

template <class T>
TINYT_INLINE void put(T* p, Vec<T> v, int64_t count) {
  count == kWidth<T> ? store(p, v) : store_part(p, v, count);
}

// The sum of term(i, count), the terms of elements [i, i + count), over one block.
template <class T, class F>
T sum_block(int64_t first, int64_t n, const F& term) {
  static_assert(kReduceLanes % kWidth<T> == 0);
  Lanes<T, Add> sum;
  int64_t k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < sum.kParts; ++i) {
      sum.add(i, term(first + k + i * kWidth<T>, int64_t{kWidth<T>}));
    }
  }
  if (k == n) return sum.fold();
  T rest[kReduceLanes] = {};
  for (int64_t i = k; i < n; i += kWidth<T>) {
    const int64_t count = n - i < kWidth<T> ? n - i : kWidth<T>;
    store_part(rest + (i - k), term(first + i, count), count);
  }
  sum.add(rest);
  return sum.fold();
}

template <class T, class F>
T sum_terms(int64_t n, const F& term) {
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
Pair<T> pair_block(int64_t first, int64_t n, const F& term) {
  Lanes<T, Add> a, b;
  T rest_a[kReduceLanes] = {}, rest_b[kReduceLanes] = {};
  int64_t k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < a.kParts; ++i) {
      const Pair<Vec<T>> v = term(first + k + i * kWidth<T>, int64_t{kWidth<T>});
      a.add(i, v.first);
      b.add(i, v.second);
    }
  }
  for (int64_t i = k; i < n; i += kWidth<T>) {
    const int64_t count = n - i < kWidth<T> ? n - i : kWidth<T>;
    const Pair<Vec<T>> v = term(first + i, count);
    store_part(rest_a + (i - k), v.first, count);
    store_part(rest_b + (i - k), v.second, count);
  }
  if (k < n) {
    a.add(rest_a);
    b.add(rest_b);
  }
  return {a.fold(), b.fold()};
}

// Two sums whose terms come together, each in its own order as sum_terms has it.
template <class T, class F>
Pair<T> sum_pairs(int64_t n, const F& term) {
  return reduce_blocks<Pair<T>, Add>(
      0, n, [&term](int64_t first, int64_t count) { return pair_block<T>(first, count, term); });
}

// out[i] = value(i, count) for all elements.
template <class T, class F>
TINYT_INLINE void fill_row(int64_t n, T* out, const F& value) {
  int64_t k = 0;
  for (; k + kWidth<T> <= n; k += kWidth<T>) store(out + k, value(k, int64_t{kWidth<T>}));
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
