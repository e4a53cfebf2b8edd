// What a device brings for programs: how fused regions run on it, and what its steps take.
#pragma once

#include <cstdint>
#include <span>

#include "core/ops/kernels.h"

namespace tinyt {

// What a call would take, roughly: of one thread, and into how many parts it can be cut for
// several.
struct CostEstimate {
  int64_t nanoseconds = 0;  // 0: not known
  int64_t parts = 1;
  bool takes_memory = true;  // or may take some, while it runs
};

struct TileProgram;
struct TileOperand;
struct TileSpace;

struct FusionTarget {
  // Runs a region over its space; outputs are dense: rows x cols values, or one a row.
  void (*run_tiles)(const TileProgram& program, std::span<const TileOperand> operands,
                    const TileSpace& space, std::span<char* const> outputs);
  // The same after a product, on its result, which is one of the operands.
  void (*run_product)(Kernel kernel, const KernelCall& product, const TileProgram& program,
                      std::span<const TileOperand> operands, const TileSpace& space,
                      std::span<char* const> outputs);
  // The dtype whose kernel a scalar op runs for a call of `compute`, `mixed` with other dtypes.
  DType (*kernel_dtype)(OpId op, DType compute, bool mixed);
  // Both look at geometry alone.
  CostEstimate (*effort)(const KernelCall& call);
  CostEstimate (*tiles_effort)(const TileProgram& program, const TileSpace& space);
  // Whether a matmul_add's result may be its addend: the kernel reads an element when it writes it.
  // Of geometry, too.
  bool (*adds_in_place)(const KernelCall& call);
};

// Of a kind of device, for as long as the process lives.
void register_fusion_target(DeviceKind kind, const FusionTarget& target);
const FusionTarget& fusion_target_of(Device device);  // DeviceError where there is none

}  // namespace tinyt
