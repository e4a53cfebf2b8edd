// A fused kernel on the CPU: steps over tiles, and how its operands lie for them.
#pragma once

#include <memory>

#include "core/graph/fusion_target.h"
#include "cpu/fused/tile_program.h"

namespace tinyt::cpu {

// The largest operand that is gathered where it lies: from memory, a tiled copy is faster
// (benchmarks/cases/compile.py has such cases).
constexpr int64_t kGatheredBytes = 4 << 20;

constexpr FusionLimits kFusionLimits{.ops = TileProgram::kMaxNodes,
                                     .reductions = true,
                                     .products = true,
                                     .row_bytes = TileProgram::kRowBytes,
                                     .few_rows = TileProgram::kFewRows,
                                     .long_row = TileProgram::kLongRow};

std::shared_ptr<CompiledKernel> compile_tiles(const FusedKernel& kernel);

}  // namespace tinyt::cpu
