// Reductions of contiguous rows and columns, in the fixed order that levels.h states.
#include "lanes.h"
#include "levels.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

template <class T, class Op>
void row(const void* in, int64_t n, void* out) {
  const T value = reduce_row<T, Op>(static_cast<const T*>(in), n);
  __builtin_memcpy(out, &value, sizeof value);
}

// n rows of Count neighbouring vectors, with the running values in registers.
template <class Op, class V, int Count>
TINYT_INLINE void accumulate_group(const char* in, int64_t n, int64_t row_stride, char* acc) {
  V sum[Count];
  __builtin_memcpy(sum, acc, sizeof sum);
  for (int64_t k = 0; k < n; ++k) {
    const char* p = in + k * row_stride;
    for (int i = 0; i < Count; ++i) {
      V v;
      __builtin_memcpy(&v, p + i * sizeof v, sizeof v);
      sum[i] = Op::apply(sum[i], v);
    }
  }
  __builtin_memcpy(acc, sum, sizeof sum);
}

// Fewer columns than 2 * Width, by vectors of Width, Width / 2, ..., 1.
template <class T, class Op, int Width>
TINYT_INLINE void accumulate_rest(const char* in, int64_t n, int64_t cols, int64_t row_stride,
                                  char* acc) {
  if (cols & Width) {
    if constexpr (Width == 1) {
      accumulate_group<Op, T, 1>(in, n, row_stride, acc);
    } else {
      accumulate_group<Op, Vec<T, Width>, 1>(in, n, row_stride, acc);
    }
    in += Width * sizeof(T);
    acc += Width * sizeof(T);
  }
  if constexpr (Width > 1) accumulate_rest<T, Op, Width / 2>(in, n, cols, row_stride, acc);
}

template <class T, class Op>
void accumulate(const void* rows, int64_t n, int64_t cols, int64_t row_stride, void* values) {
  constexpr int kWidth = kRegister<T>;
  const auto* in = static_cast<const char*>(rows);
  auto* acc = static_cast<char*>(values);
  // Whole groups of 8 registers, then at most one of 4 and one of 2.
  while (cols >= 8 * kWidth) {
    accumulate_group<Op, Vec<T>, 8>(in, n, row_stride, acc);
    in += 8 * sizeof(Vec<T>);
    acc += 8 * sizeof(Vec<T>);
    cols -= 8 * kWidth;
  }
  if (cols >= 4 * kWidth) {
    accumulate_group<Op, Vec<T>, 4>(in, n, row_stride, acc);
    in += 4 * sizeof(Vec<T>);
    acc += 4 * sizeof(Vec<T>);
    cols -= 4 * kWidth;
  }
  if (cols >= 2 * kWidth) {
    accumulate_group<Op, Vec<T>, 2>(in, n, row_stride, acc);
    in += 2 * sizeof(Vec<T>);
    acc += 2 * sizeof(Vec<T>);
    cols -= 2 * kWidth;
  }
  accumulate_rest<T, Op, kWidth>(in, n, cols, row_stride, acc);
}

inline constexpr int64_t kStripBytes = 2048;

// The tree over blocks of rows, for one strip of columns.
template <class T, class Op>
void reduce_strip(const char* in, int64_t n, int64_t cols, int64_t row_stride, T* out) {
  if (n <= kColumnBlock) {
    for (int64_t c = 0; c < cols; ++c) out[c] = Op::template kIdentity<T>;
    accumulate<T, Op>(in, n, cols, row_stride, out);
    return;
  }
  const int64_t left = kColumnBlock * left_blocks((n + kColumnBlock - 1) / kColumnBlock);
  T right[kStripBytes / sizeof(T)];
  reduce_strip<T, Op>(in, left, cols, row_stride, out);
  reduce_strip<T, Op>(in + left * row_stride, n - left, cols, row_stride, right);
  accumulate<T, Op>(right, 1, cols, 0, out);
}

template <class T, class Op>
void columns(const void* in, int64_t n, int64_t cols, int64_t row_stride, void* out) {
  constexpr auto kStrip = static_cast<int64_t>(kStripBytes / sizeof(T));
  for (int64_t c = 0; c < cols; c += kStrip) {
    const int64_t count = cols - c < kStrip ? cols - c : kStrip;
    reduce_strip<T, Op>(static_cast<const char*>(in) + c * static_cast<int64_t>(sizeof(T)), n,
                        count, row_stride, static_cast<T*>(out) + c);
  }
}

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
    const T value = reduce_block<T, Op>(in + first, n - first < kRowBlock ? n - first : kRowBlock);
    // Strictly better: neither an equal value nor a second NaN displaces the first.
    if (at < 0 || (best == best && Op::apply(value, best) != best)) {
      best = value;
      at = first;
    }
  }
  return at + find_first(in + at, n - at, best);
}

struct Builder {
  ReduceTable table{};

  template <class T, class Op>
  constexpr void put(Reduction reduction, DType dtype) {
    const int r = static_cast<int>(reduction), t = static_cast<int>(dtype);
    table.row[r][t] = row<T, Op>;
    table.columns[r][t] = columns<T, Op>;
    table.accumulate[r][t] = accumulate<T, Op>;
  }

  template <class Arithmetic, class Compared>
  constexpr void put_all(DType dtype) {
    const int t = static_cast<int>(dtype);
    put<Arithmetic, Add>(Reduction::Sum, dtype);
    put<Arithmetic, Multiply>(Reduction::Prod, dtype);
    put<Compared, Larger>(Reduction::Max, dtype);
    put<Compared, Smaller>(Reduction::Min, dtype);
    table.argmax[t] = arg<Compared, Larger>;
    table.argmin[t] = arg<Compared, Smaller>;
  }
};

constexpr ReduceTable build() {
  Builder b;
  b.put_all<float, float>(DType::Float32);
  b.put_all<double, double>(DType::Float64);
  b.put_all<uint64_t, int64_t>(DType::Int64);
  b.put<uint8_t, Larger>(Reduction::Max, DType::Bool);
  b.put<uint8_t, Smaller>(Reduction::Min, DType::Bool);
  return b.table;
}

}  // namespace

extern "C" constexpr ReduceTable TINYT_TABLE(reduce) = build();

}  // namespace tinyt::cpu
