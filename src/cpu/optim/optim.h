// The step of an optimiser over all of its parameters, and sums of squares of several tensors.
#pragma once

#include "core/ops/kernels.h"
#include "core/ops/optim.h"

namespace tinyt::cpu {

void optim_step(OptimRule rule, std::span<const OptimItem> items);
void kernel_sum_squares(const KernelCall& call);

}  // namespace tinyt::cpu
