// Cholesky factors, and systems of triangular matrices.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// Lower-triangular factors of batches of symmetric matrices, of which the lower triangle is read.
// The second output is 0, or the order of the first leading minor that is not positive; the factor
// is then NaN.
void kernel_cholesky(const KernelCall& call);
// X of A X = B for batches of triangular matrices A, by substitution.
void kernel_solve_triangular(const KernelCall& call);
int64_t workspace_cholesky(const KernelCall& call);
int64_t workspace_solve_triangular(const KernelCall& call);

}  // namespace tinyt::cpu
