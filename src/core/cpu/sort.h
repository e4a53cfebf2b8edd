// Stable sort along one dimension: values and the positions they came from.
#pragma once

#include "../backend.h"

namespace tinyt::cpu {

// The view with dimension `dim` moved to the end.
Tensor with_last(const Tensor& t, size_t dim);

void kernel_sort(const KernelCall& call);

}  // namespace tinyt::cpu
