// softmax and log_softmax along one dimension.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_softmax(const KernelCall& call);
void kernel_log_softmax(const KernelCall& call);
void kernel_softmax_backward(const KernelCall& call);
void kernel_log_softmax_backward(const KernelCall& call);
int64_t workspace_softmax(const KernelCall& call);  // of either
int64_t workspace_softmax_backward(const KernelCall& call);

}  // namespace tinyt::cpu
