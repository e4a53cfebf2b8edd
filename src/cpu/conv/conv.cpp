// Every form is one product of matrices per group (the input gradient: and per phase). One operand
// is a tensor in memory; the other is the columns of im2col.h, computed while they are packed and
// never stored whole.
#include "cpu/conv/conv.h"

#include <algorithm>
#include <cstring>

#include "cpu/conv/conv_dilated.h"
#include "cpu/conv/conv_direct.h"
#include "cpu/conv/conv_forms.h"
#include "cpu/conv/conv_lines.h"
#include "cpu/conv/conv_lowp.h"
#include "cpu/conv/conv_strategy.h"
#include "cpu/conv/im2col.h"
#include "cpu/conv/winograd.h"
#include "cpu/copy/copy.h"
#include "cpu/matmul/matmul.h"
#include "cpu/matmul/matmul_lowp.h"
#include "cpu/reduce/reduce.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kMaxImageBlocks = 16;   // partial sums of a weight gradient
constexpr int64_t kMinBlockDepth = 2048;  // positions in one of them

Columns columns_of_input(const Geometry& g, const char* data) {
  Columns c{.data = data,
            .image_stride = g.in_channels * g.in_size(),
            .channel_stride = g.in_size(),
            .source = g.in,
            .positions = g.out,
            .kernel = g.kernel,
            .multiply = g.stride,
            .offset = {},
            .tap_step = g.dilation};
  for (int d = 0; d < kSpatial; ++d) c.offset[d] = -g.padding[d];
  return c;
}

// What the columns of `images` images read, from the channel `skipped` elements on.
ColumnSource source_of(DType work, const Columns& c, int64_t images, int64_t skipped) {
  ColumnSource s{.data = c.data + skipped * static_cast<int64_t>(size_of(work)),
                 .begin = -skipped,
                 .end = images * c.image_stride - skipped,
                 .image_stride = c.image_stride,
                 .channel_stride = c.channel_stride,
                 .source = {},
                 .positions = {},
                 .kernel = {},
                 .multiply = {},
                 .offset = {},
                 .tap_step = {}};
  for (int d = 0; d < kSpatial; ++d) {
    s.source[d] = c.source[d];
    s.positions[d] = c.positions[d];
    s.kernel[d] = c.kernel[d];
    s.multiply[d] = c.multiply[d];
    s.offset[d] = c.offset[d];
    s.tap_step[d] = c.tap_step[d];
  }
  return s;
}

// Packing moves bits, so one kernel serves all dtypes of a size.
template <class T>
constexpr DType kBits = sizeof(T) == 4 ? DType::Float32 : DType::Int64;
template <class T>
PackKernel pack_strided() {
  return kernels().gemm->pack[static_cast<int>(kBits<T>)];
}

// Columns transposed, as B of a weight gradient: the lines are (channel, tap), the depth is
// positions.
template <class T>
void pack_taps(const void* context, const Panel& p, void* out) {
  const PackKernel pack = kernels().columns->pack[static_cast<int>(kBits<T>)];
  T rows[kMaxTileLines * kMaxColumnLines];
  for (int64_t k = 0; k < p.depth; k += kMaxColumnLines) {
    const int64_t depth = std::min(kMaxColumnLines, p.depth - k);
    pack(context, {p.k0 + k, depth, p.first, p.count, kMaxColumnLines}, rows);
    const StridedLines dense = {rows, kMaxColumnLines, 1};
    pack_strided<T>()(&dense, {0, p.count, 0, depth, p.width}, static_cast<T*>(out) + k * p.width);
  }
}

// A gradient as A of a weight gradient, and as B the source of a pointwise convolution: the lines
// are channels, the depth is (image, position).
struct ImageLines {
  const char* data;  // of the group's first channel in the first image
  int64_t image_stride, size;
};

