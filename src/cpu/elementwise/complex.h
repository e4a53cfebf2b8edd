// Complex arithmetic, built once at the baseline: functors for the scalar ops that take complex
// numbers, and the other families in terms of the real kernels on the parts.
#pragma once

#include "core/ops/kernels.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

// The kernel of a scalar op for Complex64 or Complex128, null where there is none.
TileKernel complex_kernel(OpId op, DType dtype);

// A complex tensor as its parts: shape [..., 2].
Tensor parts_of(const Tensor& x);

void complex_reduce(const KernelCall& call);
void complex_cumsum(const KernelCall& call);
void complex_scatter_add(const KernelCall& call);
void complex_matmul(const KernelCall& call);
int64_t workspace_complex_reduce(const KernelCall& call);
int64_t workspace_complex_scatter_add(const KernelCall& call);
int64_t workspace_complex_matmul(const KernelCall& call);

}  // namespace tinyt::cpu
