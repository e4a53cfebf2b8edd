// 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3): 36 products of matrices, one for each
// element of a transformed 6x6 tile, with a quarter of the multiplications (ADR 0008). Taps
// along the first of three dimensions are summed like channels.
#pragma once

#include "core/tensor/tensor.h"
#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// y [images, groups * outs, positions] from `lines`, the weights; the terms of a sum go in blocks,
// channel by channel. False, and y is unfinished, where an element came out infinite or NaN: the
// transforms spread those over a tile, and overflow before the sums themselves do.
bool winograd_product(const ConvProblem& d, const Tensor& lines, const Tensor& y);
int64_t winograd_workspace(const ConvProblem& d);

// dw [groups * outs, ins, taps], the gradient of the weights from that of the output, `grad`
// [images, groups * outs, positions], and the source `x`, which d.columns does not point to: both
// of any dtype that computes in float32. False, and dw is unfinished, as above.
bool winograd_weights(const ConvProblem& d, const Tensor& grad, const Tensor& x, const Tensor& dw);
int64_t winograd_weights_workspace(const ConvProblem& d, const Tensor& grad, const Tensor& x);

}  // namespace tinyt::cpu
