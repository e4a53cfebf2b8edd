// Cholesky factors, column after column, and triangular systems, in which a thread solves a column
// of the right side.
#include <limits>

#include "gpu/kernels.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// Column `j` of the factors, from those before it.
void factor_column(const Tensor& in, const Tensor& out, const Tensor& order, int64_t j) {
  const int64_t n = in.shape().back();
  const DType dtype = out.dtype();
  const ScalarType type = held_type(dtype);
  MapKernel kernel(out.device(), "cholesky");
  const auto from = kernel.reads(in), to = kernel.writes(out), orders = kernel.writes(order);
  const std::string size = kernel.word(n), column = kernel.word(j), rows = kernel.word(n - j);
  kernel.run(
      order.numel() * (n - j),
      [&] {
        SourceWriter& write = kernel.write();
        const ScalarType index = kernel.dialect().index;
        const std::string infinity =
            literal(type, bits_of(type, std::numeric_limits<double>::infinity()), kernel.dialect());
        write.constant(index, "matrix", "i / " + rows);
        write.constant(index, "row", column + " + i % " + rows);
        write.constant(index, "top", "(matrix * " + size + " + " + column + ") * " + size);
        write.constant(index, "mine", "(matrix * " + size + " + row) * " + size);
        write.variable(type, "pivot", kernel.value(from, "top + " + column));
        write.variable(type, "value", kernel.value(from, "mine + " + column));
        write.open_count(index, "k", "0", column);
        write.constant(type, "scale", kernel.value(to, "top + k"));
        write.line("pivot -= scale * scale;");
        write.line("value -= scale * " + kernel.value(to, "mine + k") + ";");
        write.close();
        write.constant(type, "root", kernel.call_op(OpId::sqrt, dtype, "pivot"));
        write.open_if("row == " + column);
        write.assign("value", "root");
        write.constant(ScalarType::Bool, "positive", "pivot > 0 && pivot < " + infinity);
        write.open_if("!positive && " + orders.at("matrix") + " == 0");
        kernel.set(orders, "matrix", column + " + 1");
        write.close();
        write.close();
        write.open_if("row != " + column);
        write.assign("value", "value / root");
        write.close();
        kernel.set(to, "mine + " + column, "value");
      },
      std::max<int64_t>(1, 512 / (j + 1)));
}

// Zeros above the diagonal; NaN in what has no factor.
void finish_factors(const Tensor& out, const Tensor& order) {
  const ScalarType type = held_type(out.dtype());
  MapKernel kernel(out.device(), "finish cholesky");
  const auto orders = kernel.reads(order), to = kernel.writes(out);
  const std::string size = kernel.word(out.shape().back());
  kernel.run(out.numel(), [&] {
    SourceWriter& write = kernel.write();
    const auto constant = [&](double x) {
      return literal(type, bits_of(type, x), kernel.dialect());
    };
    write.open_if("i % " + size + " > i / " + size + " % " + size);
    kernel.set(to, "i", constant(0));
    write.close();
    write.open_if(orders.at("i / " + size + " / " + size) + " != 0");
    kernel.set(to, "i", constant(std::numeric_limits<double>::quiet_NaN()));
    write.close();
  });
}

}  // namespace

void run_cholesky(const KernelCall& call) {
  const Tensor &out = call.outputs[0], &order = call.outputs[1];
  if (order.numel() == 0) return;
  copy_into(Tensor::scalar(int64_t{0}), order);
  const Tensor in = contiguous_in(call.inputs[0], out.dtype());
  for (int64_t j = 0; j < out.shape().back(); ++j) factor_column(in, out, order, j);
  finish_factors(out, order);
}

void run_solve_triangular(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  copy_into(call.inputs[1], out);
  AttrReader read(call.attrs);
  const bool upper = read.flag(), unit = read.flag();
  const DType dtype = out.dtype();
  const Tensor a = contiguous_in(call.inputs[0], dtype);
  const int64_t n = a.shape().back(), columns = out.shape().back();
  MapKernel kernel(out.device(),
                   std::string("solve ") + (upper ? "upper" : "lower") + (unit ? " unit" : ""));
  const auto factor = kernel.reads(a), x = kernel.writes(out);
  const std::string size = kernel.word(n), width = kernel.word(columns);
  kernel.run(
      out.numel() / n,
      [&] {
        SourceWriter& write = kernel.write();
        const ScalarType index = kernel.dialect().index, type = held_type(dtype);
        const auto number = [&](const std::string& step) {
          return upper ? size + " - 1 - " + step : step;
        };
        const auto place = [&](const std::string& row) { return "first + " + row + " * " + width; };
        write.constant(index, "matrix", "i / " + width + " * " + size);
        write.constant(index, "first", "matrix * " + width + " + i % " + width);
        write.open_count(index, "step", "0", size);
        write.constant(index, "row", number("step"));
        write.constant(index, "mine", "(matrix + row) * " + size);
        write.variable(type, "value", kernel.value(x, place("row")));
        write.open_count(index, "k", "0", "step");
        write.constant(index, "j", number("k"));
        write.line("value -= " + kernel.value(factor, "mine + j") + " * " +
                   kernel.value(x, place("j")) + ";");
        write.close();
        if (!unit) write.assign("value", "value / " + kernel.value(factor, "mine + row"));
        kernel.set(x, place("row"), "value");
        write.close();
      },
      std::max<int64_t>(1, 512 / (n + 1)));
}

}  // namespace tinyt::gpu
