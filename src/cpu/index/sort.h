// Stable sort along one dimension: values and the positions they came from.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// The view with dimension `dim` moved to the end; whether it is there.
Tensor with_last(const Tensor& t, size_t dim);
bool is_last(const Tensor& x, size_t dim);
// Bytes of dense values and positions of a tensor's shape, from which they are copied where the
// dimension is another one.
int64_t sorted_bytes(const Tensor& like);

// Sorts the lines along the last dimension of a contiguous tensor; of each, the first elements that
// the results (contiguous too) have room for.
void sort_last(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending);
int64_t workspace_sort_last(const Tensor& x);

void kernel_sort(const KernelCall& call);
int64_t workspace_sort(const KernelCall& call);

}  // namespace tinyt::cpu
