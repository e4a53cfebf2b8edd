// What a region of fused operations computes, for any device.
#pragma once

#include <span>
#include <vector>

#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

namespace tinyt {

// Elementwise operations, conversions and reductions of whole rows over one space. Values have
// numbers: first those of the loads, then of each operation's result. A value has an element for
// each of the space, or one for each row, which an operation on all elements takes along its row.
//
// Each operation does what a call of its own does: operands are converted as its row says, its
// result is rounded to its dtype, and a reduction adds up in the order of the device's own.
struct FusedKernel {
  struct Value {
    DType dtype;
    bool per_row = false;
  };
  // Single: one element, which calls take for a number's, converted once and with no rounding on
  // the way but that of integers.
  struct Operand {
    int value;
    bool single;
  };
  struct Op {
    OpId op;        // scalar, cast, copy, or a reduction of the last dimensions
    DType compute;  // of the call
    SmallVec<Operand, kMaxScalarInputs> in;
  };
  Dims shape;  // of the space
  size_t reduced = 0;
  int loads = 0;
  std::vector<Value> values;
  std::vector<Op> ops;
  std::vector<int> stores;  // values that operations have made, each dense in memory of its own
  // A product in front of it (kCount: none), and the load that is its result, or -1.
  struct Front {
    OpId op = OpId::kCount;
    int load = -1;
  };
  Front front;

  int made_by(size_t op) const { return loads + static_cast<int>(op); }
  int64_t cols() const { return numel_of(std::span(shape).last(reduced)); }
};

// What is no scalar op, but as good as one.
inline bool converts(OpId op) { return op == OpId::cast || op == OpId::copy; }

// RuntimeError where it is none: a value is read before it is made, or an operation does not give
// what its value is.
void verify(const FusedKernel& kernel);

// The meaning of a kernel: its stores, one operation after another, with the operations of the
// device that the loads are on. `loads` broadcast to the space.
std::vector<Tensor> interpret(const FusedKernel& kernel, std::span<const Tensor> loads);

}  // namespace tinyt
