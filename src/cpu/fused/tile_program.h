// Tile programs: the body of a fused region, and the space and operands that it runs over.
#pragma once

#include <vector>

#include "core/base/shape.h"
#include "core/ops/ops.h"

namespace tinyt::cpu {

// What runs over rows x cols elements, one tile after another: scalar ops, conversions, and
// reductions of whole rows, whose results other steps may take. Values live in registers: a tile,
// or one element a row; the first registers are the inputs.
struct TileProgram {
  // The limits of a region.
  static constexpr int kMaxNodes = 64;
  static constexpr int64_t kFewRows = 8;  // are too few to share out among threads, if long

  struct Register {
    DType dtype;
    bool per_row = false;
    int place = 0;  // a tile (of those with one element a row: its own), or of an output ~number
  };
  struct Step {
    OpId op;      // scalar, cast, or a reduction
    DType dtype;  // of the kernel, and of what a cast takes
    int out;
    int in[kMaxScalarInputs];
    int inputs;
    // A half: float32 values that a cast rounds to it, or that are and become halves.
    DType half = DType::Float32;
  };
  std::vector<Register> registers;
  int inputs = 0;
  std::vector<Step> steps;
  std::vector<int> outputs;  // registers
  int tiles = 0, row_tiles = 0;
  bool reduces = false;    // there are reductions
  bool uses_rows = false;  // and steps over elements that take what they make

  bool is_row_step(const Step& s) const { return registers[static_cast<size_t>(s.out)].per_row; }
};

// The loops of a region: rows inside the outer loops, of which the last goes from row to row.
struct TileSpace {
  Dims outer;
  int64_t cols = 1;
  int gathered = 0;     // operands
  bool turned = false;  // some of them lie along the last outer loop

  int64_t row_count() const { return numel_of(outer); }
};

// An operand of a region, at byte strides of the outer loops; along a row it is dense (inner), one
// element, or gathered.
struct TileOperand {
  char* data = nullptr;
  Dims stride;
  bool inner = true;
  int64_t gather = 0;  // bytes from one column to the next
};

}  // namespace tinyt::cpu
