// A fused kernel on the CPU: steps over tiles, and how its operands lie for them.
#pragma once

#include <memory>

#include "core/graph/fusion_target.h"
#include "cpu/fused/tile_program.h"
#include "cpu/schedule/machine_model.h"

namespace tinyt::cpu {

constexpr FusionLimits kFusionLimits{.ops = TileProgram::kMaxNodes,
                                     .reductions = true,
                                     .products = true,
                                     .row_bytes = kReusedRowBytes,
                                     .few_rows = TileProgram::kFewRows,
                                     .long_row = kPassesChunk};

std::shared_ptr<CompiledKernel> compile_tiles(const FusedKernel& kernel);

}  // namespace tinyt::cpu
