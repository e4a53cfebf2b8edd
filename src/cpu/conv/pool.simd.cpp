// The largest elements of windows next to each other, a register of windows at a time.
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

template <class T>
constexpr int kWidth = static_cast<int>(TINYT_VECTOR_BYTES / sizeof(T));
constexpr int64_t kFew = 3;  // windows that do not pay for a register

// A NaN beats everything before it; of equal values the first stays.
template <class T>
void scan_window(const PoolRow& p, int64_t window, T* value, int64_t* index) {
  const auto* in = static_cast<const T*>(p.in);
  const int64_t first = p.start + window * p.step;
  T best = in[first];
  int64_t at = first;
  for (int64_t z = 0; z < p.taps[0]; ++z) {
    for (int64_t y = 0; y < p.taps[1]; ++y) {
      const int64_t line = first + z * p.tap_step[0] + y * p.tap_step[1];
      for (int64_t x = 0; x < p.taps[2]; ++x) {
        const int64_t i = line + x * p.tap_step[2];
        if (in[i] > best || in[i] != in[i]) {
          best = in[i];
          at = i;
        }
      }
    }
  }
  *value = best;
  *index = at;
}

// Elements 0, step, 2 step, ... for n lanes. Nothing beyond the last one is read, but `more` says
// that others follow it.
template <class T>
TINYT_INLINE Vec<T> load_every(const T* from, int64_t step, int64_t n, bool more) {
  constexpr int kL = kWidth<T>;
  if (step == 1) return n == kL ? load<T>(from) : load_part<T>(from, n);
  if (step == 2) {
    Mask<Vec<T>> even;
    for (int i = 0; i < kL; ++i) even[i] = 2 * i;
    const int64_t reach = 2 * n - 1;
    const Vec<T> low = reach >= kL ? load<T>(from) : load_part<T>(from, reach);
    Vec<T> high = {};
    if (more) {
      high = load<T>(from + kL);
    } else if (reach > kL) {
      high = load_part<T>(from + kL, reach - kL);
    }
    return pick(low, high, even);
  }
  T value[kL] = {};
  for (int64_t i = 0; i < n; ++i) value[i] = from[i * step];
  return load<T>(value);
}

// Windows [window, window + n), n <= kWidth. Positions are counted from the first one's start.
template <class T>
void scan_windows(const PoolRow& p, int64_t window, int64_t n, T* value, int64_t* index) {
  using Int = Element<Mask<Vec<T>>>;
  constexpr int kL = kWidth<T>;
  const int64_t start = p.start + window * p.step;
  const T* in = static_cast<const T*>(p.in) + start;
  const bool more = n == kL && window + n < p.n;
  Vec<T> best = load_every(in, p.step, n, more);
  Vec<Int> at = {};
  for (int64_t z = 0; z < p.taps[0]; ++z) {
    for (int64_t y = 0; y < p.taps[1]; ++y) {
      for (int64_t x = 0; x < p.taps[2]; ++x) {
        const int64_t tap = z * p.tap_step[0] + y * p.tap_step[1] + x * p.tap_step[2];
        const Vec<T> v = load_every(in + tap, p.step, n, more);
        const auto better = (v > best) | (v != v);
        best = select(better, v, best);
        at = select(better, Vec<Int>{} + static_cast<Int>(tap), at);
      }
    }
  }
  Int tap[kL];
  store(tap, at);
  store_part(value, best, n);
  for (int64_t i = 0; i < n; ++i) index[i] = start + i * p.step + tap[i];
}

template <class T>
void row(const PoolRow& p) {
  auto* value = static_cast<T*>(p.value);
  int64_t i = 0, reach = 0;
  for (int d = 0; d < 3; ++d) reach += (p.taps[d] - 1) * p.tap_step[d];
  const bool fits = sizeof(T) == 8 || reach <= INT32_MAX;
  while (fits && p.n - i > kFew) {
    // More than kFew are left: whole registers only, where a register holds no more than these.
    const bool whole = kWidth<T> <= kFew + 1 || p.n - i >= kWidth<T>;
    const int64_t n = whole ? kWidth<T> : p.n - i;
    scan_windows(p, i, n, value + i, p.index + i);
    i += n;
  }
  for (; i < p.n; ++i) scan_window(p, i, value + i, p.index + i);
}

}  // namespace

extern "C" const PoolTable TINYT_TABLE(pool);
const PoolTable TINYT_TABLE(pool) = {
    {{}, {}, {}, {}, {}, row<int64_t>, {}, {}, row<float>, row<double>, {}, {}},
};

}  // namespace tinyt::cpu
