// Convolutions as products over regions of the output. All positions of a region meet the same taps
// inside the source, so nothing is multiplied by the zeros beside it.
#pragma once

#include "core/tensor/tensor.h"
#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// Channels whose terms make a chain of fma, and positions of a block. There are taps.
struct DilatedBlock {
  int64_t channels, positions;
};
DilatedBlock dilated_block(const ConvProblem& d);

// What the products take, in registers of columns times taps: over regions, and as one.
struct DilatedCost {
  int64_t cut, whole;
};
DilatedCost dilated_cost(const ConvProblem& d);

// y [images, groups * outs, positions] from `lines`, the weights; a sum's terms go tap by tap, each
// tap's channels in blocks.
void dilated_product(const ConvProblem& d, const Tensor& lines, const Tensor& y);
int64_t dilated_workspace(const ConvProblem& d);

}  // namespace tinyt::cpu
