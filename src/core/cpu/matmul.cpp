#include "matmul.h"

#include <cstring>

#include "complex.h"
#include "copy.h"
#include "matmul_low.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// The operands of one matmul: strides in elements.
struct Operand {
  const Tensor& tensor;
  int64_t line, depth;  // of a row of A or a column of B, and along k
  Dims batch;           // strides at the output's batch shape
};

// Lines of another dtype, converted while they are packed.
struct ConvertedLines {
  StridedLines lines;
  DType from, to;
};

void pack_converted(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ConvertedLines*>(context);
  const auto item = static_cast<int64_t>(size_of(c.from));
  const auto size = static_cast<int64_t>(size_of(c.to));
  const char* data = static_cast<const char*>(c.lines.data) +
                     (p.first * c.lines.line + p.k0 * c.lines.depth) * item;
  const int64_t step = kTileElements / p.width;
  Tile tile;
  for (int64_t k = 0; k < p.depth; k += step) {
    const int64_t rows = std::min(step, p.depth - k);
    const Block from = {const_cast<char*>(data) + k * c.lines.depth * item, c.lines.depth * item,
                        c.lines.line * item};
    char* to = static_cast<char*>(out) + k * p.width * size;
    if (p.count == p.width) {
      load_tile(from, c.from, rows, p.count, c.to, to);
      continue;
    }
    load_tile(from, c.from, rows, p.count, c.to, tile.bytes);
    std::memset(to, 0, static_cast<size_t>(rows * p.width * size));
    copy_block({tile.bytes, p.count * size, size}, {to, p.width * size, size},
               static_cast<size_t>(size), rows, p.count);
  }
}

// One batched product of a matmul call, with its batch dimensions.
struct MatmulShape {
  int64_t m, n, k;
  Dims batch;
};

// Batch dimensions that B does not have join the rows of A, where A's strides allow.
void fold_batch(MatmulShape& s, Operand& a, Operand& b) {
  while (!s.batch.empty()) {
    const int64_t size = s.batch.back(), step = a.batch.back();
    if (size != 1) {
      if (b.batch.back() != 0 || (s.m != 1 && step != s.m * a.line)) return;
      if (s.m == 1) a.line = step;
      s.m *= size;
    }
    s.batch.pop_back();
    a.batch.pop_back();
    b.batch.pop_back();
  }
}

int64_t batch_offset(const MatmulShape& s, const Dims& strides, int64_t i) {
  int64_t offset = 0;
  for (size_t d = s.batch.size(); d-- > 0; i /= s.batch[d]) offset += i % s.batch[d] * strides[d];
  return offset;
}

const char* start_of(const MatmulShape& s, const Operand& o, int64_t i) {
  return o.tensor.data() +
         batch_offset(s, o.batch, i) * static_cast<int64_t>(size_of(o.tensor.dtype()));
}

void run_matrices(const MatmulShape& s, const Operand& a, const Operand& b, const Tensor& out) {
  const DType have = a.tensor.dtype(), want = out.dtype();
  const auto size = static_cast<int64_t>(size_of(want));
  const PackKernel strided = kernels().gemm->pack[static_cast<int>(want)];
  const auto multiply = [&](int64_t i, Compute compute) {
    const ConvertedLines la = {{start_of(s, a, i), a.line, a.depth}, have, want};
    const ConvertedLines lb = {{start_of(s, b, i), b.line, b.depth}, have, want};
    Product p{.dtype = want,
              .m = s.m,
              .n = s.n,
              .k = s.k,
              .a = {pack_converted, &la},
              .b = {pack_converted, &lb},
              .c = out.data() + i * s.m * s.n * size,
              .c_row = s.n,
              .run = s.n,
              .c_run = 0};
    if (have == want) {
      p.a = {strided, &la.lines};
      p.b = {strided, &lb.lines};
      p.a_lines = &la.lines;
      p.b_lines = &lb.lines;
    }
    compute(p);
  };
  multiply_batch(want, numel_of(s.batch), s.m, s.n, s.k, multiply,
                 {.a = have == want, .b = have == want && b.line == 1});
}

