// Stable sort along one dimension: values and the positions they came from.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

void kernel_sort(const KernelCall& call);

}  // namespace tinyt::cpu
