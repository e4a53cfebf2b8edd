// Normalisation of groups of channels of each sample, and its gradients.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_group_norm(const KernelCall& call);
void kernel_group_norm_backward(const KernelCall& call);
int64_t workspace_group_norm(const KernelCall& call);
int64_t workspace_group_norm_backward(const KernelCall& call);

}  // namespace tinyt::cpu
