// Convolutions over 1 to 3 spatial dimensions, and their gradients, as products of matrices.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// x [N, C, *S] with w [O, C / groups, *K] gives [N, O, *out]; attributes stride, padding,
// dilation (a list each), groups. No bias.
void kernel_conv(const KernelCall& call);

// The gradient of conv with respect to x: inputs grad [N, O, *out] and w; attributes size (the
// shape of x), then as above. Also the transposed convolution.
void kernel_conv_backward_input(const KernelCall& call);

// The gradient of conv with respect to w: inputs grad [N, O, *out] and x; attributes size (the
// shape of w), then as above.
void kernel_conv_backward_weight(const KernelCall& call);

int64_t workspace_conv(const KernelCall& call);
int64_t workspace_conv_backward_input(const KernelCall& call);
int64_t workspace_conv_backward_weight(const KernelCall& call);

}  // namespace tinyt::cpu
