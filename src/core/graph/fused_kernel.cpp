#include "core/graph/fused_kernel.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

template <class... Parts>
void check_op(bool ok, size_t op, const FusedKernel::Op& what, const Parts&... parts) {
  require(ok, ErrorKind::Runtime, "fused kernel: operation ", op, " (", name_of(what.op), ") ",
          parts...);
}

// One element a row, where the reduced dimensions have size 1; or all of the space.
Dims space_of(const FusedKernel& kernel, bool per_row) {
  Dims shape(kernel.shape);
  if (per_row)
    for (size_t d = shape.size() - kernel.reduced; d < shape.size(); ++d) shape[d] = 1;
  return shape;
}

// Repeated over the space.
Tensor spread(const FusedKernel& kernel, const Tensor& x) {
  return x.view(kernel.shape, broadcast_strides(x.shape(), x.strides(), kernel.shape), x.offset());
}

}  // namespace

void verify(const FusedKernel& kernel) {
  const auto made = static_cast<int>(kernel.values.size());
  require(kernel.loads >= 0 && made == kernel.made_by(kernel.ops.size()) &&
              kernel.reduced <= kernel.shape.size() && kernel.front.load < kernel.loads,
          ErrorKind::Runtime, "fused kernel: ", made, " values for ", kernel.loads, " loads and ",
          kernel.ops.size(), " operations");
  for (size_t i = 0; i < kernel.ops.size(); ++i) {
    const FusedKernel::Op& op = kernel.ops[i];
    const FusedKernel::Value& out = kernel.values[kernel.made_by(i)];
    const OpInfo& row = info(op.op);
    check_op(row.kind != OpKind::Struct || converts(op.op), i, op, "is no elementwise one");
    check_op(std::ssize(op.in) == row.inputs, i, op, "takes ", int{row.inputs}, " operands, not ",
             op.in.size());
    for (const FusedKernel::Operand& in : op.in) {
      check_op(in.value >= 0 && in.value < kernel.made_by(i), i, op, "reads a value too early");
      check_op(row.kind == OpKind::Reduce || !out.per_row || in.value < kernel.loads ||
                   kernel.values[in.value].per_row,
               i, op, "makes one element a row of many");
    }
    if (row.kind == OpKind::Reduce) check_op(out.per_row, i, op, "does not reduce its rows");
    const DType from =
        row.kind == OpKind::Reduce ? kernel.values[op.in[0].value].dtype : op.compute;
    check_op(converts(op.op) || apply_rule(row.dtype_rule, from) == out.dtype, i, op, "makes ",
             name_of(out.dtype));
  }
  for (const int v : kernel.stores)
    require(v >= kernel.loads && v < made, ErrorKind::Runtime, "fused kernel: it stores value ", v);
}

std::vector<Tensor> interpret(const FusedKernel& kernel, std::span<const Tensor> loads) {
  std::vector<Tensor> values(loads.begin(), loads.end());
  const Device device =
      loads.empty() ? Device{} : std::ranges::max(loads, {}, &Tensor::device).device();
  for (size_t i = 0; i < kernel.ops.size(); ++i) {
    const FusedKernel::Op& op = kernel.ops[i];
    const auto& [dtype, per_row] = kernel.values[kernel.made_by(i)];
    std::vector<Tensor> in;
    for (const auto& [value, single] : op.in) {
      const Tensor& x = values[value];
      const bool whole =
          info(op.op).kind == OpKind::Reduce || (!single && x.numel() == 1 && !per_row);
      in.push_back(whole ? spread(kernel, x) : x);
    }
    const Tensor out = Tensor::empty(space_of(kernel, per_row), dtype, device);
    Attrs attrs;
    if (converts(op.op)) {
      copy_into(name_of(op.op), in[0], out);
    } else {
      if (info(op.op).kind == OpKind::Reduce) {
        Dims dims;
        for (size_t d = kernel.shape.size() - kernel.reduced; d < kernel.shape.size(); ++d)
          dims.push_back(static_cast<int64_t>(d));
        attrs.add(std::span<const int64_t>(dims)).add(1);
      }
      kernel_of(op.op, op.compute, in.size(), device)({op.op, in, {&out, 1}, attrs, op.compute});
    }
    values.push_back(out);
  }
  std::vector<Tensor> stored;
  for (const int v : kernel.stores) stored.push_back(values[v]);
  return stored;
}

}  // namespace tinyt
