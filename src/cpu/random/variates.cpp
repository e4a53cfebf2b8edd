#include "cpu/random/variates.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// The parameters in float64, one after another, and where the draws begin.
struct Variate {
  Tensor in[2];
  const Tensor& out;
  const VariateTable& table = *kernels().variates;
  uint64_t seed, offset;

  explicit Variate(const KernelCall& call) : out(call.outputs[0]) {
    for (size_t i = 0; i < call.inputs.size(); ++i)
      in[i] = dense_as(call.inputs[i], DType::Float64);
    AttrReader attrs(call.attrs);
    seed = static_cast<uint64_t>(attrs.integer());
    offset = static_cast<uint64_t>(attrs.integer());
  }

  const double* parameter(int i, int64_t at) const { return in[i].ptr<const double>() + at; }
  void store(const double* values, int64_t at, int64_t n) const {
    cast_elements(reinterpret_cast<const char*>(values), DType::Float64,
                  out.host_data() + at * static_cast<int64_t>(out.itemsize()), out.dtype(), n);
  }

  // draw(first, n, tile) fills a tile of elements, which are then converted.
  template <class F>
  void fill(F&& draw) const {
    parallel_ranges(out.numel(), kDrawChunk, [&](int64_t begin, int64_t end) {
      alignas(64) double tile[kTileElements];
      for (int64_t i = begin; i < end; i += kTileElements) {
        const int64_t n = std::min<int64_t>(kTileElements, end - i);
        draw(i, n, tile);
        store(tile, i, n);
      }
    });
  }
};

// Rows longer than a tile need memory of their own.
Dims rows_of_dirichlet(const Tensor& out) { return {2, out.numel()}; }

}  // namespace

int64_t workspace_variates(const KernelCall& call) {
  int64_t bytes = 0;
  for (const Tensor& x : call.inputs) bytes += dense_bytes(x, DType::Float64);
  if (call.op != OpId::dirichlet) return bytes;
  return bytes + numel_of(rows_of_dirichlet(call.outputs[0])) * int64_t{sizeof(double)};
}

void kernel_standard_gamma(const KernelCall& call) {
  const Variate v(call);
  v.fill([&](int64_t at, int64_t n, double* tile) {
    alignas(64) double boost[kTileElements];
    v.table.gamma(v.seed, v.offset, at, n, v.parameter(0, at), tile, boost);
    v.table.gamma_value(n, tile, boost, tile);
  });
}

void kernel_dirichlet(const KernelCall& call) {
  const Variate v(call);
  const int64_t n = v.out.shape().back();
  if (v.out.numel() == 0) return;
  const int64_t rows = v.out.numel() / n, chunk = std::max<int64_t>(1, kDrawChunk / n);
  const Tensor work = Tensor::empty(rows_of_dirichlet(v.out), DType::Float64);
  double *value = work.ptr<double>(), *boost = value + v.out.numel();
  parallel_ranges(rows, chunk, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = row * n;
      v.table.gamma(v.seed, v.offset, at, n, v.parameter(0, at), value + at, boost + at);
      v.table.dirichlet_row(n, value + at, boost + at, boost + at);
      v.store(boost + at, at, n);
    }
  });
}

void kernel_poisson(const KernelCall& call) {
  const Variate v(call);
  v.fill([&](int64_t at, int64_t n, double* tile) {
    v.table.poisson(v.seed, v.offset, at, n, v.parameter(0, at), tile);
  });
}

void kernel_binomial(const KernelCall& call) {
  const Variate v(call);
  v.fill([&](int64_t at, int64_t n, double* tile) {
    v.table.binomial(v.seed, v.offset, at, n, v.parameter(0, at), v.parameter(1, at), tile);
  });
}

void kernel_von_mises(const KernelCall& call) {
  const Variate v(call);
  v.fill([&](int64_t at, int64_t n, double* tile) {
    v.table.von_mises(v.seed, v.offset, at, n, v.parameter(0, at), tile);
  });
}

}  // namespace tinyt::cpu