template <class T>
void pack_images(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ImageLines*>(context);
  T* to = static_cast<T*>(out);
  for (int64_t k = p.k0, end = p.k0 + p.depth; k < end;) {
    const int64_t at = k % c.size, depth = std::min(c.size - at, end - k);
    const StridedLines image = {reinterpret_cast<const T*>(c.data) + k / c.size * c.image_stride,
                                c.size, 1};
    pack_strided<T>()(&image, {p.first, p.count, at, depth, p.width}, to);
    to += depth * p.width;
    k += depth;
  }
}

// Block i of the images into part i.
void multiply_blocks(DType work, const Geometry& g, const Tensor& grad, const Tensor& x,
                     int64_t per_block, int64_t blocks, const Tensor& parts) {
  const auto size = static_cast<int64_t>(size_of(work));
  const int64_t m = g.group_out(), n = g.group_in() * g.taps(), positions = g.out_size();
  const bool narrow = size == 4;
  const PackKernel of_images = narrow ? pack_images<uint32_t> : pack_images<uint64_t>;
  const PackKernel of_taps = narrow ? pack_taps<uint32_t> : pack_taps<uint64_t>;
  const bool pointwise = g.taps() == 1 && g.stride == Sizes{1, 1, 1} && g.in == g.out;
  multiply_batch(
      work, blocks * g.groups, m, n, std::min(per_block, g.images) * positions,
      [&](int64_t i, Compute compute) {
        const int64_t group = i % g.groups, first = i / g.groups * per_block;
        const int64_t images = std::min(per_block, g.images - first);
        const int64_t out_image = g.out_channels * positions;
        const int64_t in_image = g.in_channels * g.in_size();
        const ImageLines a = {grad.host_data() + (first * out_image + group * m * positions) * size,
                              out_image, positions};
        const Columns columns = columns_of_input(g, x.host_data() + first * in_image * size);
        const int64_t skipped = group * g.group_in() * g.in_size();
        const ColumnSource b = source_of(work, columns, images, skipped);
        const ImageLines lines = {columns.data + skipped * size, in_image, positions};
        compute({.dtype = work,
                 .m = m,
                 .n = n,
                 .k = images * positions,
                 .a = {of_images, &a},
                 .b = pointwise ? Packer{of_images, &lines} : Packer{of_taps, &b},
                 .c = parts.host_data() + i * m * n * size,
                 .c_row = n,
                 .run = n,
                 .c_run = 0});
      });
}

ConvProblem problem_of(DType work, const Geometry& g) {
  return {work, g.images, g.groups, g.group_in(), g.group_out(), columns_of_input(g, nullptr)};
}

// The images are cut into fixed blocks, each with a partial sum of its own.
struct ImageBlocks {
  int64_t per_block, count;
  int64_t elements;  // of the sums that are not the result
  bool direct;

  ImageBlocks(const Geometry& g, ConvStrategy strategy) : direct(strategy == ConvStrategy::Direct) {
    const int64_t enough = kMinBlockDepth / std::max<int64_t>(1, g.out_size()) + 1;
    per_block = std::max((g.images + kMaxImageBlocks - 1) / kMaxImageBlocks, enough);
    count = std::max<int64_t>(1, (g.images + per_block - 1) / per_block);
    elements = count == 1 ? 0 : count * g.out_channels * g.group_in() * g.taps();
  }
  int64_t workspace(const Geometry& g, const ConvProblem& d) const {
    const int64_t depth = std::min(per_block, g.images) * g.out_size();
    return elements * static_cast<int64_t>(size_of(d.dtype)) +
           (direct ? direct_weights_workspace(d, per_block)
                   : batch_workspace(d.dtype, count * g.groups, g.group_out(),
                                     g.group_in() * g.taps(), depth));
  }
};

