// An optimiser's step as one node of a recorded graph.
#pragma once

#include "core/graph/graph.h"
#include "core/ops/optim.h"

namespace tinyt {

// Records the update of all plain items and returns the numbers of the others, as optim_step does.
// `cells` are the operands of the numbers, which are read anew at every run, as counters are.
std::vector<int64_t> record_optim_step(Graph& graph, const OptimSettings& settings,
                                       std::span<const OptimItem> items,
                                       std::span<const Tensor> cells);

}  // namespace tinyt
