// What a reduction combines, and the reduction of one row.
#pragma once

#include "cpu/reduce/lanes.h"
#include "cpu/reduce/load_convert.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

// ---- functions of each element

struct Same {
  template <class V>
  static TINYT_INLINE V apply(V x) {
    return x;
  }
};
struct Magnitude {
  template <class V>
  static TINYT_INLINE V apply(V x) {
    return x > 0 ? x : 0 - x;
  }
};
struct Square {
  template <class V>
  static TINYT_INLINE V apply(V x) {
    return x * x;
  }
};
struct Number {
  template <class V>
  static TINYT_INLINE V apply(V x) {
    return x == x ? x : V{};
  }
};

// One kind of reduction of one dtype.
template <class StoredType, class ValueType, class MapType, class OpType>
struct Kind {
  using S = StoredType;
  using T = ValueType;
  using Op = OpType;
  static constexpr int64_t kItem = sizeof(S);

  template <int N>
  static TINYT_INLINE typename LanesOf<T, N>::type term(const char* p) {
    return MapType::apply(load_lanes<S, T, N>(p));
  }
  // Terms of the first n < N lanes, the identity in the others.
  template <int N>
  static TINYT_INLINE Vec<T, N> term_part(const char* p, int64_t n) {
    const Vec<T, N> v = MapType::apply(load_lanes_part<S, T, N>(p, n));
    return iota<T, N>() < static_cast<T>(n) ? v : Vec<T, N>{} + Op::template kIdentity<T>;
  }
  // The same reduction of what it has found so far.
  using Found = Kind<T, T, Same, Op>;
  // Whether a NaN wins, which costs most of the time where there is none.
  static constexpr bool kOrdersFloats =
      requires { typename Op::OfNumbers; } && static_cast<T>(0.5) != 0;
};

// ---- blocks of a row

// Parts of the last, incomplete group; every part has a name, so that they stay in registers.
template <class K, int Part, class L>
TINYT_INLINE void add_rest(L& lanes, const char* in, int64_t n) {
  constexpr int64_t kBegin = Part * L::kWidth;
  if (n >= kBegin + L::kWidth) {
    lanes.add(Part, K::template term<L::kWidth>(in + kBegin * K::kItem));
    if constexpr (Part + 1 < L::kParts) add_rest<K, Part + 1>(lanes, in, n);
  } else if (n > kBegin) {
    lanes.add(Part, K::template term_part<L::kWidth>(in + kBegin * K::kItem, n - kBegin));
  }
}

// The extreme of numbers; false where there is a NaN.
template <class K>
TINYT_INLINE bool extreme_block(const char* in, int64_t n, typename K::T& found) {
  using L = Lanes<typename K::T, typename K::Op::OfNumbers>;
  constexpr int64_t kPart = L::kWidth * K::kItem;
  L lanes;
  for (; n >= kReduceLanes; n -= kReduceLanes, in += kReduceLanes * K::kItem) {
    for (int i = 0; i < L::kParts; i += 2) {
      const auto a = K::template term<L::kWidth>(in + i * kPart);
      const auto b = K::template term<L::kWidth>(in + (i + 1) * kPart);
      if (has_nan(a, b)) return false;
      lanes.add(i, a);
      lanes.add(i + 1, b);
    }
  }
  if (n > 0) {
    L rest;
    add_rest<K, 0>(rest, in, n);
    for (int i = 0; i < L::kParts; ++i) {
      if (has_nan(rest.part[i], rest.part[i])) return false;
      lanes.add(i, rest.part[i]);
    }
  }
  found = lanes.fold();
  return true;
}

template <class K>
TINYT_INLINE Lanes<typename K::T, typename K::Op> lanes_of_block(const char* in, int64_t n) {
  using L = Lanes<typename K::T, typename K::Op>;
  constexpr int64_t kPart = L::kWidth * K::kItem;
  L lanes;
  for (; n >= kReduceLanes; n -= kReduceLanes, in += kReduceLanes * K::kItem) {
    for (int i = 0; i < L::kParts; ++i) lanes.add(i, K::template term<L::kWidth>(in + i * kPart));
  }
  add_rest<K, 0>(lanes, in, n);
  return lanes;
}

template <class K>
TINYT_INLINE typename K::T reduce_block(const char* in, int64_t n) {
  if constexpr (K::kOrdersFloats) {
    typename K::T found;
    if (extreme_block<K>(in, n, found)) return found;
  }
  return lanes_of_block<K>(in, n).fold();
}

template <class K>
TINYT_INLINE typename K::T reduce_row(const void* data, int64_t n) {
  const auto* in = static_cast<const char*>(data);
  return reduce_blocks<typename K::T, typename K::Op>(0, n, [in](int64_t first, int64_t count) {
    return reduce_block<K>(in + first * K::kItem, count);
  });
}

}  // namespace
}  // namespace tinyt::cpu
