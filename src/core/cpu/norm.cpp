#include "norm.h"

#include <algorithm>
#include <cstring>

#include "../parallel.h"
#include "copy.h"
#include "levels.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kChunk = 16384;         // elements of a unit of parallel work
constexpr int64_t kColumnsOfTask = 1024;  // of the parameters' gradients

// x in the dtype the kernels work in, contiguous.
Tensor dense(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype && x.is_contiguous()) return x;
  Tensor copy = Tensor::empty(x.shape(), dtype, x.device());
  copy_into(x, copy);
  return copy;
}

// A weight or bias; a 0-d tensor stands for none.
Tensor dense_part(const Tensor& x, DType dtype) {
  return x.rank() == 0 ? Tensor() : dense(x, dtype);
}

const void* data_of(const Tensor& x) { return x ? x.data() : nullptr; }

// The rows of one call: the leading dimensions count them, the rest are normalised together.
struct Shape {
  int64_t rows = 1, n = 1;
  DType dtype;
  int64_t size;  // bytes of an element in the kernels

  Shape(const Tensor& x, int64_t dims)
      : dtype(info(x.dtype()).compute), size(static_cast<int64_t>(size_of(dtype))) {
    for (int64_t d = 0; d < x.rank(); ++d) (d < x.rank() - dims ? rows : n) *= x.size(d);
  }
  int64_t row_bytes() const { return n * size; }
  int64_t grain() const { return std::max<int64_t>(1, kChunk / std::max<int64_t>(n, 1)); }
  int index() const { return static_cast<int>(dtype); }
};

// The output itself where the kernels can write to it, else memory to be converted from.
Tensor target(const Tensor& out, DType dtype) {
  return out.dtype() == dtype ? out : Tensor::empty(out.shape(), dtype, out.device());
}

void finish(const Tensor& result, const Tensor& out) {
  if (result.dtype() != out.dtype()) copy_into(result, out);
}

// One block of rows for some columns: dw and db of [begin, end) into `sums`, which start as zeros.
struct ParamsJob {
  const Shape& shape;
  const char *g, *x, *stats;
  char* sums;  // [blocks][2][n]
  void (*kernel)(const NormRow&);

  void run(int64_t block, int64_t begin, int64_t end) const {
    const int64_t size = shape.size;
    char* dw = sums + (2 * block * shape.n + begin) * size;
    char* db = dw + shape.row_bytes();
    const auto bytes = static_cast<size_t>((end - begin) * size);
    std::memset(dw, 0, bytes);
    std::memset(db, 0, bytes);
    const int64_t last = std::min(shape.rows, (block + 1) * kColumnBlock);
    for (int64_t r = block * kColumnBlock; r < last; ++r) {
      const int64_t at = r * shape.row_bytes() + begin * size;
      kernel({.n = end - begin,
              .x = x + at,
              .grad = g + at,
              .stats = const_cast<char*>(stats) + 2 * r * size,
              .out = dw,
              .out_bias = db});
    }
  }
};

template <class T>
void add_rows(T* to, const T* from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// Blocks combine as in a column reduction: neighbours first, an odd one out moves up unchanged.
void combine(const Shape& shape, int64_t blocks, char* sums) {
  const int64_t n = 2 * shape.n, bytes = 2 * shape.row_bytes();
  for (int64_t step = 1; step < blocks; step *= 2) {
    for (int64_t i = 0; i + step < blocks; i += 2 * step) {
      char *to = sums + i * bytes, *from = sums + (i + step) * bytes;
      if (shape.dtype == DType::Float32) {
        add_rows(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(from), n);
      } else {
        add_rows(reinterpret_cast<double*>(to), reinterpret_cast<const double*>(from), n);
      }
    }
  }
}

}  // namespace

void kernel_layer_norm(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Tensor &out = call.outputs[0], &stats = call.outputs[1];
  const Shape shape(out, read.integer());
  const bool center = read.flag();
  const double eps = read.real();
  const Tensor x = dense(call.inputs[0], shape.dtype), y = target(out, shape.dtype);
  const Tensor w = dense_part(call.inputs[1], shape.dtype);
  const Tensor b = dense_part(call.inputs[2], shape.dtype);
  const auto kernel = kernels().norm->forward[shape.index()];
  parallel_ranges(shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernel({.n = shape.n,
              .eps = eps,
              .center = center,
              .x = x.data() + r * shape.row_bytes(),
              .weight = data_of(w),
              .bias = data_of(b),
              .stats = stats.data() + 2 * r * shape.size,
              .out = y.data() + r * shape.row_bytes()});
    }
  });
  finish(y, out);
}

void kernel_layer_norm_input(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Tensor& out = call.outputs[0];
  const Shape shape(out, read.integer());
  const bool center = read.flag();
  const Tensor g = dense(call.inputs[0], shape.dtype), x = dense(call.inputs[1], shape.dtype);
  const Tensor stats = dense(call.inputs[2], shape.dtype), dx = target(out, shape.dtype);
  const Tensor w = dense_part(call.inputs[3], shape.dtype);
  const auto kernel = kernels().norm->input[shape.index()];
  parallel_ranges(shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      kernel({.n = shape.n,
              .center = center,
              .x = x.data() + r * shape.row_bytes(),
              .grad = g.data() + r * shape.row_bytes(),
              .weight = data_of(w),
              .stats = stats.data() + 2 * r * shape.size,
              .out = dx.data() + r * shape.row_bytes()});
    }
  });
  finish(dx, out);
}

void kernel_layer_norm_params(const KernelCall& call) {
  const Tensor &dw = call.outputs[0], &db = call.outputs[1];
  const Shape shape(call.inputs[1], dw.rank());
  if (shape.n == 0) return;
  const Tensor g = dense(call.inputs[0], shape.dtype), x = dense(call.inputs[1], shape.dtype);
  const Tensor stats = dense(call.inputs[2], shape.dtype);
  const int64_t blocks = std::max<int64_t>(1, (shape.rows + kColumnBlock - 1) / kColumnBlock);
  const int64_t parts = (shape.n + kColumnsOfTask - 1) / kColumnsOfTask;
  const Tensor sums = Tensor::empty(Dims{blocks, 2, shape.n}, shape.dtype, dw.device());
  const ParamsJob job{shape,        g.data(),    x.data(),
                      stats.data(), sums.data(), kernels().norm->params[shape.index()]};
  const int64_t work = std::min(shape.n, kColumnsOfTask) * kColumnBlock;
  parallel_ranges(blocks * parts, std::max<int64_t>(1, kChunk / work), [&](int64_t a, int64_t z) {
    for (int64_t task = a; task < z; ++task) {
      const int64_t begin = task % parts * kColumnsOfTask;
      job.run(task / parts, begin, std::min(shape.n, begin + kColumnsOfTask));
    }
  });
  combine(shape, blocks, sums.data());
  for (int i = 0; i < 2; ++i) {
    copy_into(sums.view(dw.shape(), dw.strides(), i * shape.n), i == 0 ? dw : db);
  }
}

}  // namespace tinyt::cpu
