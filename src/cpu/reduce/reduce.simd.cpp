// Reductions of contiguous rows and columns, in the fixed order that levels.h states. Elements are
// read as they lie in memory (S), mapped, and combined in T.
#include <type_traits>

#include "cpu/reduce/reduce_ops.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

// ---- rows

// Integers wrap, so that their sums are the same in any order.
template <class S>
TINYT_INLINE uint64_t sum_of_bytes(const char* in, int64_t n) {
  U64 sums{};
  for (; n >= kLanes<B8>; n -= kLanes<B8>, in += kLanes<B8>) {
    sums += sum_bytes(load_lanes<S, uint8_t, kLanes<B8>>(in));
  }
  if (n > 0) sums += sum_bytes(load_lanes_part<S, uint8_t, kLanes<B8>>(in, n));
  uint64_t sum = 0;
  for (int i = 0; i < kLanes<U64>; ++i) sum += sums[i];
  return sum;
}

// Short rows, whose lanes are folded for a register of rows at once.
constexpr int64_t kFoldedTogether = 256;
template <class K>
constexpr bool kFoldsTogether =
    std::is_same_v<typename K::Op, Add> &&
    (std::is_same_v<typename K::T, float> || std::is_same_v<typename K::T, double>);

template <class K>
TINYT_INLINE int64_t rows_together(const char* row, int64_t count, int64_t row_stride, int64_t n,
                                   typename K::T* values) {
  using Folded = FoldedRows<typename K::T, typename K::Op>;
  constexpr int kWidth = Folded::kWidth;
  int64_t r = 0;
  for (; r + kWidth <= count; r += kWidth) {
    typename Folded::V folded[kWidth];
    for (int i = 0; i < kWidth; ++i, row += row_stride) {
      folded[i] = lanes_of_block<K>(row, n).fold_parts();
    }
    store(values + r, Folded::template fold<kWidth, 0>(folded));
  }
  return r;
}

template <class K>
void rows(const void* in, int64_t count, int64_t row_stride, int64_t n, void* out) {
  using S = typename K::S;
  constexpr bool kBytes = std::is_same_v<K, Kind<S, uint64_t, Same, Add>> && sizeof(S) == 1;
  const auto* row = static_cast<const char*>(in);
  auto* values = static_cast<typename K::T*>(out);
  int64_t r = 0;
  if constexpr (kFoldsTogether<K>) {
    if (n <= kFoldedTogether) r = rows_together<K>(row, count, row_stride, n, values);
    row += r * row_stride;
  }
  for (; r < count; ++r, row += row_stride) {
    if constexpr (kBytes) {
      values[r] = sum_of_bytes<S>(row, n);
    } else {
      values[r] = reduce_row<K>(row, n);
    }
  }
}

template <class K>
void row(const void* in, int64_t n, void* out) {
  rows<K>(in, 1, 0, n, out);
}

// ---- columns

// n rows of Count neighbouring vectors of N lanes, with the running values in registers.
template <class K, int N, int Count>
TINYT_INLINE void accumulate_group(const char* in, int64_t n, int64_t row_stride, char* acc) {
  using V = typename LanesOf<typename K::T, N>::type;
  V found[Count];
  __builtin_memcpy(found, acc, sizeof found);
  for (int64_t k = 0; k < n; ++k) {
    const char* p = in + k * row_stride;
    for (int i = 0; i < Count; ++i) {
      found[i] = K::Op::apply(found[i], K::template term<N>(p + i * N * K::kItem));
    }
  }
  __builtin_memcpy(acc, found, sizeof found);
}

template <class K, int N, int Count>
TINYT_INLINE void accumulate_next(const char*& in, int64_t n, int64_t row_stride, char*& acc) {
  accumulate_group<K, N, Count>(in, n, row_stride, acc);
  in += Count * N * K::kItem;
  acc += Count * N * sizeof(typename K::T);
}

// Fewer columns than 2 * Width, by vectors of Width, Width / 2, ..., 1.
template <class K, int Width>
TINYT_INLINE void accumulate_rest(const char* in, int64_t n, int64_t cols, int64_t row_stride,
                                  char* acc) {
  if (cols & Width) accumulate_next<K, Width, 1>(in, n, row_stride, acc);
  if constexpr (Width > 1) accumulate_rest<K, Width / 2>(in, n, cols, row_stride, acc);
}

