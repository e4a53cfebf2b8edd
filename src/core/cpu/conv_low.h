// Convolutions of bfloat16 on units made for products of it, summed in float32.
#pragma once

#include "direct.h"

namespace tinyt::cpu {

// Whether the level in use has such units, and this is the faster form for the problem.
bool low_conv_pays(const Direct& d);

// y [images, groups * outs, positions], as direct_product: the terms of a sum go by blocks of
// channels, in each by taps.
void low_conv(const Direct& d, const Tensor& lines, const Tensor& y);

}  // namespace tinyt::cpu
