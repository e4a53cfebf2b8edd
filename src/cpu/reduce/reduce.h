// Reductions: sum, prod, amax, amin over any dimensions, argmax and argmin over one.
//
// The order in which elements combine follows from the shape and the dimensions alone. The
// elements of one result are taken in logical (row-major) order; where the innermost dimension
// larger than 1 is reduced they combine as a row, else as a column (levels.h states both orders).
// So a view gives the same bits as its contiguous copy, and one thread the same as many.
#pragma once

#include "core/ops/kernels.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

// Of sum, prod, amax and amin.
Reduction reduction_of(OpId op);

// Elements that a column, or a lane of a row, takes in order before blocks combine.
inline int64_t column_block_of(Reduction reduction) {
  return reduction == Reduction::Prod ? kProductBlock : kColumnBlock;
}

// Sums of several blocks of rows, n values each, combine as in a column reduction: neighbours
// first, an odd one out moves up unchanged. The result takes the first one's place.
void add_parts(DType dtype, void* parts, int64_t count, int64_t n);

void kernel_reduce(const KernelCall& call);
void kernel_nansum(const KernelCall& call);
void kernel_norm(const KernelCall& call);
void kernel_argmax(const KernelCall& call);
void kernel_argmin(const KernelCall& call);
int64_t workspace_reduce(const KernelCall& call);  // of a reduction, nansum or norm
int64_t workspace_argmax(const KernelCall& call);
int64_t workspace_argmin(const KernelCall& call);

}  // namespace tinyt::cpu
