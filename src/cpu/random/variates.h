// RngOffsets by rejection: gamma, Dirichlet, Poisson, binomial, von Mises. Like those of random.h
// they depend on seed, offset and size alone; levels.h says which words an element takes.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_standard_gamma(const KernelCall& call);
// Along the last dimension: gamma-distributed values over their sum.
void kernel_dirichlet(const KernelCall& call);
void kernel_poisson(const KernelCall& call);
void kernel_binomial(const KernelCall& call);
// Angles around 0, in [-pi, pi].
void kernel_von_mises(const KernelCall& call);
int64_t workspace_variates(const KernelCall& call);  // of any of these

}  // namespace tinyt::cpu
