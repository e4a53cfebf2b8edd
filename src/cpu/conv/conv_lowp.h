// Convolutions of bfloat16 on units made for products of it, summed in float32.
#pragma once

#include "cpu/conv/conv_direct.h"

namespace tinyt::cpu {

// Whether the level in use has such units, and this is the faster form for the problem.
bool low_conv_pays(const Direct& d);

// y [images, groups * outs, positions], as direct_product: the terms of a sum go by blocks of
// channels, in each by taps.
void low_conv_product(const Direct& d, const Tensor& lines, const Tensor& y);
int64_t low_conv_workspace(const Direct& d, const Tensor& lines);

// dw [groups * outs, ins, taps], the gradient of the weights from that of the output, `grad`
// [images, groups * outs, positions]. False, and dw is unfinished, where a sum came out infinite or
// NaN: positions of no output take part in the sums with a factor of zero.
bool low_conv_weights(const Direct& d, const Tensor& grad, const Tensor& dw);
int64_t low_conv_weights_workspace(const Direct& d);

}  // namespace tinyt::cpu
