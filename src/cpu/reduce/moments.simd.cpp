// The two numbers of a block of elements (moments.h), in two passes over it while it is in cache:
// the first finds a center, the second takes the elements' distances from it.
#include <cmath>
#include <cstring>

#include "cpu/math/math_exp.h"
#include "cpu/norm/row_terms.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// Whether sums of squares in T are what they are in float64: in float32 they neither overflow nor
// lose what lies below the normal numbers. A NaN is looked at again.
template <class T>
TINYT_INLINE bool keeps_range(double squares) {
  return sizeof(T) == 8 || (squares >= 0x1p-90 && squares <= 0x1p127);
}

// The moments of n elements `stride` bytes apart in float64.
template <class S>
TINYT_OUTLINE Moments<double> wide_moments(const char* in, int64_t n, int64_t stride) {
  const auto at = [&](int64_t i) {
    return static_cast<double>(number(*reinterpret_cast<const S*>(in + i * stride)));
  };
  const auto count = static_cast<double>(n);
  const double start = at(0);
  // Equal numbers, which a row of them shows in its bytes at once; infinite ones have no variance.
  bool same = stride == sizeof(S) && std::memcmp(in, in + stride, (n - 1) * sizeof(S)) == 0;
  if (!same) {
    same = true;
    for (int64_t i = 1; i < n && same; ++i) same = at(i) == start;
  }
  if (same && std::isfinite(start)) return {count, start, 0};
  double sum = 0, squares = 0, rest = 0;
  for (int64_t i = 0; i < n; ++i) sum += at(i);
  const double center = sum / count;
  for (int64_t i = 0; i < n; ++i) {
    const double d = at(i) - center;
    squares += d * d;
    rest += d;
  }
  return Moments<double>::about(center, squares, rest, count);
}

// What the second pass adds up, and what becomes of it.
struct Distances {
  using First = Add;
  template <class S, class T>
  static TINYT_INLINE void row(const char* in, int64_t n, double* first, double* second) {
    const Moments<double> found = block_moments<S, T>(in, n);
    if (keeps_range<T>(found.squares)) return write(found, first, second);
    write(wide_moments<S>(in, n, sizeof(S)), first, second);
  }
  template <class V>
  static TINYT_INLINE V center(V sum, V n) {
    return sum / n;
  }
  template <class V>
  static TINYT_INLINE void add(V distance, V& sum, V& rest) {
    sum += distance * distance;
    rest += distance;
  }
  static TINYT_INLINE void store(double, double center, double sum, double rest, int64_t n,
                                 double* first, double* second) {
    write(Moments<double>::about(center, sum, rest, static_cast<double>(n)), first, second);
  }
  // Takes a column that leaves the range of T in float64.
  template <class S, class T>
  static TINYT_INLINE void widen(const char* in, int64_t n, int64_t stride, double* first,
                                 double* second) {
    if (!keeps_range<T>(*second)) write(wide_moments<S>(in, n, stride), first, second);
  }

 private:
  static TINYT_INLINE void write(const Moments<double>& found, double* first, double* second) {
    *first = found.mean;
    *second = found.squares;
  }
};

struct Exponentials {
  using First = Larger;
  template <class S, class T>
  static TINYT_INLINE void row(const char* in, int64_t n, double* first, double* second) {
    const T top = reduce_block<Kind<S, T, Same, Larger>>(in, n);
    const Vec<T> base = splat(center(top, T{}));
    *first = top;
    *second = sum_block<T>(0, n, [in, base](int64_t i, int64_t count) {
      return exp(fetch_as<S, T>(in, i, count) - base);
    });
  }
  // Infinities and NaN need no shift.
  template <class V>
  static TINYT_INLINE V center(V top, V) {
    return top - top == 0 ? top : V{};
  }
  template <class V>
  static TINYT_INLINE void add(V distance, V& sum, V&) {
    sum += exp(distance);
  }
  static TINYT_INLINE void store(double top, double, double sum, double, int64_t, double* first,
                                 double* second) {
    *first = top;
    *second = sum;
  }
  template <class S, class T>
  static TINYT_INLINE void widen(const char*, int64_t, int64_t, double*, double*) {}
};

