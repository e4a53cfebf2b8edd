// Every scalar op: strides, broadcasting and conversion around the contiguous kernels.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

void kernel_elementwise(const KernelCall& call);

}  // namespace tinyt::cpu
