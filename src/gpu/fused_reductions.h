// The row reductions of a fused kernel, in the CPU's order (core/ops/row_order.h), for whoever
// prints it: lanes of a block, which combine in halves, and the tree over blocks.
#pragma once

#include <string>
#include <vector>

#include "gpu/fused_loops.h"

namespace tinyt::gpu {

class FusedReductions : public FusedLoops {
 public:
  using FusedLoops::FusedLoops;

  // Memory that threads share, where they take a row together: at the kernel's begin, or in front.
  void print_shared();
  // What `reductions` make of a row, and the targets in the same loop: `block` elements at a time.
  void print_reductions(const std::vector<int>& reductions, const std::vector<int>& wanted,
                        const std::vector<Target>& targets, int64_t block);

 private:
  void clear_lanes(int v);
  void fold(const std::vector<int>& reductions);
  void fold_alone(int v);
  void fold_together(const std::vector<int>& reductions);
  std::string folded(int v) const;
  void add_to_tree(int v, const std::string& block);
  void finish(int v);
};

}  // namespace tinyt::gpu
