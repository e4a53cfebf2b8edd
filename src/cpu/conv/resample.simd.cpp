// Weighted sums of rows, and of elements picked from one row.
#include "cpu/reduce/lanes.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// The weighted sum of Count rows, added to `out` where there were rows before them.
template <class T, int Count>
void combine_rows(const T* const* rows, const T* weight, int64_t n, bool add, T* out) {
  int64_t i = 0;
  for (; i + kRegister<T> <= n; i += kRegister<T>) {
    Vec<T> sum = load<T>(rows[0] + i) * weight[0];
    if (add) sum = load<T>(out + i) + sum;
#pragma GCC unroll 8
    for (int r = 1; r < Count; ++r) sum += load<T>(rows[r] + i) * weight[r];
    store(out + i, sum);
  }
  for (; i < n; ++i) {
    T sum = rows[0][i] * weight[0];
    if (add) sum = out[i] + sum;
    for (int r = 1; r < Count; ++r) sum += rows[r][i] * weight[r];
    out[i] = sum;
  }
}

template <class T>
void combine(const void* const* rows, const void* weight, int64_t count, int64_t n, void* out) {
  const auto* from = reinterpret_cast<const T* const*>(rows);
  const auto* w = static_cast<const T*>(weight);
  auto* to = static_cast<T*>(out);
  bool add = false;
  for (; count > 0; add = true) {
    if (count >= 4) {
      combine_rows<T, 4>(from, w, n, add, to);
      from += 4, w += 4, count -= 4;
    } else if (count >= 2) {
      combine_rows<T, 2>(from, w, n, add, to);
      from += 2, w += 2, count -= 2;
    } else {
      combine_rows<T, 1>(from, w, n, add, to);
      --count;
    }
  }
}

template <class T, int Taps>
void gather_taps(const T* in, const int32_t* index, const T* weight, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    T sum = weight[i] * in[index[i]];
    for (int k = 1; k < Taps; ++k) sum += weight[k * n + i] * in[index[k * n + i]];
    out[i] = sum;
  }
}

template <class T>
void gather(const void* from, const int32_t* index, const void* weights, int64_t taps, int64_t n,
            void* to) {
  const auto* in = static_cast<const T*>(from);
  const auto* w = static_cast<const T*>(weights);
  auto* out = static_cast<T*>(to);
  switch (taps) {
    case 1:
      return gather_taps<T, 1>(in, index, w, n, out);
    case 2:
      return gather_taps<T, 2>(in, index, w, n, out);
    case 3:
      return gather_taps<T, 3>(in, index, w, n, out);
    case 4:
      return gather_taps<T, 4>(in, index, w, n, out);
    default:
      for (int64_t i = 0; i < n; ++i) {
        T sum = w[i] * in[index[i]];
        for (int64_t k = 1; k < taps; ++k) sum += w[k * n + i] * in[index[k * n + i]];
        out[i] = sum;
      }
  }
}

}  // namespace

extern "C" const ResampleTable TINYT_TABLE(resample);
const ResampleTable TINYT_TABLE(resample) = {
    TINYT_BY_DTYPE(combine),
    TINYT_BY_DTYPE(gather),
};

}  // namespace tinyt::cpu
