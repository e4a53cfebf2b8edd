// Normalisation of channels, and its gradients.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_batch_norm(const KernelCall& call);
void kernel_batch_norm_backward(const KernelCall& call);
int64_t workspace_batch_norm(const KernelCall& call);
int64_t workspace_batch_norm_backward(const KernelCall& call);

}  // namespace tinyt::cpu
