// Normalisation over the last dimensions, and its gradients.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_layer_norm(const KernelCall& call);
void kernel_layer_norm_backward(const KernelCall& call);
int64_t workspace_layer_norm(const KernelCall& call);
int64_t workspace_layer_norm_backward(const KernelCall& call);

}  // namespace tinyt::cpu
