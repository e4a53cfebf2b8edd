#include "cpu/matmul/linear.h"

#include "cpu/matmul/matmul.h"

namespace tinyt::cpu {

namespace {

// Calls either function with the product that a layer is.
template <class R>
R as_product(const KernelCall& call, R (*without)(const KernelCall&),
             R (*with_bias)(const KernelCall&)) {
  const Tensor &weight = call.inputs[1], &bias = call.inputs[2];
  const Tensor columns = weight.view(Dims{weight.size(1), weight.size(0)},
                                     Dims{weight.stride(1), weight.stride(0)}, weight.offset());
  const Tensor operands[] = {call.inputs[0], columns, bias};
  if (bias.rank() == 0)
    return without({OpId::matmul, std::span(operands).first(2), call.outputs, call.attrs,
                    call.compute, call.tail});
  return with_bias({OpId::matmul_add, operands, call.outputs, call.attrs, call.compute, call.tail});
}

}  // namespace

// The bits of the two operations, but that halves are rounded once.
void kernel_linear(const KernelCall& call) { as_product(call, kernel_matmul, kernel_matmul_add); }

int64_t workspace_linear(const KernelCall& call) {
  return as_product(call, workspace_matmul, workspace_matmul_add);
}

}  // namespace tinyt::cpu
