// What kernels take, roughly, by the geometry of a call.
#pragma once

#include "core/graph/fusion_target.h"
#include "cpu/fused/tile_program.h"

namespace tinyt::cpu {

// Of scalar ops, reductions, copies and products; of others nothing is known.
CostEstimate cost_of(const KernelCall& call);
CostEstimate effort_of_tiles(const TileProgram& program, const TileSpace& space);

}  // namespace tinyt::cpu
