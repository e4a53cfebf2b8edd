#include "cpu/matmul/matmul.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cpu/copy/copy.h"
#include "cpu/elementwise/complex.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/matmul/matmul_convert.h"
#include "cpu/matmul/matmul_lowp.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

// Products of at most so many elements and more than this depth are cut along k.
constexpr int64_t kFewElements = int64_t{1} << 14;
constexpr int64_t kPartDepth = int64_t{1} << 13;

// The operands of one matmul: strides in elements.
struct MatrixOperand {
  const Tensor& tensor;
  int64_t line, depth;  // of a row of A or a column of B, and along k
  Dims batch;           // strides at the output's batch shape
};

// One batched product of a matmul call, with its batch dimensions.
struct MatmulShape {
  int64_t m, n, k;
  Dims batch;
};

// Batch dimensions that B does not have join the rows of A, where A's strides allow.
void fold_batch(MatmulShape& s, MatrixOperand& a, MatrixOperand& b) {
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

const char* start_of(const MatmulShape& s, const MatrixOperand& o, int64_t i) {
  return o.tensor.host_data() +
         batch_offset(s, o.batch, i) * static_cast<int64_t>(size_of(o.tensor.dtype()));
}

// Few rows of A against columns of B that run along memory are multiplied the other way round,
// C^T = B^T A^T: the columns are read where they are, and only A is transposed.
bool is_transposed(const MatmulShape& s, const MatrixOperand& b, const Addend* add, int64_t depth) {
  const DType dtype = b.tensor.dtype();
  const GemmTile& tile = kernels().gemm->tile[static_cast<int>(dtype)];
  return b.depth == 1 && b.line != 1 && s.m <= tile.cols && s.m % tile.step == 0 && s.m < s.n &&
         s.m * depth * static_cast<int64_t>(size_of(dtype)) <= kNearB &&
         (add == nullptr || add->row <= 1);
}

void run_small(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b, DType dtype,
               void* c, Epilogue* tail) {
  multiply_small({dtype,
                  s.m,
                  s.n,
                  s.k,
                  {a.tensor.host_data(), a.line, a.depth},
                  {b.tensor.host_data(), b.line, b.depth},
                  s.batch,
                  a.batch,
                  b.batch,
                  c},
                 tail);
}

// Of product i of the batch, `depth` of k from `first` on.
ConvertedLines lines_of(const MatmulShape& s, const MatrixOperand& o, int64_t i, int64_t first,
                        int64_t depth, DType want) {
  const auto item = static_cast<int64_t>(o.tensor.itemsize());
  return {
      {start_of(s, o, i) + first * o.depth * item, o.line, o.depth}, depth, o.tensor.dtype(), want};
}

// The product as that of the transposed operands: `a` and `b` are lines of A, in memory one after
// another, and of B. Valid while these three are.
void transpose_product(Product& p, PackKernel strided, const StridedLines& a,
                       const StridedLines& b) {
  std::swap(p.m, p.n);
  p.a = {strided, &b};
  p.b = {strided, &a};
  p.a_lines = &b;
  p.b_lines = &a;
  p.c_run = p.c_row;
  p.c_row = p.run = 1;
  std::swap(p.add.row, p.add.col);
}

// How the products of a batch are made that are cut along k into `parts`, of dtype `want` (of
// bytes: Int32). `add` may be null.
struct MatricesPlan {
  DType want;
  int64_t m, n;
  int64_t parts, count, depth;
  int64_t unit;  // of depth, packed as one element
  int64_t packed_depth;
  bool same;   // the dtype of the operands
  bool small;  // then all else does not matter
  bool transposed;
  InMemory lies;
  int64_t columns;  // bytes of the transposed A

  MatricesPlan(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b,
               const Addend* add, int64_t parts_, DType dtype)
      : want(dtype),
        m(s.m),
        n(s.n),
        parts(parts_),
        count(numel_of(s.batch)),
        depth(parts == 1 ? s.k : kPartDepth),
        unit(want == DType::Int32 ? 2 : 1),
        packed_depth(ceil_div(depth, unit)),
        same(a.tensor.dtype() == want),
        small(same && add == nullptr && is_small(want, m, n, s.k)),
        transposed(same && is_transposed(s, b, add, depth)),
        lies{.a = same,
             .b = same && (transposed || b.line == 1),
             .a_step = !transposed && a.line == 1 ? a.depth : 0},
        columns(transposed ? parts * count * depth * m * static_cast<int64_t>(size_of(want)) : 0) {}
  // Whether the tail, of one part, is told of rows of the batch.
  bool tells(Epilogue* tail) const {
    return tail && depth > 0 &&
           (small ? tail->begin(n, small_tasks(want, count, m, n, depth))
                  : tail->begin(n, count * tasks_of_product(m, n, packed_depth)));
  }
  int64_t workspace() const {
    if (small) return 0;
    return columns + batch_workspace(want, parts * count, transposed ? n : m, transposed ? m : n,
                                     packed_depth, lies);
  }
};

// Runs them: C is [parts][batch][m, n].
void run_matrices(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b,
                  const Addend* add, int64_t parts, DType want, void* c, Epilogue* tail) {
  const MatricesPlan plan(s, a, b, add, parts, want);
  const bool tells = plan.tells(tail);
  if (plan.small) return run_small(s, a, b, want, c, tells ? tail : nullptr);
  const auto size = static_cast<int64_t>(size_of(want));
  const PackKernel strided = kernels().gemm->pack[static_cast<int>(want)];
  const PackKernel convert = want == DType::Int32 ? pack_pairs : pack_converted;
  const int64_t count = plan.count, depth = plan.depth, unit = plan.unit;
  const bool transposed = plan.transposed;
  const Workspace columns(plan.columns);
  const auto multiply = [&](int64_t i, Compute compute) {
    const int64_t k = i / count * depth, left = std::min(depth, s.k - k);
    const ConvertedLines la = lines_of(s, a, i % count, k, left, want),
                         lb = lines_of(s, b, i % count, k, left, want);
    const auto tell = [&](int64_t row, int64_t rows, int64_t col, int64_t cols) {
      if (transposed) {
        std::swap(row, col);
        std::swap(rows, cols);
      }
      tail->run(i * s.m + row, rows, col, cols);
    };
    const Done done = tell;
    Product p{.dtype = want,
              .m = s.m,
              .n = s.n,
              .k = ceil_div(left, unit),
              .a = {convert, &la},
              .b = {convert, &lb},
              .c = static_cast<char*>(c) + i * s.m * s.n * size,
              .c_row = s.n,
              .run = s.n,
              .c_run = 0,
              .add = add == nullptr ? Addend{} : *add,
              .done = tells ? &done : nullptr};
    if (plan.same) {
      p.a = {strided, &la.lines};
      p.b = {strided, &lb.lines};
      p.a_lines = &la.lines;
      p.b_lines = &lb.lines;
    }
    if (!transposed) return compute(p);
    char* rows = columns.data() + i * depth * s.m * size;
    strided(&la.lines, {0, s.m, 0, left, s.m}, rows);
    const StridedLines packed = {rows, 1, s.m};
    transpose_product(p, strided, packed, lb.lines);
    compute(p);
  };
  const int64_t m = transposed ? s.n : s.m, n = transposed ? s.m : s.n;
  multiply_batch(want, parts * count, m, n, plan.packed_depth, multiply, plan.lies);
}

// Few elements with long sums: the parts are summed side by side, then added up in order.
int64_t parts_of(const MatmulShape& s) { return ceil_div(s.k, kPartDepth); }
int64_t parts_bytes(const MatmulShape& s, const Tensor& out) {
  return parts_of(s) * out.numel() * static_cast<int64_t>(out.itemsize());
}

void run_parts(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b,
               const Tensor& out) {
  const int64_t parts = parts_of(s);
  const Workspace sums(parts_bytes(s, out));
  run_matrices(s, a, b, nullptr, parts, out.dtype(), sums.data(), nullptr);
  sum_parts(out.dtype(), sums.data(), parts, out.numel(), {}, out.host_data());
}

// Elements of a float16 product, in float16 or float32, that are NaN: those of infinities and NaNs,
// which float32 adds up without rounding anything.
void restore_infinities(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b,
                        const Tensor& out) {
  const Tensor sums = Tensor::empty(out.shape(), DType::Float32);
  if (out.dtype() == DType::Float32) {
    run_matrices(s, a, b, nullptr, 1, sums.dtype(), sums.host_data(), nullptr);
    auto* to = out.ptr<float>();
    const auto* from = sums.ptr<float>();
    for (int64_t i = 0; i < out.numel(); ++i) {
      if (std::isnan(to[i])) to[i] = from[i];
    }
    return;
  }
  const Tensor halves = Tensor::empty(out.shape(), out.dtype());
  run_matrices(s, a, b, nullptr, 1, sums.dtype(), sums.host_data(), nullptr);
  copy_into(sums, halves);
  auto* to = out.ptr<Half>();
  const auto* from = halves.ptr<Half>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    if ((to[i].bits & 0x7FFF) > 0x7C00) to[i] = from[i];
  }
}

