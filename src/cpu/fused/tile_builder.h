// A fused kernel as steps over registers.
#pragma once

#include <vector>

#include "core/graph/fusion_target.h"
#include "cpu/fused/tile_program.h"

namespace tinyt::cpu {

class TileBuilder {
 public:
  explicit TileBuilder(const FusedKernel& kernel);
  void run();

  TileProgram tiles;
  std::vector<CompiledKernel::Operand> operands;

 private:
  // Registers while building: that of an operand is ~its number.
  struct LiveBuffer {
    int from;
    DType dtype, half;
    int is;
  };
  // An operation's result. Wide: a half's, each as the float32 that it is, as kernels take it.
  struct Made {
    int is;
    bool wide = false;
  };
  using Operand = FusedKernel::Operand;

  const FusedKernel::Value& value(int v) const { return kernel_.values[static_cast<size_t>(v)]; }
  bool is_made(int v) const { return v >= kernel_.loads; }
  const Made& made(int v) const { return made_[static_cast<size_t>(v - kernel_.loads)]; }
  DType dtype_of(int r) const;
  int input(int load, DType dtype, DType through);
  int add(DType dtype, bool per_row);
  int copy(int from, bool per_row);
  int cast(int from, DType to, bool per_row, DType half = DType::Float32);
  void make(int v, int is);
  bool stays_half(const FusedKernel::Op& op, DType dtype) const;
  int operand(const Operand& in, DType want, DType compute, bool by_row);
  void add_scalar(const FusedKernel::Op& op, int v);
  void add_cast(const FusedKernel::Op& op, int v);
  void add_reduction(const FusedKernel::Op& op, int v);
  void add_output(int v);
  void drop_unused();
  void finish();
  void place();

  const FusedKernel& kernel_;
  std::vector<bool> is_read_;  // by an operation
  std::vector<LiveBuffer> casts_;
  std::vector<Made> made_;
  bool widens_ = false;  // there are many operations on halves
};

}  // namespace tinyt::cpu
