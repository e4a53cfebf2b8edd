// Stable sort along one dimension: values and the positions they came from.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// The view with dimension `dim` moved to the end.
Tensor with_last(const Tensor& t, size_t dim);

// Sorts the lines along the last dimension of a contiguous tensor; of each, the first elements that
// the results (contiguous too) have room for.
void sort_last(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending);

void kernel_sort(const KernelCall& call);

}  // namespace tinyt::cpu
