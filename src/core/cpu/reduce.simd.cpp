// Reductions of contiguous rows and columns, in the fixed order that levels.h states. Elements are
// read as they lie in memory (S), mapped, and combined in T.
#include "kinds.h"
#include "levels.h"

namespace tinyt::cpu {
namespace {

// ---- rows

template <class K>
void rows(const void* in, int64_t count, int64_t row_stride, int64_t n, void* out) {
  using T = typename K::T;
  const auto* row = static_cast<const char*>(in);
  auto* values = static_cast<T*>(out);
  if (n <= kRowBlock) {
    for (int64_t r = 0; r < count; ++r) values[r] = reduce_block<K>(row + r * row_stride, n);
    return;
  }
  for (int64_t r = 0; r < count; ++r, row += row_stride) {
    values[r] = reduce_blocks<T, typename K::Op>(0, n, [row](int64_t first, int64_t length) {
      return reduce_block<K>(row + first * K::kItem, length);
    });
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

inline constexpr int64_t kStripBytes = 2048;

// The tree over blocks of rows, for one strip of columns.
template <class K>
void reduce_strip(const char* in, int64_t n, int64_t cols, int64_t row_stride, typename K::T* out) {
  using T = typename K::T;
  if (n <= kColumnBlock) {
    for (int64_t c = 0; c < cols; ++c) out[c] = K::Op::template kIdentity<T>;
    accumulate<K>(in, n, cols, row_stride, out);
    return;
  }
  const int64_t left = kColumnBlock * left_blocks((n + kColumnBlock - 1) / kColumnBlock);
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

// First k with in[k] equal to `best` (not a number, when `best` is none); there is one.
template <class T>
int64_t find_first(const T* in, int64_t n, T best) {
  const bool nan = best != best;
  const Vec<T> wanted = splat(best);
  int64_t k = 0;
  for (; k + kRegister<T> <= n; k += kRegister<T>) {
    const Vec<T> v = load<T>(in + k);
    if (nan ? any(v != v) : any(v == wanted)) break;
  }
  while (nan ? in[k] == in[k] : in[k] != best) ++k;
  return k;
}

template <class T, class Op>
int64_t arg(const void* data, int64_t n) {
  const auto* in = static_cast<const T*>(data);
  T best = 0;
  int64_t at = -1;
  for (int64_t first = 0; first < n; first += kRowBlock) {
    const int64_t length = n - first < kRowBlock ? n - first : kRowBlock;
    const T value =
        reduce_block<Kind<T, T, Same, Op>>(reinterpret_cast<const char*>(in + first), length);
    // Strictly better: neither an equal value nor a second NaN displaces the first.
    if (at < 0 || (best == best && Op::apply(value, best) != best)) {
      best = value;
      at = first;
    }
  }
  return at + find_first(in + at, n - at, best);
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
  b.put<uint8_t, uint8_t, Same, Larger>(Reduction::Max, DType::Bool);
  b.put<uint8_t, uint8_t, Same, Smaller>(Reduction::Min, DType::Bool);
  b.put<uint8_t, uint64_t, Same, Add>(Reduction::Sum, DType::Bool);
  b.put<uint8_t, uint64_t, Same, Add>(Reduction::Sum, DType::UInt8);
  b.put<int32_t, uint64_t, Same, Add>(Reduction::Sum, DType::Int32);
  return b.table;
}

}  // namespace

extern "C" constexpr ReduceTable TINYT_TABLE(reduce) = build();

}  // namespace tinyt::cpu
