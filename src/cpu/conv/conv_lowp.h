// Convolutions of bfloat16 on units made for products of it, summed in float32.
#pragma once

#include "core/tensor/tensor.h"
#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// y [images, groups * outs, positions] from `lines`, the weights: the terms of a sum go by blocks
// of channels, in each by taps.
void lowp_conv_product(const ConvProblem& d, const Tensor& lines, const Tensor& y);
int64_t lowp_conv_workspace(const ConvProblem& d, const Tensor& lines);

// dw [groups * outs, ins, taps], the gradient of the weights from that of the output, `grad`
// [images, groups * outs, positions]. False, and dw is unfinished, where a sum came out infinite or
// NaN: positions of no output take part in the sums with a factor of zero.
bool lowp_conv_weights(const ConvProblem& d, const Tensor& grad, const Tensor& dw);
int64_t lowp_conv_weights_workspace(const ConvProblem& d);

}  // namespace tinyt::cpu
