// Two programs of one graph: what runs now, and what runs later on what the first part kept.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace tinyt {

struct Partition {
  int64_t node = 0;               // the first one of the later part
  std::vector<int64_t> saved;     // values that the first part keeps for the later one
  std::vector<int64_t> repeated;  // nodes of the first part that cost nothing: run again
  std::vector<int64_t> inputs;    // of the graph: those that the later part reads
};

// Cuts a graph where its split point is. Views are made again of what they are views of.
Partition partition_of(const Graph& graph);

}  // namespace tinyt
