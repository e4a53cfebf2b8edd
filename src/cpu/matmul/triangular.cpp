#include "cpu/matmul/triangular.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/parallel.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/machine_model.h"

namespace tinyt::cpu {
namespace {

// The upper factor U = Lᵀ in the rows of u, which hold the matrix' upper triangle before: row k is
// done when the rows above have been taken off it. Returns the order of the first minor that is not
// positive, or 0.
template <class T>
int64_t factor(T* u, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    T* row = u + k * n;
    if (!(row[k] > 0) || !std::isfinite(row[k])) return k + 1;
    const T root = std::sqrt(row[k]);
    for (int64_t j = k; j < n; ++j) row[j] = j == k ? root : row[j] / root;
    for (int64_t i = k + 1; i < n; ++i) {
      const T scale = row[i];
      T* below = u + i * n;
      for (int64_t j = i; j < n; ++j) below[j] -= scale * row[j];
    }
  }
  return 0;
}

template <class T>
void cholesky(const Tensor& in, const Tensor& out, const Tensor& info) {
  const int64_t n = in.shape().back(), size = n * n;
  if (info.numel() == 0) return;
  const Tensor work = Tensor::empty(out.shape(), out.dtype());
  parallel_ranges(info.numel(), std::max<int64_t>(1, kChunkElements / (1 + size * n)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t b = begin; b < end; ++b) {
                      const T* a = in.ptr<const T>() + b * size;
                      T *u = work.ptr<T>() + b * size, *l = out.ptr<T>() + b * size;
                      for (int64_t i = 0; i < n; ++i)
                        for (int64_t j = i; j < n; ++j) u[i * n + j] = a[j * n + i];
                      const int64_t order = factor(u, n);
                      info.ptr<int32_t>()[b] = static_cast<int32_t>(order);
                      for (int64_t i = 0; i < n; ++i)
                        for (int64_t j = 0; j < n; ++j)
                          l[i * n + j] = order    ? std::numeric_limits<T>::quiet_NaN()
                                         : j <= i ? u[j * n + i]
                                                  : T{};
                    }
                  });
}

// Columns [first, last) of X, row after row.
template <class T>
void substitute(const T* a, T* x, int64_t n, int64_t columns, int64_t first, int64_t last,
                bool upper, bool unit) {
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper ? n - 1 - step : step;
    const T* row = a + i * n;
    T* mine = x + i * columns;
    for (int64_t k = 0; k < step; ++k) {
      const int64_t j = upper ? n - 1 - k : k;
      const T scale = row[j];
      const T* other = x + j * columns;
      for (int64_t c = first; c < last; ++c) mine[c] -= scale * other[c];
    }
    if (unit) continue;
    for (int64_t c = first; c < last; ++c) mine[c] /= row[i];
  }
}

template <class T>
void solve(const Tensor& a, const Tensor& out, bool upper, bool unit) {
  const int64_t n = a.shape().back(), columns = out.shape().back();
  if (out.numel() == 0) return;
  // Columns do not depend on each other: those of a matrix in parts.
  constexpr int64_t kPart = 64;
  const int64_t parts = (columns + kPart - 1) / kPart, batch = out.numel() / (n * columns);
  const int64_t chunk =
      std::max<int64_t>(1, kChunkElements / (1 + n * n * std::min(columns, kPart)));
  parallel_ranges(batch * parts, chunk, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t b = k / parts, first = k % parts * kPart;
      substitute(a.ptr<const T>() + b * n * n, out.ptr<T>() + b * n * columns, n, columns, first,
                 std::min(columns, first + kPart), upper, unit);
    }
  });
}

}  // namespace

void kernel_cholesky(const KernelCall& call) {
  const Tensor in = as_contiguous(call.inputs[0]);
  const auto run = in.dtype() == DType::Float32 ? cholesky<float> : cholesky<double>;
  run(in, call.outputs[0], call.outputs[1]);
}

void kernel_solve_triangular(const KernelCall& call) {
  const Tensor a = dense_as(call.inputs[0], call.compute);
  const Tensor& out = call.outputs[0];
  copy_into(call.inputs[1], out);
  AttrReader attrs(call.attrs);
  const bool upper = attrs.flag(), unit = attrs.flag();
  const auto run = call.compute == DType::Float32 ? solve<float> : solve<double>;
  run(a, out, upper, unit);
}

// A dense matrix, and the upper factor.
int64_t workspace_cholesky(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const bool empty = call.outputs[1].numel() == 0;
  return dense_bytes(call.inputs[0]) +
         (empty ? 0 : out.numel() * static_cast<int64_t>(out.itemsize()));
}

int64_t workspace_solve_triangular(const KernelCall& call) {
  return dense_bytes(call.inputs[0], call.compute);
}

}  // namespace tinyt::cpu
