// Rare paths of a scalar definition: the nodes that the result needs only under a condition that is
// seldom true, for printers that put them behind a branch.
#pragma once

#include <vector>

#include "core/ops/scalar_definition.h"

namespace tinyt::gpu {

class RarePaths {
 public:
  // Selects of one condition, and whatever only their second operands need.
  struct Path {
    int condition;
    int scope;                 // the path that the selects are in, or kCommon
    std::vector<int> selects;  // the last one first
  };
  static constexpr int kCommon = -1;

  explicit RarePaths(const ScalarDefinition& definition);

  const std::vector<Path>& paths() const { return paths_; }
  // The innermost path that a node is in; the path that a select ends, or kCommon.
  int scope_of(int node) const { return scope_[static_cast<size_t>(node)]; }
  int ended_by(int node) const { return ended_by_[static_cast<size_t>(node)]; }
  bool within(int node, int path) const { return common(scope_of(node), path) == path; }
  // The carried values of a loop and what stands up to its end are in one piece: [first, last].
  struct Loop {
    int first, last;
  };
  // Of a node in a loop; {node, node} of others.
  Loop loop_of(int node) const;
  // Whether all that is in no path has instructions for vectors.
  bool has_vectors() const;

 private:
  using Node = ScalarDefinition::Node;

  const Node& node(int i) const { return d_.nodes[static_cast<size_t>(i)]; }
  void find_loops();
  void find_scopes();
  bool is_rare(int condition) const;
  bool depends(int node, int on) const;
  int common(int a, int b) const;
  void use(int node, int scope);
  int path_for(int select, int scope);
  int cost_of(int path) const;

  const ScalarDefinition& d_;
  std::vector<Path> paths_;
  std::vector<int> scope_, ended_by_;
  std::vector<Loop> loops_;
  std::vector<bool> banned_;  // selects whose path is too short for a branch
};

}  // namespace tinyt::gpu
