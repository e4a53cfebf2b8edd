// The row `linear` in terms of matmul and matmul_add.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt {

// Calls either function with the product that a layer is, by the transposed weight; a 0-d bias is
// none.
template <class R>
R linear_as_matmul(const KernelCall& call, R (*matmul)(const KernelCall&),
                   R (*matmul_add)(const KernelCall&)) {
  const Tensor &weight = call.inputs[1], &bias = call.inputs[2];
  const Tensor columns = weight.view(Dims{weight.size(1), weight.size(0)},
                                     Dims{weight.stride(1), weight.stride(0)}, weight.offset());
  const Tensor operands[] = {call.inputs[0], columns, bias};
  if (bias.rank() == 0)
    return matmul({OpId::matmul, std::span(operands).first(2), call.outputs, call.attrs,
                   call.compute, call.tail});
  return matmul_add(
      {OpId::matmul_add, operands, call.outputs, call.attrs, call.compute, call.tail});
}

}  // namespace tinyt
