// Convolutions as products of matrices whose columns are read where they lie: in lines of the
// source, the same for all taps. Only the weights are packed.
#pragma once

#include "cpu/conv/conv_direct.h"

namespace tinyt::cpu {

// Whether this form is the faster one: rows of the output fill registers well enough.
bool lines_pay(const Direct& d);

// As direct_product; a sum's terms go in blocks.
void lines_product(const Direct& d, const Tensor& lines, const Tensor& y, Epilogue* tail);
int64_t lines_workspace(const Direct& d, Epilogue* tail);

}  // namespace tinyt::cpu
