// An optimiser's step as one node of a recorded graph.
#pragma once

#include "core/graph/graph.h"
#include "core/graph/graph_words.h"
#include "core/ops/optim.h"

namespace tinyt {

// The optimisers' names, in the order of the rules.
std::span<const char* const> step_names();

// The step whose name and numbers a file has; an error where there is none.
std::shared_ptr<const ExternalOp> step_of(std::string_view name, Words& numbers);

// Records the update of all plain items and returns the numbers of the others, as optim_step does.
// `cells` are the operands of the numbers, which are read anew at every run, as counters are.
std::vector<int64_t> record_optim_step(Graph& graph, const OptimSettings& settings,
                                       std::span<const OptimItem> items,
                                       std::span<const Tensor> cells);

}  // namespace tinyt
