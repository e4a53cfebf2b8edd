// Products of matrices by kernels by hand.
#pragma once

#include "gpu/matmul.h"

namespace tinyt::cuda {

// Into dense memory [batch, m, n] of the operands' dtype, or of that of their sums: with something
// added to it, if that is not null, of a shape that broadcasts to the result's, and rounded once.
// False where another kernel is better, or there is none for such a dtype.
bool multiply(const gpu::Product& product, const Tensor* addend, const Tensor& out);

}  // namespace tinyt::cuda
