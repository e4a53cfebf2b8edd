// Sums of shifted lines, and products of a line with shifted ones.
#include "lanes.h"
#include "levels.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

// Unsigned, because integers wrap.
TINYT_INLINE U64 fma(U64 a, U64 b, U64 c) { return a * b + c; }
TINYT_INLINE U64 broadcast(uint64_t x) { return U64{} + x; }
TINYT_INLINE F32 broadcast(float x) { return splat(x); }
TINYT_INLINE F64 broadcast(double x) { return splat(x); }

// The first n lanes, zeros in the others.
template <class T>
TINYT_INLINE Vec<T> load_first(const T* p, int64_t n) {
  if constexpr (sizeof(T) == 8 && T(0.5) == 0) {
    return (Vec<T>)load_part<int64_t>(p, n);
  } else {
    return load_part<T>(p, n);
  }
}
TINYT_INLINE void store_first(double* p, F64 v, int64_t n) { store_part(p, v, n); }
TINYT_INLINE void store_first(float* p, F32 v, int64_t n) { store_part(p, v, n); }
TINYT_INLINE void store_first(uint64_t* p, U64 v, int64_t n) { store_part(p, (I64)v, n); }

template <class T, int Count>
TINYT_INLINE void correlate_vectors(const T* in, const int64_t* offset, const T* weight,
                                    int64_t taps, T* out) {
  Vec<T> sum[Count];
#pragma GCC unroll 8
  for (int v = 0; v < Count; ++v) sum[v] = Vec<T>{};
  for (int64_t t = 0; t < taps; ++t) {
    const Vec<T> w = broadcast(weight[t]);
    const T* from = in + offset[t];
#pragma GCC unroll 8
    for (int v = 0; v < Count; ++v) sum[v] = fma(w, load<T>(from + v * kRegister<T>), sum[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < Count; ++v) store(out + v * kRegister<T>, sum[v]);
}

template <class T>
void correlate(const void* lines, const int64_t* offset, const void* weights, int64_t taps,
               int64_t n, void* result) {
  constexpr int64_t kLanesOfT = kRegister<T>;
  const auto* in = static_cast<const T*>(lines);
  const auto* weight = static_cast<const T*>(weights);
  auto* out = static_cast<T*>(result);
  int64_t i = 0;
  for (; i + 8 * kLanesOfT <= n; i += 8 * kLanesOfT) {
    correlate_vectors<T, 8>(in + i, offset, weight, taps, out + i);
  }
  if (i + 4 * kLanesOfT <= n) {
    correlate_vectors<T, 4>(in + i, offset, weight, taps, out + i);
    i += 4 * kLanesOfT;
  }
  if (i + 2 * kLanesOfT <= n) {
    correlate_vectors<T, 2>(in + i, offset, weight, taps, out + i);
    i += 2 * kLanesOfT;
  }
  if (i + kLanesOfT <= n) {
    correlate_vectors<T, 1>(in + i, offset, weight, taps, out + i);
    i += kLanesOfT;
  }
  if (i == n) return;
  Vec<T> sum = {};
  for (int64_t t = 0; t < taps; ++t) {
    sum = fma(broadcast(weight[t]), load_first(in + offset[t] + i, n - i), sum);
  }
  store_first(out + i, sum, n - i);
}

// Lanes combine in halves.
template <class T>
TINYT_INLINE T add_lanes(Vec<T> v) {
  T lane[kRegister<T>];
  __builtin_memcpy(lane, &v, sizeof v);
  for (int step = kRegister<T> / 2; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lane[i] += lane[i + step];
  }
  return lane[0];
}

template <class T, int Count>
TINYT_INLINE void dot_taps(const T* a, const T* b, const int64_t* offset, int64_t n, T* out) {
  Vec<T> sum[Count];
#pragma GCC unroll 8
  for (int t = 0; t < Count; ++t) sum[t] = Vec<T>{};
  int64_t i = 0;
  for (; i + kRegister<T> <= n; i += kRegister<T>) {
    const Vec<T> x = load<T>(a + i);
#pragma GCC unroll 8
    for (int t = 0; t < Count; ++t) sum[t] = fma(x, load<T>(b + offset[t] + i), sum[t]);
  }
  if (i < n) {
    const Vec<T> x = load_first(a + i, n - i);
    for (int t = 0; t < Count; ++t) {
      sum[t] = fma(x, load_first(b + offset[t] + i, n - i), sum[t]);
    }
  }
  for (int t = 0; t < Count; ++t) out[t] += add_lanes<T>(sum[t]);
}

template <class T>
void dots(const void* line, const void* lines, const int64_t* offset, int64_t taps, int64_t n,
          void* sums) {
  const auto* a = static_cast<const T*>(line);
  const auto* b = static_cast<const T*>(lines);
  auto* out = static_cast<T*>(sums);
  for (; taps >= 8; taps -= 8, offset += 8, out += 8) dot_taps<T, 8>(a, b, offset, n, out);
  for (; taps >= 3; taps -= 3, offset += 3, out += 3) dot_taps<T, 3>(a, b, offset, n, out);
  for (; taps > 0; --taps, ++offset, ++out) dot_taps<T, 1>(a, b, offset, n, out);
}

}  // namespace

extern "C" const DirectTable TINYT_TABLE(direct);
const DirectTable TINYT_TABLE(direct) = {
    TINYT_BY_DTYPE(correlate),
    TINYT_BY_DTYPE(dots),
};

}  // namespace tinyt::cpu
