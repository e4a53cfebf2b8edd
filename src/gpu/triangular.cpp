// Cholesky factors, column after column, and triangular systems, in which a thread solves a column
// of the right side.
#include <limits>

#include "core/ops/definition_builder.h"
#include "gpu/kernels.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// What is no pivot: zero, negative, infinite or NaN.
ScalarDefinition no_pivot_definition(ScalarType type) {
  DefinitionBuilder make;
  const int x = make.input(type);
  const auto less = [&](int a, int b) {
    return make.value(MachineOp::less, ScalarType::Bool, a, b);
  };
  const int infinity = make.constant(type, bits_of(type, std::numeric_limits<double>::infinity()));
  const int is_one = make.value(MachineOp::bit_and, ScalarType::Bool,
                                less(make.constant(type, 0), x), less(x, infinity));
  return make.finish(make.value(MachineOp::bit_not, ScalarType::Bool, is_one));
}

// value - a * b, each rounded.
std::string less_product(MapKernel& kernel, DType dtype, const std::string& value,
                         const std::string& a, const std::string& b) {
  const std::string product = kernel.call_op(OpId::mul, dtype, a + ", " + b);
  return kernel.call_op(OpId::sub, dtype, value + ", " + product);
}

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
        write.constant(index, "matrix", "i / " + rows);
        write.constant(index, "row", column + " + i % " + rows);
        write.constant(index, "top", "(matrix * " + size + " + " + column + ") * " + size);
        write.constant(index, "mine", "(matrix * " + size + " + row) * " + size);
        write.variable(type, "pivot", kernel.value(from, "top + " + column));
        write.variable(type, "value", kernel.value(from, "mine + " + column));
        write.open_count(index, "k", "0", column);
        write.constant(type, "scale", kernel.value(to, "top + k"));
        write.assign("pivot", less_product(kernel, dtype, "pivot", "scale", "scale"));
        write.assign("value",
                     less_product(kernel, dtype, "value", "scale", kernel.value(to, "mine + k")));
        write.close();
        write.constant(type, "root", kernel.call_op(OpId::sqrt, dtype, "pivot"));
        write.open_if("row == " + column);
        write.assign("value", "root");
        const std::string no_pivot = kernel.function(no_pivot_definition(type), "tt_no_pivot");
        write.open_if(
            no_pivot + "(pivot) && " +
            write.equal(ScalarType::I64, kernel.value(orders, "matrix"), kernel.whole(0)));
        kernel.set(orders, "matrix", kernel.held_place("(" + column + " + 1)"));
        write.close();
        write.close();
        write.open_if("row != " + column);
        write.assign("value", kernel.call_op(OpId::div, dtype, "value, root"));
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
    write.open_if(
        write.operation(MachineOp::not_equal, ScalarType::Bool, ScalarType::I64,
                        {kernel.value(orders, "i / " + size + " / " + size), kernel.whole(0)}));
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

namespace {

struct Triangle {
  const Tensor& a;    // [matrices, n, n], dense
  const Tensor& out;  // [matrices, n, columns], the right side
  bool upper, unit;

  int64_t size() const { return a.shape().back(); }
  int64_t columns() const { return out.shape().back(); }
  std::string key(const char* what) const {
    return std::string(what) + (upper ? " upper" : " lower") + (unit ? " unit" : "");
  }
  // Of the row that is solved at a step.
  int64_t row(int64_t step) const { return upper ? size() - 1 - step : step; }
};

// A column of the right side by each thread.
void solve_columns(const Triangle& t) {
  const DType dtype = t.out.dtype();
  MapKernel kernel(t.out.device(), t.key("solve"));
  const auto factor = kernel.reads(t.a), x = kernel.writes(t.out);
  const std::string size = kernel.word(t.size()), width = kernel.word(t.columns());
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index, type = held_type(dtype);
    const auto number = [&](const std::string& step) {
      return t.upper ? size + " - 1 - " + step : step;
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
    write.assign("value", less_product(kernel, dtype, "value", kernel.value(factor, "mine + j"),
                                       kernel.value(x, place("j"))));
    write.close();
    if (!t.unit) {
      const std::string diagonal = kernel.value(factor, "mine + row");
      write.assign("value", kernel.call_op(OpId::div, dtype, "value, " + diagonal));
    }
    kernel.set(x, place("row"), "value");
    write.close();
  };
  kernel.run(t.out.numel() / t.size(), print, std::max<int64_t>(1, 512 / (t.size() + 1)));
}

// A row after another: its values, and then what is left of the rows to come, an element by each
// thread. The same sums in the same order.
void divide_row(const Triangle& t, int64_t row) {
  const DType dtype = t.out.dtype();
  MapKernel kernel(t.out.device(), "solve row");
  const auto factor = kernel.reads(t.a), x = kernel.writes(t.out);
  const std::string size = kernel.word(t.size()), width = kernel.word(t.columns()),
                    number = kernel.word(row);
  kernel.run(t.out.numel() / t.size(), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    write.constant(index, "line", "i / " + width + " * " + size + " + " + number);
    write.constant(index, "place", "line * " + width + " + i % " + width);
    const std::string diagonal = kernel.value(factor, "line * " + size + " + " + number);
    kernel.set(x, "place",
               kernel.call_op(OpId::div, dtype, kernel.value(x, "place") + ", " + diagonal));
  });
}
void subtract_row(const Triangle& t, int64_t row) {
  const DType dtype = t.out.dtype();
  const int64_t rest = t.upper ? row : t.size() - 1 - row;
  MapKernel kernel(t.out.device(), "subtract row");
  const auto factor = kernel.reads(t.a), x = kernel.writes(t.out);
  const std::string size = kernel.word(t.size()), width = kernel.word(t.columns()),
                    number = kernel.word(row), count = kernel.word(rest),
                    first = kernel.word(t.upper ? 0 : row + 1);
  kernel.run(t.out.numel() / t.size() * rest, [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    write.constant(index, "column", "i % " + width);
    write.constant(index, "matrix", "i / " + width + " / " + count + " * " + size);
    write.constant(index, "line", "matrix + " + first + " + i / " + width + " % " + count);
    write.constant(index, "place", "line * " + width + " + column");
    kernel.set(x, "place",
               less_product(kernel, dtype, kernel.value(x, "place"),
                            kernel.value(factor, "line * " + size + " + " + number),
                            kernel.value(x, "(matrix + " + number + ") * " + width + " + column")));
  });
}

}  // namespace

void run_solve_triangular(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  copy_into(call.inputs[1], out);
  AttrReader read(call.attrs);
  const bool upper = read.flag(), unit = read.flag();
  const Tensor a = contiguous_in(call.inputs[0], out.dtype());
  const Triangle triangle{a, out, upper, unit};
  const Device device = out.device();
  if (!driver_of(device).launch_model(device.index).by_element()) return solve_columns(triangle);
  for (int64_t step = 0; step < triangle.size(); ++step) {
    const int64_t row = triangle.row(step);
    if (!unit) divide_row(triangle, row);
    subtract_row(triangle, row);
  }
}

}  // namespace tinyt::gpu