void weight_gradient(DType work, const Geometry& g, const Tensor& any_grad, const Tensor& any_x,
                     const Tensor& result) {
  const auto size = static_cast<int64_t>(size_of(work));
  ConvProblem problem = problem_of(work, g);
  ConvStrategy strategy = choose_weights(problem);
  if (strategy == ConvStrategy::Winograd) {
    if (winograd_weights(problem, any_grad, any_x, result)) return;
    strategy = choose_weights(problem, false);
  }
  const Tensor grad = dense_as(any_grad, work), x = dense_as(any_x, work);
  problem.columns.data = x.host_data();
  const ImageBlocks plan(g, strategy);
  const int64_t blocks = plan.count;
  const Tensor parts = blocks == 1 ? result : Tensor::empty(Dims{plan.elements}, work);
  if (plan.direct) {
    direct_weights(problem, grad, plan.per_block, parts);
  } else {
    multiply_blocks(work, g, grad, x, plan.per_block, blocks, parts);
  }
  if (blocks == 1) return;
  add_parts(work, parts.host_data(), blocks, result.numel());
  std::memcpy(result.host_data(), parts.host_data(), static_cast<size_t>(result.numel() * size));
}

int64_t weight_gradient_workspace(DType work, const Geometry& g, const Tensor& grad,
                                  const Tensor& x) {
  const ConvProblem problem = problem_of(work, g);
  const ConvStrategy strategy = choose_weights(problem);
  if (strategy == ConvStrategy::Winograd) return winograd_weights_workspace(problem, grad, x);
  return dense_bytes(grad, work) + dense_bytes(x, work) +
         ImageBlocks(g, strategy).workspace(g, problem);
}

bool is_lowp(const ConvProblem& p) {
  return p.dtype == DType::BFloat16 && choose_weights(p) == ConvStrategy::Lowp;
}

// Whether `out` was computed on units for its dtype.
bool lowp_weight_gradient(const Geometry& g, const Tensor& grad, const Tensor& x,
                          const Tensor& out) {
  ConvProblem problem = problem_of(out.dtype(), g);
  if (!is_lowp(problem)) return false;
  const Tensor dense = as_contiguous(x);
  problem.columns.data = dense.host_data();
  return lowp_conv_weights(problem, as_contiguous(grad), out);
}

// ---- products with columns

// Of ConvStrategy::Product.
bool packed_tells(const ConvProblem& d, Epilogue* tail) {
  const int64_t depth = d.ins * d.taps();
  return tail && depth > 0 &&
         tail->begin(d.positions(),
                     d.groups * tasks_of_product(d.outs, d.images * d.positions(), depth));
}

// The columns are packed as the product needs them.
void packed_product(const ConvProblem& p, const Tensor& lines, const Tensor& y, Epilogue* tail) {
  const auto size = static_cast<int64_t>(size_of(p.dtype));
  const int64_t positions = p.positions(), depth = p.ins * p.taps();
  const PackKernel pack_lines = kernels().gemm->pack[static_cast<int>(p.dtype)];
  const PackKernel pack_columns = kernels().columns->pack[static_cast<int>(p.dtype)];
  const bool tells = packed_tells(p, tail);
  multiply_batch(
      p.dtype, p.groups, p.outs, p.images * positions, depth, [&](int64_t i, Compute compute) {
        const auto tell = [&](int64_t row, int64_t rows, int64_t col, int64_t cols) {
          for (int64_t end = col + cols, count = 0; col < end; col += count) {
            const int64_t image = col / positions, at = col % positions;
            count = std::min(positions - at, end - col);
            tail->run((image * p.groups + i) * p.outs + row, rows, at, count);
          }
        };
        const Done done = tell;
        const StridedLines a = {lines.host_data() + i * p.outs * depth * size, depth, 1};
        const ColumnSource b =
            source_of(p.dtype, p.columns, p.images, i * p.ins * p.columns.channel_stride);
        compute({.dtype = p.dtype,
                 .m = p.outs,
                 .n = p.images * positions,
                 .k = depth,
                 .a = {pack_lines, &a},
                 .b = {pack_columns, &b},
                 .c = y.host_data() + i * p.outs * positions * size,
                 .c_row = positions,
                 .run = positions,
                 .c_run = y.size(1) * positions,
                 .done = tells ? &done : nullptr});
      });
}

int64_t packed_workspace(const ConvProblem& p, Epilogue* tail) {
  packed_tells(p, tail);
  return batch_workspace(p.dtype, p.groups, p.outs, p.images * p.positions(), p.ins * p.taps());
}

}  // namespace

