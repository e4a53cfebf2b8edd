#pragma once

#include <span>

#include "core/ops/kernels.h"
#include "core/plan/tile_program.h"

namespace tinyt::cpu {

// Runs a region with the kernels of eager calls, tile by tile: the bits are theirs.
void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, std::span<char* const> outputs);

// The same on the result of a product, block by block where its kernel tells.
void run_product(Kernel kernel, const KernelCall& product, const TileProgram& program,
                 std::span<const TileOperand> operands, const TileSpace& space,
                 std::span<char* const> outputs);

// Whether the tiles of a region whose results stay in the caches need no memory but the stack.
bool fits_on_stack(const TileProgram& program, const TileSpace& space);

}  // namespace tinyt::cpu
