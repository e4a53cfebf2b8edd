// Running sums, products and extremes of contiguous lines, and of lines that lie side by side.
//
// Sums and products take blocks of as many elements as a register has float64 lanes. Within a block
// every element takes in the one 1, then 2, 4, ... before it (Hillis and Steele, "Data parallel
// algorithms", 1986); then the carry joins: the chain of dependent operations has one step a block.
// Eight float32 have a product that float64 can hold; products of float64 go one by one.
#include <type_traits>
#include <utility>

#include "cpu/reduce/lanes.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// What elements of T accumulate in, and how: float32 in float64.
template <class T, class OpType>
struct Running {
  using Op = OpType;
  using W = std::conditional_t<__is_same(T, float), double, T>;
  using V = Vec<W>;
  static constexpr bool kOneByOne = __is_same(T, double) && __is_same(Op, Multiply);
  static constexpr int kBlock = kOneByOne ? 1 : kLanes<F64>;
  static constexpr int kParts = sizeof(W) / sizeof(T);  // registers of W for one of T
  static constexpr int64_t kStep = kLanes<Vec<T>>;
};

TINYT_INLINE void unpack(F32 x, F64* parts) {
  const F64Pair pair = widen(x);
  parts[0] = pair.lo;
  parts[1] = pair.hi;
}
TINYT_INLINE F32 pack(const F64* parts, F32*) { return narrow(parts[0], parts[1]); }
template <class V>
TINYT_INLINE void unpack(V x, V* parts) {
  parts[0] = x;
}
template <class V>
TINYT_INLINE V pack(const V* parts, V*) {
  return parts[0];
}

// ---- one line

// Lanes move up by `By`; the first ones come from `fill`.
template <int By, class V, int... I>
TINYT_INLINE V shifted(V v, V fill, std::integer_sequence<int, I...>) {
  constexpr int kCount = sizeof...(I);
  return __builtin_shufflevector(v, fill, (I < By ? kCount + I : I - By)...);
}
template <class V, int... I>
TINYT_INLINE V last_lane(V v, std::integer_sequence<int, I...>) {
  return __builtin_shufflevector(v, v, (I * 0 + static_cast<int>(sizeof...(I)) - 1)...);
}

template <class Op, int By, class V>
TINYT_INLINE V prefixes(V v, V identity) {
  constexpr int kCount = kLanes<F64>;
  if constexpr (By >= kCount) {
    return v;
  } else {
    const V before = shifted<By>(v, identity, std::make_integer_sequence<int, kCount>());
    return prefixes<Op, 2 * By>(Op::apply(before, v), identity);
  }
}

// A part of a line; all but the last are of whole registers.
template <class T, class Op>
void line(const void* from, int64_t n, void* to, void* state) {
  using R = Running<T, Op>;
  using W = typename R::W;
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  auto* carry = static_cast<W*>(state);
  if constexpr (R::kOneByOne) {
    W found = *carry;
    for (int64_t i = 0; i < n; ++i) {
      found = Op::apply(found, load_lanes<T, T, 1>(in + i));
      store(out + i, found);
    }
    *carry = found;
  } else {
    using V = typename R::V;
    const V identity = V{} + Op::template kIdentity<W>;
    V found = splat(*carry);
    for (int64_t i = 0; i < n; i += R::kStep) {
      const int64_t count = n - i < R::kStep ? n - i : R::kStep;
      const bool whole = count == R::kStep;
      V parts[R::kParts];
      unpack(whole ? load<T>(in + i) : load_part<T>(in + i, count), parts);
      for (int p = 0; p < R::kParts; ++p) {
        const V block = prefixes<Op, 1>(parts[p], identity);
        parts[p] = Op::apply(found, block);
        found = Op::apply(found, last_lane(block, std::make_integer_sequence<int, kLanes<F64>>()));
      }
      const auto result = pack(parts, static_cast<Vec<T>*>(nullptr));
      whole ? store(out + i, result) : store_part(out + i, result, count);
    }
    *carry = found[0];
  }
}

// ---- lines side by side

// The same down the rows: each takes in the one By, 2 By, ... before it.
template <class Op, int By, class V, int Rows, int Parts>
TINYT_INLINE void prefixes_down(V (&x)[Rows][Parts]) {
  if constexpr (By < Rows) {
#pragma GCC unroll 8
    for (int j = Rows - 1; j >= By; --j) {
      for (int p = 0; p < Parts; ++p) x[j][p] = Op::apply(x[j - By][p], x[j][p]);
    }
    prefixes_down<Op, 2 * By>(x);
  }
}

