// Fully connected layers: a product with a transposed weight, and a bias.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_linear(const KernelCall& call);
int64_t workspace_linear(const KernelCall& call);

}  // namespace tinyt::cpu
