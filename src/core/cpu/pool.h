// Pooling over windows of 1 to 3 spatial dimensions.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

// x [N, C, *S]; attributes kernel, stride, padding, dilation (a list each), ceil. Two outputs
// [N, C, *out]: the largest value of each window and its position in the flattened *S as int64:
// of equal values the first, of NaNs, which count as largest, the last. Padding never wins.
void kernel_max_pool(const KernelCall& call);

}  // namespace tinyt::cpu
