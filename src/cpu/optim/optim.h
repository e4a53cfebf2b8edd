// The step of an optimiser over all of its parameters, and sums of squares of several tensors.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_optim_step(const KernelCall& call);
void kernel_sum_squares(const KernelCall& call);
int64_t workspace_sum_squares(const KernelCall& call);

}  // namespace tinyt::cpu
