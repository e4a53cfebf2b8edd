// What a graph's values take while its nodes run one after another, each result in memory of its
// own until nothing reads it any more: the least that eager mode holds.
#pragma once

#include <functional>

#include "graph.h"

namespace tinyt {

// The most that is held at once by the results of those nodes that `runs` says run.
size_t unfused_peak(const Graph& graph, const std::function<bool(int64_t)>& runs);

}  // namespace tinyt