// Elements of a float16 product that are NaN: those of infinities and NaNs, which float32 adds up
// without rounding anything.
void restore_infinities(const MatmulShape& s, const Operand& a, const Operand& b,
                        const Tensor& out) {
  const Tensor sums = Tensor::empty(out.shape(), DType::Float32);
  const Tensor halves = Tensor::empty(out.shape(), out.dtype());
  run_matrices(s, a, b, sums);
  copy_into(sums, halves);
  auto* to = out.ptr<Half>();
  const auto* from = halves.ptr<Half>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    if ((to[i].bits & 0x7FFF) > 0x7C00) to[i] = from[i];
  }
}

void run_low(const MatmulShape& s, const Operand& a, const Operand& b, const Tensor& out) {
  const auto item = static_cast<int64_t>(size_of(out.dtype()));
  const bool nan = multiply_low(out.dtype(), numel_of(s.batch), s.m, s.n, s.k,
                                [&](int64_t i, ComputeLow compute) {
                                  compute({.dtype = out.dtype(),
                                           .m = s.m,
                                           .n = s.n,
                                           .k = s.k,
                                           .a = {start_of(s, a, i), a.line, a.depth},
                                           .b = {start_of(s, b, i), b.line, b.depth},
                                           .c = out.data() + i * s.m * s.n * item,
                                           .c_row = s.n,
                                           .run = s.n,
                                           .c_run = 0});
                                });
  if (nan && out.dtype() == DType::Float16) restore_infinities(s, a, b, out);
}

// x is one line; the lines are the columns of B, or the rows of A.
void run_vectors(const MatmulShape& s, const Operand& x, const Operand& lines, const Tensor& out) {
  multiply_vectors({.from = x.tensor.dtype(),
                    .work = out.dtype(),
                    .count = numel_of(s.batch),
                    .n = s.m * s.n,
                    .k = s.k,
                    .x = [&](int64_t i) { return start_of(s, x, i); },
                    .lines = [&](int64_t i) { return start_of(s, lines, i); },
                    .x_step = x.depth,
                    .line = lines.line,
                    .step = lines.depth,
                    .out = out.data()});
}

// The rows that meet one B, by the shapes alone: the order of the sums depends on it.
int64_t rows_of_product(const MatmulShape& s, const Tensor& b) {
  int64_t rows = s.m;
  for (int64_t d = 1; d <= static_cast<int64_t>(s.batch.size()); ++d) {
    if (b.rank() - 2 >= d && b.size(b.rank() - 2 - d) != 1) break;
    rows *= s.batch[s.batch.size() - static_cast<size_t>(d)];
  }
  return rows;
}

}  // namespace

void kernel_matmul(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return;
  if (is_complex(call.compute)) return complex_matmul(call);
  const int64_t rank_x = x.rank(), rank_y = y.rank();
  MatmulShape s;
  s.k = x.size(rank_x - 1);
  s.m = rank_x > 1 ? x.size(rank_x - 2) : 1;
  s.n = rank_y > 1 ? y.size(rank_y - 1) : 1;
  const int64_t matrix_dims = (rank_x > 1) + (rank_y > 1);
  s.batch = Dims(std::span<const int64_t>(out.shape()).first(out.rank() - matrix_dims));
  const auto batch_strides = [&](const Tensor& t) {
    const auto n = static_cast<size_t>(std::max<int64_t>(t.rank() - 2, 0));
    return broadcast_strides(std::span<const int64_t>(t.shape()).first(n),
                             std::span<const int64_t>(t.strides()).first(n), s.batch);
  };
  Operand a{x, rank_x > 1 ? x.stride(rank_x - 2) : 0, x.stride(rank_x - 1), batch_strides(x)};
  Operand b{y, rank_y > 1 ? y.stride(rank_y - 1) : 0, y.stride(rank_y > 1 ? rank_y - 2 : 0),
            batch_strides(y)};
  const bool one_row = rows_of_product(s, y) == 1;
  if (s.n == 1 || !one_row) fold_batch(s, a, b);
  if (has_low_units(call.compute)) return run_low(s, a, b, out);
  const DType work = info(call.compute).compute;
  const Tensor result = work == out.dtype() ? out : Tensor::empty(out.shape(), work);
  if (s.n == 1) {
    run_vectors(s, b, a, result);
  } else if (one_row) {
    run_vectors(s, a, b, result);
  } else {
    run_matrices(s, a, b, result);
  }
  if (work != out.dtype()) copy_into(result, out);
}

}  // namespace tinyt::cpu