template <class K>
void accumulate(const void* rows, int64_t n, int64_t cols, int64_t row_stride, void* values) {
  constexpr int kWidth = kRegister<typename K::T>;
  const auto* in = static_cast<const char*>(rows);
  auto* acc = static_cast<char*>(values);
  // Whole groups of 8 registers, then at most one of 4 and one of 2.
  for (; cols >= 8 * kWidth; cols -= 8 * kWidth) {
    accumulate_next<K, kWidth, 8>(in, n, row_stride, acc);
  }
  if (cols & 4 * kWidth) accumulate_next<K, kWidth, 4>(in, n, row_stride, acc);
  if (cols & 2 * kWidth) accumulate_next<K, kWidth, 2>(in, n, row_stride, acc);
  accumulate_rest<K, kWidth>(in, n, cols, row_stride, acc);
}

// ---- columns whose elements are dense

template <class K>
TINYT_INLINE void accumulate_one(const char* in, int64_t n, typename K::T* acc) {
  typename K::T found = *acc;
  for (int64_t k = 0; k < n; ++k)
    found = K::Op::apply(found, K::template term<1>(in + k * K::kItem));
  *acc = found;
}

// Squares are turned over in registers, so that columns become lanes.
template <class K>
void accumulate_dense(const void* columns, int64_t n, int64_t cols, int64_t col_stride,
                      void* values) {
  using T = typename K::T;
  constexpr int kWidth = kRegister<T>;
  using V = Vec<T, kWidth>;
  using Bits = Vec<typename RawOf<sizeof(T)>::type, kWidth>;
  const auto* in = static_cast<const char*>(columns);
  auto* acc = static_cast<T*>(values);
  const int64_t rest = n % kWidth, whole = n - rest;
  for (; cols >= kWidth; cols -= kWidth, in += kWidth * col_stride, acc += kWidth) {
    V found;
    __builtin_memcpy(&found, acc, sizeof found);
    for (int64_t k = 0; k < whole; k += kWidth) {
      Bits square[kWidth];
#pragma GCC unroll 16
      for (int i = 0; i < kWidth; ++i) {
        square[i] = bit_cast<Bits>(K::template term<kWidth>(in + i * col_stride + k * K::kItem));
      }
      transpose(square);
#pragma GCC unroll 16
      for (int i = 0; i < kWidth; ++i) found = K::Op::apply(found, bit_cast<V>(square[i]));
    }
    __builtin_memcpy(acc, &found, sizeof found);
    for (int i = 0; i < kWidth; ++i) {
      accumulate_one<K>(in + i * col_stride + whole * K::kItem, rest, acc + i);
    }
  }
  for (; cols > 0; --cols, in += col_stride) accumulate_one<K>(in, n, acc++);
}

// ---- blocks of rows

inline constexpr int64_t kStripBytes = 2048;

// The tree over blocks of rows, for one strip of columns.
template <class K>
void reduce_strip(const char* in, int64_t n, int64_t cols, int64_t row_stride, typename K::T* out) {
  using T = typename K::T;
  constexpr int64_t kBlock = kBlockLength<typename K::Op>;
  if (n <= kBlock) {
    for (int64_t c = 0; c < cols; ++c) out[c] = K::Op::template kIdentity<T>;
    accumulate<K>(in, n, cols, row_stride, out);
    return;
  }
  const int64_t left = kBlock * left_blocks((n + kBlock - 1) / kBlock);
  T right[kStripBytes / sizeof(T)];
  reduce_strip<K>(in, left, cols, row_stride, out);
  reduce_strip<K>(in + left * row_stride, n - left, cols, row_stride, right);
  accumulate<typename K::Found>(right, 1, cols, 0, out);
}

template <class K>
void columns(const void* in, int64_t n, int64_t cols, int64_t row_stride, void* out) {
  using T = typename K::T;
  constexpr auto kStrip = static_cast<int64_t>(kStripBytes / sizeof(T));
  for (int64_t c = 0; c < cols; c += kStrip) {
    const int64_t count = cols - c < kStrip ? cols - c : kStrip;
    reduce_strip<K>(static_cast<const char*>(in) + c * K::kItem, n, count, row_stride,
                    static_cast<T*>(out) + c);
  }
}

// ---- positions

// Whether lanes displace the best so far. The first NaN stays.
template <class Op, class V>
TINYT_INLINE Mask<V> displaces(V x, V best) {
  return ~no_better<Op>(x, best) & (best == best);
}

