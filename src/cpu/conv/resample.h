// Sums with given weights along 1 to 3 spatial dimensions: average pools and interpolation.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// x [N, C, *S] and the weights of a sparse matrix for each spatial dimension; attributes size,
// taps, index, transposed (see ops.def). Output [N, C, *size]: each plane multiplied by the
// matrices, the last dimension's at the end.
void kernel_resample(const KernelCall& call);
int64_t workspace_resample(const KernelCall& call);

}  // namespace tinyt::cpu
