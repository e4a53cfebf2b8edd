// Selection along one dimension without sorting it: the first k, the k-th, the median.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_topk(const KernelCall& call);
void kernel_kthvalue(const KernelCall& call);
void kernel_median(const KernelCall& call);
int64_t workspace_select(const KernelCall& call);  // of either

}  // namespace tinyt::cpu