void run_low(const MatmulShape& s, const MatrixOperand& a, const MatrixOperand& b,
             const Addend* add, const Tensor& out) {
  const DType dtype = a.tensor.dtype();
  const auto item = static_cast<int64_t>(size_of(out.dtype()));
  const bool nan =
      multiply_lowp(dtype, numel_of(s.batch), s.m, s.n, s.k, [&](int64_t i, ComputeLowp compute) {
        compute({.dtype = dtype,
                 .m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = {start_of(s, a, i), a.line, a.depth},
                 .b = {start_of(s, b, i), b.line, b.depth},
                 .c = out.host_data() + i * s.m * s.n * item,
                 .c_row = s.n,
                 .run = s.n,
                 .c_run = 0,
                 .wide = out.dtype() != dtype,
                 .add = add == nullptr ? Addend{} : *add});
      });
  if (nan && dtype == DType::Float16) restore_infinities(s, a, b, out);
}

// x is one line; the lines are the columns of B, or the rows of A.
VectorSizes vector_sizes(const MatmulShape& s, const MatrixOperand& x, const MatrixOperand& lines,
                         bool adds, const Tensor& out) {
  return {.from = x.tensor.dtype(),
          .work = out.dtype(),
          .count = numel_of(s.batch),
          .n = s.m * s.n,
          .k = s.k,
          .x_step = x.depth,
          .line = lines.line,
          .step = lines.depth,
          .adds = adds};
}

