// A finished graph as words, names and tensors, of which another process makes it again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace tinyt {

struct SerializedGraph {
  std::vector<int64_t> words;
  // What the words number: operations with their attributes ("sum dims:I keepdim:b"), and steps
  // that are no rows of the op table ("step Adam", "flow scan").
  std::vector<std::string> names;
  // The memory that was captured, each storage once, as a tensor that shows all of it.
  std::vector<Tensor> memories;
};

// NotImplementedError for steps that are code of the front end. Inputs that nothing reads are left
// out, and values are numbered anew.
SerializedGraph serialize(const Graph& graph);

// The graph again, over these memories; it draws from so many generators. Everything is checked, as
// the words may be anybody's: an error where they are no graph, or one of another version's
// operations.
std::shared_ptr<Graph> deserialize(std::span<const int64_t> words,
                                   std::span<const std::string> names,
                                   std::span<const Tensor> memories, int64_t generators);

}  // namespace tinyt