// A block of rows of one register of columns; Whole: all of them are there.
template <class T, class Op, bool Whole>
TINYT_INLINE void block_of_rows(const ScanColumns& s, int64_t row, int64_t col,
                                typename Running<T, Op>::W* carry) {
  using R = Running<T, Op>;
  using V = typename R::V;
  constexpr int kBlock = R::kBlock, kParts = R::kParts;
  const int64_t rows = Whole || s.n - row > kBlock ? kBlock : s.n - row;
  const int64_t count = Whole || s.cols - col > R::kStep ? R::kStep : s.cols - col;
  const char* in = s.in + row * s.in_step + col * static_cast<int64_t>(sizeof(T));
  char* out = s.out + row * s.out_step + col * static_cast<int64_t>(sizeof(T));
  V x[kBlock][kParts] = {};
#pragma GCC unroll 8
  for (int j = 0; j < kBlock; ++j, in += s.in_step) {
    if constexpr (Whole) {
      unpack(load<T>(in), x[j]);
    } else if (j < rows) {
      unpack(load_part<T>(in, count), x[j]);
    }
  }
  prefixes_down<Op, 1>(x);
  V found[kParts];
  __builtin_memcpy(found, carry + col, sizeof found);
#pragma GCC unroll 8
  for (int j = 0; j < kBlock; ++j, out += s.out_step) {
    if (j >= rows) break;
    for (int p = 0; p < kParts; ++p) x[j][p] = Op::apply(found[p], x[j][p]);
    const auto result = pack(x[j], static_cast<Vec<T>*>(nullptr));
    Whole ? store(out, result) : store_part(out, result, count);
  }
  __builtin_memcpy(carry + col, x[rows - 1], sizeof found);
}

template <class T, class Op>
void columns(const ScanColumns& s) {
  using R = Running<T, Op>;
  typename R::W carry[kScanColumns];
  for (auto& c : carry) c = Op::template kIdentity<typename R::W>;
  for (int64_t row = 0; row < s.n; row += R::kBlock) {
    for (int64_t col = 0; col < s.cols; col += R::kStep) {
      if (row + R::kBlock <= s.n && col + R::kStep <= s.cols) {
        block_of_rows<T, Op, true>(s, row, col, carry);
      } else {
        block_of_rows<T, Op, false>(s, row, col, carry);
      }
    }
  }
}

// ---- extremes: a NaN wins and stays; of equal values the last one is taken, as in PyTorch

template <class Op, class V>
TINYT_INLINE auto takes_over(V x, V best) {
  if constexpr (__is_same(Op, Larger)) return (x >= best) | (x != x);
  if constexpr (__is_same(Op, Smaller)) return (x <= best) | (x != x);
}

// Registers in which nothing takes over, by far the most of random numbers, are filled at once.
template <class T, class Op>
void extreme_line(const void* from, int64_t n, void* to, int64_t* places, ScanExtreme& state) {
  constexpr int64_t kWidth = kLanes<Vec<T>>;
  const auto* in = static_cast<const T*>(from);
  auto* out = static_cast<T*>(to);
  if (n == 0) return;
  T best = load_lanes<T, T, 1>(in);
  if (state.position > 0) __builtin_memcpy(&best, state.best, sizeof best);
  int64_t at = state.at;
  for (int64_t i = 0; i < n; i += kWidth) {
    const int64_t end = n - i < kWidth ? n : i + kWidth;
    if (end - i == kWidth && !any(takes_over<Op>(load<T>(in + i), splat(best)))) {
      store(out + i, splat(best));
      for (int64_t k = 0; k < kWidth; ++k) places[i + k] = at;
      continue;
    }
    for (int64_t k = i; k < end; ++k) {
      const T x = load_lanes<T, T, 1>(in + k);
      const bool better = takes_over<Op>(x, best);
      best = better ? x : best;
      at = better ? state.position + k : at;
      store(out + k, best);
      places[k] = at;
    }
  }
  __builtin_memcpy(state.best, &best, sizeof best);
  state.at = at;
  state.position += n;
}

template <class T, class Op>
void extreme_columns(const ScanColumns& s) {
  using V = Vec<T>;
  using Place = Element<Mask<V>>;
  constexpr int64_t kWidth = kLanes<V>;
  T best[kScanColumns];
  Place at[kScanColumns] = {};
  __builtin_memcpy(best, s.in, static_cast<size_t>(s.cols) * sizeof(T));
  for (int64_t row = 0; row < s.n; ++row) {
    const auto* in = reinterpret_cast<const T*>(s.in + row * s.in_step);
    const Mask<V> here = splat(static_cast<Place>(row));
    for (int64_t col = 0; col < s.cols; col += kWidth) {
      const int64_t left = s.cols - col;
      const V x = left < kWidth ? load_part<T>(in + col, left) : load<T>(in + col);
      const V before = load<T>(best + col);
      const auto better = takes_over<Op>(x, before);
      store(best + col, better ? x : before);
      store(at + col, better ? here : load<Place>(at + col));
    }
    __builtin_memcpy(s.out + row * s.out_step, best, static_cast<size_t>(s.cols) * sizeof(T));
    auto* places = reinterpret_cast<int64_t*>(s.places + row * s.places_step);
    for (int64_t col = 0; col < s.cols; ++col) places[col] = at[col];
  }
}

template <class T, class Compared>
constexpr void put(ScanTable& table, DType dtype) {
  const int t = static_cast<int>(dtype);
  table.sum[t] = {line<T, Add>, columns<T, Add>};
  table.product[t] = {line<T, Multiply>, columns<T, Multiply>};
  table.largest[t] = {extreme_line<Compared, Larger>, extreme_columns<Compared, Larger>};
  table.smallest[t] = {extreme_line<Compared, Smaller>, extreme_columns<Compared, Smaller>};
}

constexpr ScanTable build() {
  ScanTable table{};
  put<float, float>(table, DType::Float32);
  put<double, double>(table, DType::Float64);
  put<uint64_t, int64_t>(table, DType::Int64);
  return table;
}

}  // namespace

extern "C" constexpr ScanTable TINYT_TABLE(scan) = build();

}  // namespace tinyt::cpu
