#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// Registers the CPU; called once by the bindings.
void register_cpu();

// The most bytes that a call's kernel takes for itself at once (FusionTarget::workspace).
size_t workspace_of(const KernelCall& call);

}  // namespace tinyt::cpu
