// Losses of class indices over log_softmax, without storing the log-probabilities.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_softmax_nll(const KernelCall& call);
void kernel_softmax_nll_input(const KernelCall& call);
int64_t workspace_softmax_nll(const KernelCall& call);
int64_t workspace_softmax_nll_input(const KernelCall& call);

}  // namespace tinyt::cpu
