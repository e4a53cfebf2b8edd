#include "cpu/norm/norm.h"

#include "core/base/parallel.h"
#include "cpu/norm/norm_parts.h"
#include "cpu/reduce/reduce.h"

namespace tinyt::cpu {
namespace {

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
  int64_t grain() const { return norm_grain(n); }
  int index() const { return static_cast<int>(dtype); }
};

Tensor part_of(const Tensor& x, DType dtype) { return given(x) ? dense_as(x, dtype) : Tensor(); }
int64_t part_bytes(const Tensor& x, DType dtype) { return given(x) ? dense_bytes(x, dtype) : 0; }

const void* data_of(const Tensor& x) { return x ? x.host_data() : nullptr; }

// Rows whose contributions to the gradients of weight and bias are added one after another. Enough
// for their sums to be little work beside the rows, and few enough for work to share out.
int64_t rows_of_block(int64_t n) {
  constexpr int64_t kElements = 65536;
  constexpr int64_t kFewest = 32;
  return std::clamp(kElements / std::max<int64_t>(n, 1), kFewest, kColumnBlock);
}

// The blocks of a backward pass, `summed` where the gradients of weight and bias are asked for.
struct NormBlocks {
  bool center, wanted, summed;
  int64_t rows, count;  // of a block, and of blocks
  int64_t sum_bytes;

  NormBlocks(const KernelCall& call, const Shape& shape) {
    AttrReader read(call.attrs);
    read.integer();  // dims
    center = read.flag();
    wanted = read.flag();
    summed = read.flag();
    rows = summed ? rows_of_block(shape.n) : shape.grain();
    count = std::max<int64_t>(1, ceil_div(shape.rows, rows));
    sum_bytes = summed ? count * 2 * shape.row_bytes() : 0;
  }
};

template <class T>
void backward(const KernelCall& call, const Shape& shape, const NormBlocks& plan) {
  const Tensor &out = call.outputs[0], &of_weight = call.outputs[1], &of_bias = call.outputs[2];
  const Tensor g = dense_as(call.inputs[0], shape.dtype), x = dense_as(call.inputs[1], shape.dtype);
  const Tensor mean = dense_as(call.inputs[2], shape.dtype);
  const Tensor scale = dense_as(call.inputs[3], shape.dtype), dx = target(out, shape.dtype);
  const Tensor w = part_of(call.inputs[4], shape.dtype);
  const bool summed = plan.summed;
  const int64_t n = shape.n, block = plan.rows, blocks = plan.count;
  const Tensor sums = summed ? Tensor::empty(Dims{blocks, 2, n}, shape.dtype) : Tensor();
  if (summed && shape.rows == 0) std::fill_n(sums.ptr<T>(), 2 * n, T{0});
  const auto kernel = kernels().norm->backward[shape.index()];
  const bool stream = streams(dx, out, shape.row_bytes());
  parallel_ranges(shape.rows, block, [&](int64_t begin, int64_t end) {
    T* dw = summed ? sums.ptr<T>() + begin / block * 2 * n : nullptr;
    if (summed) std::fill_n(dw, 2 * n, T{0});
    for (int64_t r = begin; r < end; ++r) {
      kernel({.n = n,
              .center = plan.center,
              .x = x.host_data() + r * shape.row_bytes(),
              .grad = g.host_data() + r * shape.row_bytes(),
              .weight = data_of(w),
              .mean = mean.host_data() + r * shape.size,
              .scale = scale.host_data() + r * shape.size,
              .out = plan.wanted ? dx.host_data() + r * shape.row_bytes() : nullptr,
              .stream = stream,
              .out_weight = dw,
              .out_bias = summed ? dw + n : nullptr});
    }
    end_streams(stream);
  });
  finish(dx, out);
  if (!summed) return;
  add_parts(shape.dtype, sums.host_data(), blocks, 2 * n);
  copy_into(sums.view(of_weight.shape(), of_weight.strides(), 0), of_weight);
  copy_into(sums.view(of_bias.shape(), of_bias.strides(), n), of_bias);
}

}  // namespace

void kernel_layer_norm(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Tensor &out = call.outputs[0], &mean = call.outputs[1], &scale = call.outputs[2];
  const Shape shape(out, read.integer());
  const bool center = read.flag();
  const double eps = read.real();
  const Tensor x = dense_as(call.inputs[0], shape.dtype), y = target(out, shape.dtype);
  const Tensor w = part_of(call.inputs[1], shape.dtype), b = part_of(call.inputs[2], shape.dtype);
  const auto kernel = kernels().norm->forward[shape.index()];
  const bool stream = streams(y, out, shape.row_bytes());
  parallel_ranges(shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
    kernel({.n = shape.n,
            .rows = end - begin,
            .eps = eps,
            .center = center,
            .x = x.host_data() + begin * shape.row_bytes(),
            .weight = data_of(w),
            .bias = data_of(b),
            .mean = mean.host_data() + begin * shape.size,
            .scale = scale.host_data() + begin * shape.size,
            .out = y.host_data() + begin * shape.row_bytes(),
            .stream = stream});
    end_streams(stream);
  });
  finish(y, out);
}

void kernel_layer_norm_backward(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Shape shape(call.inputs[1], read.integer());
  const NormBlocks plan(call, shape);
  if (!plan.wanted && !plan.summed) return;
  if (shape.dtype == DType::Float32) return backward<float>(call, shape, plan);
  backward<double>(call, shape, plan);
}

int64_t workspace_layer_norm(const KernelCall& call) {
  const DType dtype = info(call.outputs[0].dtype()).compute;
  return dense_bytes(call.inputs[0], dtype) + target_bytes(call.outputs[0], dtype) +
         part_bytes(call.inputs[1], dtype) + part_bytes(call.inputs[2], dtype);
}

int64_t workspace_layer_norm_backward(const KernelCall& call) {
  const Shape shape(call.inputs[1], AttrReader(call.attrs).integer());
  const NormBlocks plan(call, shape);
  if (!plan.wanted && !plan.summed) return 0;
  int64_t bytes = target_bytes(call.outputs[0], shape.dtype) + plan.sum_bytes;
  for (const Tensor& x : call.inputs.first(4)) bytes += dense_bytes(x, shape.dtype);
  return bytes + part_bytes(call.inputs[4], shape.dtype);
}

}  // namespace tinyt::cpu
