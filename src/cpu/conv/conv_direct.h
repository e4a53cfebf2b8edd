// Convolutions of few channels per group, computed without a matrix product: depthwise ones above
// all. There is nothing to reuse between rows of a product then, so packing would not pay.
#pragma once

#include "core/ops/kernels.h"
#include "cpu/conv/im2col.h"

namespace tinyt::cpu {

// A product of `lines` [groups * outs, ins * taps] with the columns of `source`, for each group.
struct Direct {
  DType dtype;  // Float32, Float64 or Int64
  int64_t images, groups, ins, outs;
  Columns columns;  // of the first group

  int64_t taps() const { return product(columns.kernel); }
  int64_t positions() const { return product(columns.positions); }
  // Whether this form is the faster one, and its copy of the source not too large.
  bool pays() const;
};

// y [images, groups * outs, positions]: each element is one chain of fma over (in, tap). A tail, or
// null, takes the positions of a channel as a row.
void direct_product(const Direct& d, const Tensor& lines, const Tensor& y, Epilogue* tail);
int64_t direct_workspace(const Direct& d, Epilogue* tail);

// parts [blocks, groups * outs * ins * taps]: the products of `grad` [images, groups * outs,
// positions] with the columns, summed over the positions of `per_block` images each.
void direct_weights(const Direct& d, const Tensor& grad, int64_t per_block, const Tensor& parts);
int64_t direct_weights_workspace(const Direct& d, int64_t per_block);

}  // namespace tinyt::cpu