template <class P, class S, class T>
void row(const void* in, int64_t n, double* first, double* second) {
  P::template row<S, T>(static_cast<const char*>(in), n, first, second);
}

// n rows of Count neighbouring registers, of which the last one has `last` columns.
template <class P, class S, class T, int Count>
TINYT_INLINE void column_group(const char* in, int64_t n, int64_t row_stride, int64_t last,
                               double* first, double* second) {
  using V = Vec<T>;
  constexpr int kWidth = kLanes<V>;
  constexpr T kStart = P::First::template kIdentity<T>;
  const auto at = [&](int64_t k, int i) {
    const char* p = in + k * row_stride + i * kWidth * static_cast<int64_t>(sizeof(S));
    return Count == 1 && last < kWidth ? load_lanes_part<S, T, kWidth>(p, last)
                                       : load_lanes<S, T, kWidth>(p);
  };
  V found[Count], center[Count], sum[Count] = {}, rest[Count] = {};
  for (int i = 0; i < Count; ++i) found[i] = V{} + kStart;
  for (int64_t k = 0; k < n; ++k) {
    for (int i = 0; i < Count; ++i) found[i] = P::First::apply(found[i], at(k, i));
  }
  for (int i = 0; i < Count; ++i) center[i] = P::center(found[i], splat(static_cast<T>(n)));
  for (int64_t k = 0; k < n; ++k) {
    for (int i = 0; i < Count; ++i) P::add(at(k, i) - center[i], sum[i], rest[i]);
  }
  for (int i = 0; i < Count; ++i) {
    const int64_t used = i + 1 < Count ? kWidth : last;
    for (int64_t c = 0; c < used; ++c) {
      const int64_t to = i * kWidth + c;
      P::store(found[i][c], center[i][c], sum[i][c], rest[i][c], n, first + to, second + to);
      P::template widen<S, T>(in + to * static_cast<int64_t>(sizeof(S)), n, row_stride, first + to,
                              second + to);
    }
  }
}

template <class P, class S, class T>
void columns(const void* data, int64_t n, int64_t cols, int64_t row_stride, double* first,
             double* second) {
  constexpr int64_t kWidth = kLanes<Vec<T>>, kGroup = 4;
  const auto* in = static_cast<const char*>(data);
  int64_t c = 0;
  for (; c + kGroup * kWidth <= cols; c += kGroup * kWidth) {
    column_group<P, S, T, kGroup>(in + c * sizeof(S), n, row_stride, kWidth, first + c, second + c);
  }
  for (; c < cols; c += kWidth) {
    const int64_t last = cols - c < kWidth ? cols - c : kWidth;
    column_group<P, S, T, 1>(in + c * sizeof(S), n, row_stride, last, first + c, second + c);
  }
}

struct Builder {
  PairTable table{};

  template <class P, class S, class T>
  constexpr void put(PairReduction reduction, DType dtype) {
    const int r = static_cast<int>(reduction), t = static_cast<int>(dtype);
    table.row[r][t] = row<P, S, T>;
    table.columns[r][t] = columns<P, S, T>;
  }
  template <class S, class T>
  constexpr void put_all(DType dtype) {
    put<Distances, S, T>(PairReduction::Moments, dtype);
    put<Exponentials, S, T>(PairReduction::Exponentials, dtype);
  }
};

constexpr PairTable build() {
  Builder b;
  b.put_all<float, float>(DType::Float32);
  b.put_all<double, double>(DType::Float64);
  b.put_all<BFloat16, float>(DType::BFloat16);
  b.put_all<Half, float>(DType::Float16);
  return b.table;
}

}  // namespace

extern "C" constexpr PairTable TINYT_TABLE(pairs) = build();

}  // namespace tinyt::cpu
