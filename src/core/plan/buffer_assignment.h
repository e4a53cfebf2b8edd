// Where blocks that are alive at different times lie in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tinyt {

// A block that is needed from its first step to its last.
struct Lifetime {
  int64_t first, last;
  size_t bytes;
};

struct Packing {
  std::vector<size_t> offsets;
  size_t bytes = 0;  // in all
};

// Each block gets the smallest gap that holds it when its first of `steps` comes. Offsets are
// multiples of the alignment. No block lies across a multiple of `piece` (0: there are none), which
// is one of the alignment's and no smaller than any block.
Packing pack(std::span<const Lifetime> blocks, int64_t steps, size_t alignment, size_t piece = 0);

}  // namespace tinyt
