#include "cpu/matmul/linear.h"

#include "cpu/matmul/matmul.h"

namespace tinyt::cpu {

// The bits of the two operations, but that halves are rounded once.
void kernel_linear(const KernelCall& call) {
  const Tensor &weight = call.inputs[1], &bias = call.inputs[2];
  const Tensor columns = weight.view(Dims{weight.size(1), weight.size(0)},
                                     Dims{weight.stride(1), weight.stride(0)}, weight.offset());
  const Tensor operands[] = {call.inputs[0], columns, bias};
  if (bias.rank() == 0) {
    kernel_matmul({OpId::matmul, std::span(operands).first(2), call.outputs, call.attrs,
                   call.compute, call.tail});
  } else {
    kernel_matmul_add(
        {OpId::matmul_add, operands, call.outputs, call.attrs, call.compute, call.tail});
  }
}

}  // namespace tinyt::cpu
