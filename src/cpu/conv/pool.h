// The largest values of windows of 1 to 3 spatial dimensions.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// x [N, C, *S]; attributes size, begin, end, step (a list each). Two outputs [N, C, *size]: the
// largest value of each window and its position in the flattened *S as int64: of equal values the
// first, of NaNs, which count as largest, the last. An empty window has the lowest value.
void kernel_max_pool(const KernelCall& call);
int64_t workspace_max_pool(const KernelCall& call);

}  // namespace tinyt::cpu
