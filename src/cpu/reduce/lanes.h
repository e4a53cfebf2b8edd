// The fixed order of a row's reduction (row_order.h), shared by the reduction and softmax kernels.
#pragma once

#include <utility>

#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

// Combining functions on scalars and on vectors of any width, with the value that changes nothing.
// Int64 sums and products wrap, so they run on uint64_t.
struct Add {
  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    return a + b;
  }
  template <class T>
  static constexpr T kIdentity = 0;
};

struct Multiply {
  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    return a * b;
  }
  template <class T>
  static constexpr T kIdentity = 1;
};

// The extreme values of the dtypes that are compared; a uint8_t is a bool.
template <class T>
inline constexpr T kHighest = static_cast<T>(__builtin_inf());
template <>
inline constexpr int64_t kHighest<int64_t> = INT64_MAX;
template <>
inline constexpr int32_t kHighest<int32_t> = INT32_MAX;
template <>
inline constexpr uint8_t kHighest<uint8_t> = 1;
template <class T>
inline constexpr T kLowest = -kHighest<T>;
template <>
inline constexpr int64_t kLowest<int64_t> = INT64_MIN;
template <>
inline constexpr uint8_t kLowest<uint8_t> = 0;

// Of values none of which is a NaN; of two zeros the second one wins. One instruction.
struct LargerNumber {
  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    return a > b ? a : b;
  }
  template <class T>
  static constexpr T kIdentity = kLowest<T>;
};

struct SmallerNumber {
  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    return a < b ? a : b;
  }
  template <class T>
  static constexpr T kIdentity = kHighest<T>;
};

// The same, and a NaN wins. Integers are what has bit operations.
struct Larger {
  using OfNumbers = LargerNumber;

  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    if constexpr (requires { a & b; }) return OfNumbers::apply(a, b);
    return ((a > b) | (a != a)) ? a : b;
  }
  template <class T>
  static constexpr T kIdentity = kLowest<T>;
};

struct Smaller {
  using OfNumbers = SmallerNumber;

  template <class V>
  static TINYT_INLINE V apply(V a, V b) {
    if constexpr (requires { a & b; }) return OfNumbers::apply(a, b);
    return ((a < b) | (a != a)) ? a : b;
  }
  template <class T>
  static constexpr T kIdentity = kHighest<T>;
};

// Whether x is not larger (smaller) than the best so far; a NaN is better than any number.
template <class Op, class V>
TINYT_INLINE auto no_better(V x, V best) {
  if constexpr (__is_same(Op, Larger)) return x <= best;
  if constexpr (__is_same(Op, Smaller)) return x >= best;
}

template <class T>
inline constexpr int kRegister = static_cast<int>(TINYT_VECTOR_BYTES / sizeof(T));  // lanes of one

// The lanes of v from `From` on, as many as there are indices.
template <int From, class V, size_t... I>
TINYT_INLINE auto lanes_from(V v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, (From + I)...);
}

// kReduceLanes running values in registers.
template <class T, class Op>
struct Lanes {
  static constexpr int kWidth = kRegister<T> < kReduceLanes ? kRegister<T> : kReduceLanes;
  static constexpr int kParts = kReduceLanes / kWidth;
  using V = Vec<T, kWidth>;

  V part[kParts];

  TINYT_INLINE Lanes() {
    for (int i = 0; i < kParts; ++i) part[i] = V{} + Op::template kIdentity<T>;
  }

  TINYT_INLINE void add(int i, V v) { part[i] = Op::apply(part[i], v); }

  // The same where the compiler does not know i: every part has a name, and stays in its register.
  TINYT_INLINE void add_to(int64_t i, V v) {
    for (int k = 0; k < kParts; ++k) {
      if (k == i) add(k, v);
    }
  }

  TINYT_INLINE V fold_parts() {
    for (int half = kParts / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) add(i, part[i + half]);
    }
    return part[0];
  }
  TINYT_INLINE T fold() { return fold_halves<kWidth / 2>(fold_parts()); }

 private:
  template <int Half, class Wide>
  static TINYT_INLINE T fold_halves(Wide v) {
    if constexpr (Half == 1) {
      return Op::apply(static_cast<T>(v[0]), static_cast<T>(v[1]));
    } else {
      constexpr auto kHalf = std::make_index_sequence<Half>{};
      return fold_halves<Half / 2>(Op::apply(lanes_from<0>(v, kHalf), lanes_from<Half>(v, kHalf)));
    }
  }
};

// The registers of as many rows as they have lanes, each folded as Lanes::fold does: lane i is row
// i's. Halves of two registers meet in one; those of less than 16 bytes stay where they are.
template <class T, class Op>
struct FoldedRows {
  static constexpr int kWidth = kRegister<T>, kInside = 16 / sizeof(T), kAcross = kWidth / kInside;
  using V = Vec<T, kWidth>;

  // Of `Count` registers from number Begin on, in the order in which halves meet.
  template <int Count, int Begin>
  static TINYT_INLINE V fold(const V* rows) {
    if constexpr (Count == 1) {
      return rows[Begin % kAcross * kInside + Begin / kAcross];
    } else {
      const V a = fold<Count / 2, Begin>(rows), b = fold<Count / 2, Begin + Count / 2>(rows);
      constexpr auto kAll = std::make_index_sequence<kWidth>{};
      return Op::apply(halves<Count, 0>(a, b, kAll), halves<Count, 1>(a, b, kAll));
    }
  }

 private:
  // Where lane i of the first (second) halves comes from, those of b following those of a.
  template <int Count, int Second>
  static constexpr int source(int i) {
    constexpr int kHalf = kWidth / Count, kPeriod = kHalf < kInside ? kInside : kWidth;
    const int period = i / kPeriod, in = i % kPeriod, group = in / kHalf;
    const int of_each = kPeriod / kHalf / 2, from_b = group / of_each;
    return from_b * kWidth + period * kPeriod + (group % of_each * 2 + Second) * kHalf + in % kHalf;
  }
  template <int Count, int Second, size_t... I>
  static TINYT_INLINE V halves(V a, V b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, source<Count, Second>(I)...);
  }
};

// Elements of a block that a lane, or a column, takes in order.
template <class Op>
inline constexpr int64_t kBlockLength = __is_same(Op, Multiply) ? kProductBlock : kColumnBlock;

// Where the pairwise tree over `blocks` > 1 splits: the largest power of two below it.
TINYT_INLINE int64_t left_blocks(int64_t blocks) {
  return int64_t{1} << (63 - __builtin_clzll(static_cast<uint64_t>(blocks - 1)));
}

template <class T, class Op, class Leaf>
T reduce_tree(int64_t first, int64_t n, const Leaf& leaf) {
  constexpr int64_t kBlock = kReduceLanes * kBlockLength<Op>;
  if (n <= kBlock) return leaf(first, n);
  const int64_t left = kBlock * left_blocks((n + kBlock - 1) / kBlock);
  const T a = reduce_tree<T, Op>(first, left, leaf);
  const T b = reduce_tree<T, Op>(first + left, n - left, leaf);
  return Op::apply(a, b);
}

// The tree over the blocks of elements [first, first + n); leaf(first, n) gives a block's value.
template <class T, class Op, class Leaf>
TINYT_INLINE T reduce_blocks(int64_t first, int64_t n, const Leaf& leaf) {
  constexpr int64_t kBlock = kReduceLanes * kBlockLength<Op>;
  return n <= kBlock ? leaf(first, n) : reduce_tree<T, Op>(first, n, leaf);
}

}  // namespace
}  // namespace tinyt::cpu
