// Convolutions of few channels per group, computed without a matrix product: depthwise ones above
// all. There is nothing to reuse between rows of a product then, so packing would not pay.
#pragma once

#include "core/ops/kernels.h"
#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// Elements of a channel's copy for a band of the output, times channels; may be astronomical.
double direct_packed(const ConvProblem& d);

// y [images, groups * outs, positions]: each element is one chain of fma over (in, tap). A tail, or
// null, takes the positions of a channel as a row.
void direct_product(const ConvProblem& d, const Tensor& lines, const Tensor& y, Epilogue* tail);
int64_t direct_workspace(const ConvProblem& d, Epilogue* tail);

// parts [blocks, groups * outs * ins * taps]: the products of `grad` [images, groups * outs,
// positions] with the columns, summed over the positions of `per_block` images each.
void direct_weights(const ConvProblem& d, const Tensor& grad, int64_t per_block,
                    const Tensor& parts);
int64_t direct_weights_workspace(const ConvProblem& d, int64_t per_block);

}  // namespace tinyt::cpu