void run_vectors(const MatmulShape& s, const MatrixOperand& x, const MatrixOperand& lines,
                 const Addend* add, const Tensor& out) {
  multiply_vectors({vector_sizes(s, x, lines, add != nullptr, out),
                    [&](int64_t i) { return start_of(s, x, i); },
                    [&](int64_t i) { return start_of(s, lines, i); }, out.host_data(),
                    add == nullptr ? Addend{} : *add});
}

// A matmul's operands, and what decides the order of its sums: shapes alone, not strides.
struct Matmul {
  MatmulShape s;
  MatrixOperand a, b;
  int64_t rows;  // that meet one B

  Matmul(const Tensor& x, const Tensor& y, const Tensor& out)
      : a{x, 0, x.stride(x.rank() - 1), {}},
        b{y, 0, y.stride(std::max<int64_t>(y.rank() - 2, 0)), {}} {
    const int64_t rank_x = x.rank(), rank_y = y.rank();
    s.k = x.size(rank_x - 1);
    s.m = rank_x > 1 ? x.size(rank_x - 2) : 1;
    s.n = rank_y > 1 ? y.size(rank_y - 1) : 1;
    if (rank_x > 1) a.line = x.stride(rank_x - 2);
    if (rank_y > 1) b.line = y.stride(rank_y - 1);
    const int64_t matrix_dims = (rank_x > 1) + (rank_y > 1);
    s.batch = Dims(std::span<const int64_t>(out.shape()).first(out.rank() - matrix_dims));
    const auto batch_strides = [&](const Tensor& t) {
      const auto n = static_cast<size_t>(std::max<int64_t>(t.rank() - 2, 0));
      return broadcast_strides(std::span<const int64_t>(t.shape()).first(n),
                               std::span<const int64_t>(t.strides()).first(n), s.batch);
    };
    a.batch = batch_strides(x);
    b.batch = batch_strides(y);
    rows = s.m;
    for (int64_t d = 1; d <= static_cast<int64_t>(s.batch.size()); ++d) {
      if (rank_y - 2 >= d && y.size(rank_y - 2 - d) != 1) break;
      rows *= s.batch[s.batch.size() - static_cast<size_t>(d)];
    }
  }

