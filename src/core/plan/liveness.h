// What a graph's values take while its nodes run one after another, each result in memory of its
// own until nothing reads it any more: the least that eager mode holds.
#pragma once

#include <functional>
#include <vector>

#include "core/graph/graph.h"

namespace tinyt {

// What is held while each node runs, its results included, by those nodes that `runs` says run;
// the graph's outputs may have memory from elsewhere.
std::vector<size_t> unfused_held(const Graph& graph, const std::function<bool(int64_t)>& runs,
                                 bool takes_outputs);

}  // namespace tinyt
