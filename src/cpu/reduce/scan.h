// Scans along one dimension: running sums, products, extremes and log-sum-exps.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_cumsum(const KernelCall& call);
void kernel_cumprod(const KernelCall& call);
void kernel_cummax(const KernelCall& call);
void kernel_cummin(const KernelCall& call);
void kernel_logcumsumexp(const KernelCall& call);

}  // namespace tinyt::cpu
