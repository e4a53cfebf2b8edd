// Chooses which nodes of a graph run as one region.
#pragma once

#include "program.h"

namespace tinyt {

// Nodes that run as one step: a single one, or scalar ops and perhaps the reduction that ends them.
struct Group {
  std::vector<int64_t> nodes;
  TileProgram tiles;            // of more than one
  std::vector<int64_t> inputs;  // value numbers, one per input register
  int64_t output = -1;
  Dims shape;          // of the scalar ops
  size_t reduced = 0;  // how many of its last dimensions are reduced

  bool is_region() const { return nodes.size() > 1; }
};

// Grows regions: a scalar op joins the region of the node before it, views and constants aside,
// when it works on the same shape and the values between them are needed nowhere else; a reduction
// of the last dimensions may end one.
class Fuser {
 public:
  // No region reaches over the graph's mark.
  explicit Fuser(const Graph& graph);
  std::vector<Group> run();

 private:
  bool can_fuse(const Graph::Node& node) const;
  bool can_end(const Graph::Node& node, const std::vector<int64_t>& chain) const;
  bool stands_aside(const Graph::Node& node, int64_t last) const;
  bool feeds_only(int64_t value, int64_t consumer) const;
  Group group_of(const std::vector<int64_t>& chain, int64_t reduction) const;

  const Graph& graph_;
  std::vector<int64_t> uses_;  // of each value, by nodes and outputs
};

}  // namespace tinyt
