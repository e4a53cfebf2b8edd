// Convolutions as products over regions of the output. All positions of a region meet the same taps
// inside the source, so nothing is multiplied by the zeros beside it.
#pragma once

#include "cpu/conv/conv_direct.h"

namespace tinyt::cpu {

// Whether this form is the faster one: it leaves out enough.
bool regions_pay(const Direct& d);

// y [images, groups * outs, positions], as direct_product; a sum's terms go tap by tap, each tap's
// channels in blocks.
void regions_product(const Direct& d, const Tensor& lines, const Tensor& y);
int64_t regions_workspace(const Direct& d);

}  // namespace tinyt::cpu
