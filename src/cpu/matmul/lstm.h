// Long short-term memory over a whole sequence, and its gradients (ADR 0007).
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_lstm(const KernelCall& call);
void kernel_lstm_backward(const KernelCall& call);
int64_t workspace_lstm(const KernelCall& call);
int64_t workspace_lstm_backward(const KernelCall& call);

}  // namespace tinyt::cpu
