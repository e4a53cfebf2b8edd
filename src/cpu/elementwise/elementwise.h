// Every scalar op: strides, broadcasting and conversion around the contiguous kernels.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// The dtype of the kernel that runs for a call of `compute`: itself where it has one. A number
// beside halves (`mixed`) is not rounded to them.
DType kernel_dtype(OpId op, DType compute, bool mixed);
void kernel_elementwise(const KernelCall& call);
int64_t workspace_elementwise(const KernelCall& call);

}  // namespace tinyt::cpu
