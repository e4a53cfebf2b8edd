#pragma once

#include <span>

#include "core/ops/kernels.h"
#include "cpu/fused/tile_program.h"

namespace tinyt::cpu {

// Runs a region with the kernels of eager calls, tile by tile: the bits are theirs.
void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, std::span<char* const> outputs);

// The same on the result of a product, block by block where its kernel tells.
void run_product(Kernel kernel, const KernelCall& product, const TileProgram& program,
                 std::span<const TileOperand> operands, const TileSpace& space,
                 std::span<char* const> outputs);

// What these take for themselves at once (FusionTarget).
size_t tiles_workspace(const TileProgram& program, std::span<const TileOperand> operands,
                       const TileSpace& space, uint64_t replaced);
size_t product_workspace(const KernelCall& product, const TileProgram& program,
                         std::span<const TileOperand> operands, const TileSpace& space,
                         uint64_t replaced);

}  // namespace tinyt::cpu