int64_t columns_workspace(DType work, int64_t groups, const Tensor& lines, const Columns& columns,
                          int64_t ins, const Tensor& y, Epilogue* tail) {
  const ConvProblem p{work, y.size(0), groups, ins, y.size(1) / groups, columns};
  switch (choose_product(p)) {
    case ConvStrategy::Lowp:
      return lowp_conv_workspace(p, lines);
    case ConvStrategy::Direct:
      return direct_workspace(p, tail);
    case ConvStrategy::Winograd:
      return winograd_workspace(p);
    case ConvStrategy::Lines:
      return lines_workspace(p, tail);
    case ConvStrategy::Dilated:
      return dilated_workspace(p);
    case ConvStrategy::Product:
      break;
  }
  return packed_workspace(p, tail);
}

void multiply_columns(DType work, int64_t groups, const Tensor& lines, const Columns& columns,
                      int64_t ins, const Tensor& y, Epilogue* tail) {
  const ConvProblem p{work, y.size(0), groups, ins, y.size(1) / groups, columns};
  ConvStrategy strategy = choose_product(p);
  if (strategy == ConvStrategy::Winograd) {
    if (winograd_product(p, lines, y)) return;
    strategy = choose_product(p, false);
  }
  switch (strategy) {
    case ConvStrategy::Lowp:
      return lowp_conv_product(p, lines, y);
    case ConvStrategy::Direct:
      return direct_product(p, lines, y, tail);
    case ConvStrategy::Lines:
      return lines_product(p, lines, y, tail);
    case ConvStrategy::Dilated:
      return dilated_product(p, lines, y);
    case ConvStrategy::Winograd:
    case ConvStrategy::Product:
      break;
  }
  packed_product(p, lines, y, tail);
}

namespace {

DType conv_dtype(const KernelCall& call, const Geometry& g) {
  const DType have = call.inputs[0].dtype();
  const ConvProblem p = problem_of(have, g);
  return choose_dtype(have, info(call.compute).compute, {&p, 1});
}

}  // namespace

int64_t workspace_conv(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return 0;
  AttrReader attrs(call.attrs);
  const Geometry g(x.shape(), w.shape(), out.shape(), attrs);
  const DType work = conv_dtype(call, g);
  return target_bytes(out, work) + dense_bytes(x, work) + dense_bytes(w, work) +
         columns_workspace(work, g.groups, dense_geometry(w, work), columns_of_input(g, nullptr),
                           g.group_in(), out, work == out.dtype() ? call.tail : nullptr);
}

void kernel_conv(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  AttrReader attrs(call.attrs);
  const Geometry g(x.shape(), w.shape(), out.shape(), attrs);
  const DType work = conv_dtype(call, g);
  in_compute_dtype(out, work, [&](const Tensor& y) {
    const Tensor dense = dense_as(x, work);
    multiply_columns(work, g.groups, dense_as(w, work), columns_of_input(g, dense.host_data()),
                     g.group_in(), y, work == out.dtype() ? call.tail : nullptr);
  });
}

namespace {

Geometry geometry_of_weights(const KernelCall& call) {
  AttrReader attrs(call.attrs);
  const auto size = attrs.list();
  return {call.inputs[1].shape(), size, call.inputs[0].shape(), attrs};
}

}  // namespace

void kernel_conv_backward_weight(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const DType work = info(call.compute).compute;
  const Geometry g = geometry_of_weights(call);
  if (lowp_weight_gradient(g, grad, x, out)) return;
  in_compute_dtype(out, work, [&](const Tensor& dw) { weight_gradient(work, g, grad, x, dw); });
}

int64_t workspace_conv_backward_weight(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const DType work = info(call.compute).compute;
  const Geometry g = geometry_of_weights(call);
  if (const ConvProblem lowp = problem_of(out.dtype(), g); is_lowp(lowp))
    return dense_bytes(x) + dense_bytes(grad) + lowp_conv_weights_workspace(lowp);
  if (out.numel() == 0) return 0;
  return target_bytes(out, work) + weight_gradient_workspace(work, g, grad, x);
}

}  // namespace tinyt::cpu
