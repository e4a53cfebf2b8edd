// Scaled dot-product attention and its gradients, block by block: the scores of all queries and
// keys never exist at once.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_attention(const KernelCall& call);
void kernel_attention_backward(const KernelCall& call);
int64_t workspace_attention(const KernelCall& call);
int64_t workspace_attention_backward(const KernelCall& call);

}  // namespace tinyt::cpu
