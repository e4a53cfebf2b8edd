// Reductions that need two numbers of every part of the elements: the variance (mean and sum of
// squared distances from it) and logsumexp (maximum and sum of exponentials below it). Elements
// are read from memory once; parts combine in the order of reduce.h.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_var(const KernelCall& call);
void kernel_logsumexp(const KernelCall& call);
int64_t workspace_moments(const KernelCall& call);  // of either

}  // namespace tinyt::cpu