// The best value of each lane and where it stood, as the position of its group of kReduceLanes.
template <class T, class Op>
struct BestLanes {
  using Position = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Values = Lanes<T, Op>;
  using Places = Lanes<Position, Smaller>;
  static constexpr int kWidth = Values::kWidth, kParts = Values::kParts;

  Values best;
  Places group;

  // All lanes have the first element, at position 0.
  TINYT_INLINE explicit BestLanes(T first) {
    for (int i = 0; i < kParts; ++i) {
      best.part[i] = typename Values::V{} + first;
      group.part[i] = typename Places::V{} - lane(i);
    }
  }
  TINYT_INLINE void add(int i, typename Values::V x, Position k) {
    const auto better = displaces<Op>(x, best.part[i]);
    best.part[i] = better ? x : best.part[i];
    group.part[i] = better ? typename Places::V{} + k : group.part[i];
  }
  // The best value and the first position that has it.
  TINYT_INLINE T fold(int64_t& position) {
    Values values = best;
    const T found = values.fold();
    const auto wanted = typename Values::V{} + found;
    for (int i = 0; i < kParts; ++i) {
      const auto& v = best.part[i];
      const auto hit = found == found ? v == wanted : v != v;
      const auto none = typename Places::V{} + kHighest<Position>;
      group.part[i] = hit ? group.part[i] + lane(i) : none;
    }
    position = group.fold();
    return found;
  }

 private:
  static TINYT_INLINE typename Places::V lane(int part) {
    return iota<Position, kWidth>() + part * kWidth;
  }
};

// The last, incomplete group, part by part, as add_rest in reduce_ops.h.
template <int Part, class B, class T>
TINYT_INLINE void add_rest_at(B& best, const T* in, int64_t n, typename B::Position k) {
  constexpr int kWidth = B::kWidth;
  const int64_t first = k + Part * kWidth, left = n - first;
  if (left <= 0) return;
  const auto count = static_cast<typename B::Position>(left < kWidth ? left : kWidth);
  const Vec<T> x = load_part<T>(in + first, count);
  const auto there = iota<typename B::Position, kWidth>() < count;
  best.add(Part, there ? x : best.best.part[Part], k);
  if constexpr (Part + 1 < B::kParts) add_rest_at<Part + 1>(best, in, n, k);
}

// Of n elements, 0 < n <= kRowBlock.
template <class T, class Op>
TINYT_INLINE T best_of_block(const T* in, int64_t n, int64_t& position) {
  using Best = BestLanes<T, Op>;
  Best best(load_lanes<T, T, 1>(in));
  typename Best::Position k = 0;
  for (; k + kReduceLanes <= n; k += kReduceLanes) {
    for (int i = 0; i < Best::kParts; ++i) best.add(i, load<T>(in + k + i * Best::kWidth), k);
  }
  add_rest_at<0>(best, in, n, k);
  return best.fold(position);
}

template <class T, class Op>
int64_t arg(const void* data, int64_t n) {
  const auto* in = static_cast<const T*>(data);
  int64_t at = 0;
  T best = best_of_block<T, Op>(in, n < kRowBlock ? n : kRowBlock, at);
  for (int64_t first = kRowBlock; first < n; first += kRowBlock) {
    int64_t position = 0;
    const int64_t length = n - first < kRowBlock ? n - first : kRowBlock;
    const T value = best_of_block<T, Op>(in + first, length, position);
    if (best == best && !no_better<Op>(value, best)) {
      best = value;
      at = first + position;
    }
  }
  return at;
}

// Count neighbouring registers of columns, of which the last one has `last`.
template <class T, class Op, int Count>
TINYT_INLINE void arg_group(const char* in, int64_t n, int64_t row_stride, int64_t last, T* values,
                            int64_t* positions) {
  using V = Vec<T>;
  constexpr int kWidth = kLanes<V>;
  const auto at = [&](int64_t k, int i) {
    const char* p = in + k * row_stride + i * static_cast<int64_t>(sizeof(V));
    return Count == 1 && last < kWidth ? load_part<T>(p, last) : load<T>(p);
  };
  V best[Count];
  Mask<V> place[Count] = {};
  for (int i = 0; i < Count; ++i) best[i] = at(0, i);
  for (int64_t k = 1; k < n; ++k) {
    const Mask<V> here = splat(static_cast<Element<Mask<V>>>(k));
    for (int i = 0; i < Count; ++i) {
      const V x = at(k, i);
      const Mask<V> better = displaces<Op>(x, best[i]);
      best[i] = better ? x : best[i];
      place[i] = better ? here : place[i];
    }
  }
  for (int i = 0; i < Count; ++i) {
    const int64_t used = i + 1 < Count ? kWidth : last;
    store_part(values + i * kWidth, best[i], used);
    for (int64_t c = 0; c < used; ++c) positions[i * kWidth + c] = place[i][c];
  }
}

