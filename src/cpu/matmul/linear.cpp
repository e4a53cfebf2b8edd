#include "cpu/matmul/linear.h"

#include "core/ops/linear_as_matmul.h"
#include "cpu/matmul/matmul.h"

namespace tinyt::cpu {

// The bits of the two operations, but that halves are rounded once.
void kernel_linear(const KernelCall& call) {
  linear_as_matmul(call, kernel_matmul, kernel_matmul_add);
}

int64_t workspace_linear(const KernelCall& call) {
  return linear_as_matmul(call, workspace_matmul, workspace_matmul_add);
}

}  // namespace tinyt::cpu
