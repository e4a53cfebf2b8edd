// Reading and writing at computed positions: gather, scatter, scatter_add, nonzero.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

void kernel_gather(const KernelCall& call);
void kernel_scatter(const KernelCall& call);
void kernel_scatter_add(const KernelCall& call);

int64_t count_nonzero(const Tensor& x);
void kernel_nonzero(const KernelCall& call);

}  // namespace tinyt::cpu