template <class T, class Op>
void arg_columns(const void* data, int64_t n, int64_t cols, int64_t row_stride, void* values,
                 int64_t* positions) {
  constexpr int64_t kWidth = kLanes<Vec<T>>, kGroup = 4;
  const auto* in = static_cast<const char*>(data);
  auto* best = static_cast<T*>(values);
  int64_t c = 0;
  for (; c + kGroup * kWidth <= cols; c += kGroup * kWidth) {
    arg_group<T, Op, kGroup>(in + c * sizeof(T), n, row_stride, kWidth, best + c, positions + c);
  }
  for (; c < cols; c += kWidth) {
    const int64_t last = cols - c < kWidth ? cols - c : kWidth;
    arg_group<T, Op, 1>(in + c * sizeof(T), n, row_stride, last, best + c, positions + c);
  }
}

// ---- the table

struct Builder {
  ReduceTable table{};

  template <class S, class T, class Map, class Op>
  constexpr void put(Reduction reduction, DType dtype) {
    using K = Kind<S, T, Map, Op>;
    const int r = static_cast<int>(reduction), t = static_cast<int>(dtype);
    table.rows[r][t] = rows<K>;
    table.row[r][t] = row<K>;
    table.columns[r][t] = columns<K>;
    table.accumulate[r][t] = accumulate<K>;
    if constexpr (sizeof(T) >= 4) table.accumulate_dense[r][t] = accumulate_dense<K>;
  }

  template <class S, class T>
  constexpr void put_floats(DType dtype) {
    put<S, T, Same, Add>(Reduction::Sum, dtype);
    put<S, T, Same, Larger>(Reduction::Max, dtype);
    put<S, T, Same, Smaller>(Reduction::Min, dtype);
    put<S, T, Number, Add>(Reduction::NumberSum, dtype);
    put<S, T, Magnitude, Add>(Reduction::AbsSum, dtype);
    put<S, T, Square, Add>(Reduction::SquareSum, dtype);
    put<S, T, Magnitude, Larger>(Reduction::AbsMax, dtype);
    put<S, T, Magnitude, Smaller>(Reduction::AbsMin, dtype);
  }

  template <class Arithmetic, class Compared>
  constexpr void put_compute(DType dtype) {
    const int t = static_cast<int>(dtype);
    put<Arithmetic, Arithmetic, Same, Add>(Reduction::Sum, dtype);
    put<Arithmetic, Arithmetic, Same, Multiply>(Reduction::Prod, dtype);
    put<Compared, Compared, Same, Larger>(Reduction::Max, dtype);
    put<Compared, Compared, Same, Smaller>(Reduction::Min, dtype);
    table.argmax[t] = arg<Compared, Larger>;
    table.argmin[t] = arg<Compared, Smaller>;
    table.argmax_columns[t] = arg_columns<Compared, Larger>;
    table.argmin_columns[t] = arg_columns<Compared, Smaller>;
  }
};

constexpr ReduceTable build() {
  Builder b;
  b.put_compute<float, float>(DType::Float32);
  b.put_compute<double, double>(DType::Float64);
  b.put_compute<uint64_t, int64_t>(DType::Int64);
  b.put_floats<float, float>(DType::Float32);
  b.put_floats<double, double>(DType::Float64);
  b.put_floats<BFloat16, float>(DType::BFloat16);
  b.put_floats<Half, float>(DType::Float16);
  b.put<BoolByte, uint8_t, Same, Larger>(Reduction::Max, DType::Bool);
  b.put<BoolByte, uint8_t, Same, Smaller>(Reduction::Min, DType::Bool);
  b.put<BoolByte, uint64_t, Same, Add>(Reduction::Sum, DType::Bool);
  b.put<uint8_t, uint64_t, Same, Add>(Reduction::Sum, DType::UInt8);
  b.put<int32_t, uint64_t, Same, Add>(Reduction::Sum, DType::Int32);
  return b.table;
}

}  // namespace

extern "C" constexpr ReduceTable TINYT_TABLE(reduce) = build();

}  // namespace tinyt::cpu