  bool has_vector() const { return s.n == 1 || rows == 1; }
  bool has_parts() const { return !has_vector() && s.k > kPartDepth && rows * s.n <= kFewElements; }

  enum class Way : uint8_t { OneColumn, OneRow, Parts, Matrices };
  Way way(DType sums) const {
    if (sums == DType::Int32) return Way::Matrices;
    if (s.n == 1) return Way::OneColumn;
    if (rows == 1) return Way::OneRow;
    return has_parts() ? Way::Parts : Way::Matrices;
  }
  void fold() {
    if (s.n == 1 || rows > 1) fold_batch(s, a, b);
  }

  // In the dtype of the sums. `add` may be null.
  void run(const Addend* add, const Tensor& out, Epilogue* tail) {
    fold();
    switch (way(out.dtype())) {
      case Way::OneColumn: {
        const Addend column = add == nullptr ? Addend{} : Addend{add->data, 0, add->row};
        return run_vectors(s, b, a, add == nullptr ? nullptr : &column, out);
      }
      case Way::OneRow:
        return run_vectors(s, a, b, add, out);
      case Way::Parts:
        return run_parts(s, a, b, out);
      case Way::Matrices:
        run_matrices(s, a, b, add, 1, out.dtype(), out.host_data(), tail);
    }
  }
  // What that takes.
  int64_t workspace(const Addend* add, const Tensor& out, Epilogue* tail) {
    fold();
    switch (way(out.dtype())) {
      case Way::OneColumn:
        return vectors_workspace(vector_sizes(s, b, a, add != nullptr, out));
      case Way::OneRow:
        return vectors_workspace(vector_sizes(s, a, b, add != nullptr, out));
      case Way::Parts:
        return parts_bytes(s, out) +
               MatricesPlan(s, a, b, nullptr, parts_of(s), out.dtype()).workspace();
      case Way::Matrices:
        break;
    }
    const MatricesPlan plan(s, a, b, add, 1, out.dtype());
    plan.tells(tail);
    return plan.workspace();
  }
  int64_t low_workspace() {
    fold_batch(s, a, b);
    return lowp_workspace(a.tensor.dtype(), numel_of(s.batch), s.m, s.n, s.k);
  }
};

// Bytes wrap in the end, so 32 bits are enough.
DType dtype_of_sums(DType dtype) {
  return dtype == DType::Int8 || dtype == DType::UInt8 ? DType::Int32 : info(dtype).compute;
}

// Whether the level's units multiply. A vector meets each element once: memory is the limit, and
// its sums are a reduction as at any level.
bool on_low_units(const KernelCall& call, const Matmul& product) {
  return has_low_units(call.compute) && !(is_float(call.compute) && product.has_vector());
}

void multiply(const KernelCall& call, Matmul& product, const Addend* add, Epilogue* tail) {
  const Tensor& out = call.outputs[0];
  if (on_low_units(call, product)) {
    fold_batch(product.s, product.a, product.b);
    return run_low(product.s, product.a, product.b, add, out);
  }
  const DType work = dtype_of_sums(call.compute);
  const Tensor result = target(out, work);
  product.run(add, result, work == out.dtype() ? tail : nullptr);
  finish(result, out);
}

int64_t multiply_workspace(const KernelCall& call, Matmul& product, const Addend* add,
                           Epilogue* tail) {
  const Tensor& out = call.outputs[0];
  if (on_low_units(call, product)) return product.low_workspace();
  const DType work = dtype_of_sums(call.compute);
  return target_bytes(out, work) +
         product.workspace(add, dense_geometry(out, work), work == out.dtype() ? tail : nullptr);
}

// Whether the product can add c itself: one row to all rows, or an element to each of a single
// matrix, in the dtype of the sums or, on units of its own, of bfloat16. Where c lies is not told.
bool read_addend(const KernelCall& call, const Matmul& product, Addend& add) {
  const Tensor &c = call.inputs[2], &out = call.outputs[0];
  if (on_low_units(call, product)
          ? call.compute != DType::BFloat16 || product.s.k == 0
          : dtype_of_sums(call.compute) != out.dtype() || product.has_parts()) {
    return false;
  }
  Dims strides = broadcast_strides(c.shape(), c.strides(), out.shape());
  add = {};
  if (call.inputs[1].rank() > 1) {
    add.col = strides.back();
    strides.pop_back();
  }
  if (call.inputs[0].rank() > 1) {
    add.row = strides.back();
    strides.pop_back();
  }
  bool same = add.row == 0;
  for (const int64_t stride : strides) same = same && stride == 0;
  return (add.col == 0 || add.col == 1) && (strides.empty() || same);
}

}  // namespace

