// Running sums along one dimension.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

void kernel_cumsum(const KernelCall& call);

}  // namespace tinyt::cpu
