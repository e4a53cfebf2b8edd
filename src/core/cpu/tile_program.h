#pragma once

#include <span>

#include "../program.h"

namespace tinyt::cpu {

// Runs a region of scalar ops with the kernels of eager calls, on tiles of kTileElements.
void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, char* out);

}  // namespace tinyt::cpu