void kernel_matmul(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  if (is_complex(call.compute)) return complex_matmul(call);
  Matmul product(call.inputs[0], call.inputs[1], call.outputs[0]);
  multiply(call, product, nullptr, call.tail);
}

int64_t workspace_matmul(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return 0;
  if (is_complex(call.compute)) return workspace_complex_matmul(call);
  Matmul product(call.inputs[0], call.inputs[1], call.outputs[0]);
  return multiply_workspace(call, product, nullptr, call.tail);
}

namespace {

// The sums of halves as float32.
constexpr DType kWideSums = DType::Float32;
int64_t wide_workspace(const KernelCall& call, Matmul& product) {
  const Tensor sums = dense_geometry(call.outputs[0].shape(), kWideSums);
  return sums.numel() * static_cast<int64_t>(sums.itemsize()) +
         (on_low_units(call, product) ? product.low_workspace()
                                      : product.workspace(nullptr, sums, nullptr));
}

Tensor wide_sums(const KernelCall& call, Matmul& product) {
  Tensor sums = Tensor::empty(call.outputs[0].shape(), kWideSums);
  if (on_low_units(call, product)) {
    fold_batch(product.s, product.a, product.b);
    run_low(product.s, product.a, product.b, nullptr, sums);
  } else {
    product.run(nullptr, sums, nullptr);
  }
  return sums;
}

}  // namespace

// Halves are rounded once, after the addition.
void kernel_matmul_add(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  if (!is_complex(call.compute)) {
    Matmul product(call.inputs[0], call.inputs[1], out);
    Addend add;
    const bool fused = read_addend(call, product, add);
    if (!fused && is_half(call.compute)) {
      const Tensor operands[] = {wide_sums(call, product), call.inputs[2]};
      return kernel_elementwise({OpId::add, operands, call.outputs, call.attrs, call.compute});
    }
    add.data = call.inputs[2].host_data();
    multiply(call, product, fused ? &add : nullptr, fused ? call.tail : nullptr);
    if (fused) return;
  } else {
    complex_matmul(call);
  }
  const Tensor operands[] = {out, call.inputs[2]};
  kernel_elementwise({OpId::add, operands, call.outputs, call.attrs, call.compute});
}

int64_t workspace_matmul_add(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return 0;
  if (is_complex(call.compute)) return workspace_complex_matmul(call);
  Matmul product(call.inputs[0], call.inputs[1], call.outputs[0]);
  Addend add;
  if (read_addend(call, product, add)) return multiply_workspace(call, product, &add, call.tail);
  return is_half(call.compute) ? wide_workspace(call, product)
                               : multiply_workspace(call, product, nullptr, nullptr);
}

// Sums of several blocks of k meet in C before anything is added to them.
bool adds_in_place(const KernelCall& call) {
  const Tensor &addend = call.inputs[2], &out = call.outputs[0];
  if (out.numel() == 0 || is_complex(call.compute) || addend.shape() != out.shape() ||
      addend.strides() != out.strides())
    return false;
  const Matmul product(call.inputs[0], call.inputs[1], out);
  Addend add;
  const int64_t bytes = product.s.k * static_cast<int64_t>(out.itemsize());
  return read_addend(call, product, add) && !on_low_units(call, product) && !product.has_vector() &&
         bytes <= kDepth;
}

void kernel_int_mm(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  Matmul product(call.inputs[0], call.inputs[1], out);
  if (has_low_units(call.compute)) return run_low(product.s, product.a, product.b, nullptr, out);
  product.run(nullptr, out, call.tail);
}

int64_t workspace_int_mm(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return 0;
  Matmul product(call.inputs[0], call.inputs[1], out);
  return has_low_units(call.compute) ? product.low_workspace()
                                     : product.workspace(nullptr, out, call.tail);
}

}  // namespace tinyt::cpu
