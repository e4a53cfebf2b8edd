#include "cpu/elementwise/complex.h"

#include <cmath>
#include <complex>
#include <cstring>

#include "cpu/copy/copy.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/index/index.h"
#include "cpu/math/complex_math.h"
#include "cpu/matmul/matmul.h"
#include "cpu/reduce/reduce.h"
#include "cpu/reduce/scan.h"

namespace tinyt::cpu {
namespace {

// ---- scalar ops

template <class T>
T load_value(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// What comes out of a functor, as it is stored: bool, a real number or a complex one.
template <class T>
void store_value(char* p, Number<T> z) {
  std::memcpy(p, &z, sizeof z);
}
template <class T>
void store_value(char* p, T x) {
  std::memcpy(p, &x, sizeof x);
}
template <class T>
void store_value(char* p, bool x) {
  *p = static_cast<char>(x);
}

template <class Op, class T>
auto result_of(std::span<const Number<T>> in) {
  if constexpr (Op::kInputs == 1) return Op::apply(in[0]);
  if constexpr (Op::kInputs == 2) return Op::apply(in[0], in[1]);
}

template <class Op, class T>
void run(const TileArgs& args) {
  using Out = decltype(result_of<Op, T>({}));
  constexpr int64_t kOut = std::is_same_v<Out, bool> ? 1 : sizeof(Out);
  constexpr int64_t kItem = sizeof(Number<T>);
  for (int64_t r = 0; r < args.rows; ++r) {
    char* out = args.ptr[0] + r * args.row_stride[0];
    const char* at[Op::kInputs];
    for (int i = 0; i < Op::kInputs; ++i) at[i] = args.ptr[i + 1] + r * args.row_stride[i + 1];
    for (int64_t c = 0; c < args.cols; ++c) {
      Number<T> in[Op::kInputs];
      for (int i = 0; i < Op::kInputs; ++i) {
        in[i] = load_value<Number<T>>(at[i] + (args.inner[i + 1] ? c * kItem : 0));
      }
      store_value<T>(out + c * kOut, result_of<Op, T>(in));
    }
  }
}

template <class T>
void run_where(const TileArgs& args) {
  constexpr int64_t kItem = sizeof(Number<T>);
  for (int64_t r = 0; r < args.rows; ++r) {
    const auto row = [&](int k) { return args.ptr[k] + r * args.row_stride[k]; };
    for (int64_t c = 0; c < args.cols; ++c) {
      const int k = row(1)[args.inner[1] ? c : 0] != 0 ? 2 : 3;
      std::memcpy(row(0) + c * kItem, row(k) + (args.inner[k] ? c * kItem : 0), kItem);
    }
  }
}

struct Table {
  TileKernel kernel[kOpCount][2] = {};

  template <class Op, uint32_t Flags>
  constexpr void put(OpId op) {
    if constexpr ((Flags & op_flags::complex) == 0) {
      return;
    } else if constexpr (std::is_same_v<Op, complex_op::where>) {
      kernel[static_cast<int>(op)][0] = run_where<float>;
      kernel[static_cast<int>(op)][1] = run_where<double>;
    } else {
      kernel[static_cast<int>(op)][0] = run<Op, float>;
      kernel[static_cast<int>(op)][1] = run<Op, double>;
    }
  }
};

// The rows of ops.def that take complex numbers; one of them without a functor does not compile.
constexpr Table make_table() {
  using namespace op_flags;
  Table t;
#define SCALAR_OP(name, inputs, rule, flags, attributes) \
  t.put<complex_op::name, (flags)>(OpId::name);
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  return t;
}

constexpr Table kTable = make_table();

// ---- the other families

// The real (0) or imaginary (1) parts.
Tensor part(const Tensor& x, int64_t which) {
  Dims strides;
  for (const int64_t step : x.strides()) strides.push_back(2 * step);
  return x.view_as(real_of(x.dtype()), x.shape(), strides, 2 * x.offset() + which);
}

void scalar_op(OpId op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const Tensor inputs[] = {a, b};
  kernel_elementwise({op, inputs, {&out, 1}, {}, out.dtype()});
}

// [results, n]: the reduced dimensions of x last, as a dense copy.
Tensor rows_to_reduce(const Tensor& x, const Attrs& attrs, int64_t results) {
  SmallVec<bool, 8> reduced(static_cast<size_t>(x.rank()), false);
  for (const int64_t d : AttrReader(attrs).list()) {
    if (d < x.rank()) reduced[static_cast<size_t>(d)] = true;
  }
  Dims shape, strides;
  for (const bool last : {false, true}) {
    for (size_t d = 0; d < reduced.size(); ++d) {
      if (reduced[d] != last) continue;
      shape.push_back(x.size(d));
      strides.push_back(x.stride(d));
    }
  }
  const Tensor copy = Tensor::empty(shape, x.dtype(), x.device());
  copy_into(x.view(shape, strides, x.offset()), copy);
  const int64_t n = x.numel() / results;
  return copy.view(Dims{results, n}, Dims{n, 1}, 0);
}

// Products in a tree that n fixes: the upper half onto the lower one until one number is left.
void complex_prod(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return;
  if (x.numel() == 0) {
    const double one = 1;
    const Tensor value = Tensor::empty({}, DType::Float64, out.device());
    std::memcpy(value.host_data(), &one, sizeof one);
    return copy_into(value, out);
  }
  const Tensor rows = rows_to_reduce(x, call.attrs, out.numel());
  const int64_t step = rows.size(1);
  const auto columns = [&](int64_t first, int64_t count) {
    return rows.view(Dims{rows.size(0), count}, Dims{step, 1}, first);
  };
  int64_t n = step;
  for (; n > 1; n -= n / 2) {
    const Tensor low = columns(0, n / 2);
    scalar_op(OpId::mul, low, columns(n - n / 2, n / 2), low);
  }
  Dims strides = contiguous_strides(out.shape());
  for (int64_t& s : strides) s *= step;
  copy_into(rows.view(out.shape(), strides, 0), out);
}

}  // namespace

TileKernel complex_kernel(OpId op, DType dtype) {
  return kTable.kernel[static_cast<int>(op)][dtype == DType::Complex128];
}

Tensor parts_of(const Tensor& x) {
  Dims shape(x.shape()), strides;
  for (const int64_t step : x.strides()) strides.push_back(2 * step);
  shape.push_back(2);
  strides.push_back(1);
  return x.view_as(real_of(x.dtype()), shape, strides, 2 * x.offset());
}

int64_t workspace_complex_reduce(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (call.op == OpId::prod) {
    if (out.numel() == 0) return 0;
    return x.numel() == 0 ? static_cast<int64_t>(sizeof(double))
                          : x.numel() * static_cast<int64_t>(x.itemsize());
  }
  if (x.rank() == 0) return 0;
  const Tensor in = parts_of(x), sums = parts_of(out);
  return workspace_reduce({call.op, {&in, 1}, {&sums, 1}, call.attrs, in.dtype()});
}

// A sum is that of the parts, in the order of a column reduction.
void complex_reduce(const KernelCall& call) {
  if (call.op == OpId::prod) return complex_prod(call);
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (x.rank() == 0) return copy_into(x, out);
  const Tensor in = parts_of(x), sums = parts_of(out);
  kernel_reduce({call.op, {&in, 1}, {&sums, 1}, call.attrs, in.dtype()});
}

void complex_cumsum(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (x.rank() == 0) return copy_into(x, out);
  const Tensor in = parts_of(x), sums = parts_of(out);
  kernel_cumsum({call.op, {&in, 1}, {&sums, 1}, call.attrs, in.dtype()});
}

// Calls body with the call of the parts: those of a number have its index.
template <class F>
auto with_scattered_parts(const KernelCall& call, F&& body) {
  const Tensor index = at_least_1d(call.inputs[1]);
  Dims shape(index.shape()), strides(index.strides());
  shape.push_back(2);
  strides.push_back(0);
  const Tensor inputs[] = {parts_of(at_least_1d(call.inputs[0])),
                           index.view(shape, strides, index.offset()),
                           parts_of(at_least_1d(call.inputs[2]))};
  const Tensor sums = parts_of(at_least_1d(call.outputs[0]));
  return body(KernelCall{call.op, inputs, {&sums, 1}, call.attrs, sums.dtype()});
}

void complex_scatter_add(const KernelCall& call) { with_scattered_parts(call, kernel_scatter_add); }

int64_t workspace_complex_scatter_add(const KernelCall& call) {
  return with_scattered_parts(call, workspace_scatter_combine);
}

// (A + iB)(C + iD) = AC - BD + i(AD + BC): four real products.
void complex_matmul(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  const DType real = real_of(out.dtype());
  const auto product = [&](int64_t a, int64_t b) {
    const Tensor inputs[] = {part(x, a), part(y, b)};
    const Tensor result = Tensor::empty(out.shape(), real, out.device());
    kernel_matmul({call.op, inputs, {&result, 1}, call.attrs, real});
    return result;
  };
  scalar_op(OpId::sub, product(0, 0), product(1, 1), part(out, 0));
  scalar_op(OpId::add, product(0, 1), product(1, 0), part(out, 1));
}

// Two results, while the second one is made.
int64_t workspace_complex_matmul(const KernelCall& call) {
  const Tensor inputs[] = {part(call.inputs[0], 0), part(call.inputs[1], 0)};
  const DType real = real_of(call.outputs[0].dtype());
  const Tensor result = dense_geometry(call.outputs[0].shape(), real);
  return 2 * result.numel() * static_cast<int64_t>(result.itemsize()) +
         workspace_matmul({call.op, inputs, {&result, 1}, call.attrs, real});
}

}  // namespace tinyt::cpu
