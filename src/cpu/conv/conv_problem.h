// The problem that every strategy of a convolution solves: sizes, and where the source lies.
#pragma once

#include "core/base/dtype.h"
#include "cpu/conv/im2col.h"

namespace tinyt::cpu {

// A product of weights [groups * outs, ins * taps] with the columns of a source, for each group.
struct ConvProblem {
  DType dtype;  // Float32, Float64 or Int64; BFloat16 on units made for it
  int64_t images, groups, ins, outs;
  Columns columns;  // of the first group

  int64_t taps() const { return product(columns.kernel); }
  int64_t positions() const { return product(columns.positions); }
};

}  // namespace tinyt::cpu
