// Binary search of values in sorted lines.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_searchsorted(const KernelCall& call);
int64_t workspace_searchsorted(const KernelCall& call);

}  // namespace tinyt::cpu
