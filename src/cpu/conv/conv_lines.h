// Convolutions as products of matrices whose columns are read where they lie: in lines of the
// source, the same for all taps. Only the weights are packed.
#pragma once

#include "core/ops/kernels.h"
#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// How rows of a block of the output fill registers: elements of it, and those computed for nothing,
// with the time that parts of a row take.
struct LinesFill {
  int64_t used, unused;
};
LinesFill lines_fill(const ConvProblem& d);

// As direct_product; a sum's terms go in blocks.
void lines_product(const ConvProblem& d, const Tensor& lines, const Tensor& y, Epilogue* tail);
int64_t lines_workspace(const ConvProblem& d, Epilogue* tail);

}  // namespace tinyt::cpu
