// Makes scalar definitions: equal operations once, what is known already as constants.
#pragma once

#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "core/ops/scalar_definition.h"

namespace tinyt {

class DefinitionBuilder {
 public:
  using Node = ScalarDefinition::Node;

  int input(ScalarType type);
  int constant(ScalarType type, uint64_t bits);
  // The value of an operation on nodes; one that is there already where it would be the same.
  int value(MachineOp op, ScalarType type, int a, int b = -1, int c = -1, uint64_t bits = 0);
  int lookup(std::span<const uint64_t> table, int index);

  // A loop of at most so many turns: the carried values with their first ones; where to leave it;
  // its end, with the carried values' next ones.
  std::vector<int> begin_loop(std::span<const int> first, uint64_t most);
  void leave_unless(int more);
  void end_loop(std::span<const int> carried, std::span<const int> next);

  // A condition that is seldom true.
  void mark_rare(int condition) { rare_.push_back(condition); }

  const Node& node(int i) const { return nodes_[static_cast<size_t>(i)]; }
  ScalarType type(int i) const { return node(i).type; }

  // Only what the result needs, numbered anew.
  ScalarDefinition finish(int result) const;

 private:
  using Key = std::tuple<MachineOp, ScalarType, int, int, int, uint64_t>;

  int append(const Node& node);
  // A simpler node of the same value, or -1.
  int simpler(const Node& node);
  int folded(const Node& node);
  bool is_constant(int i) const { return i >= 0 && node(i).op == MachineOp::constant; }
  bool is_constant(int i, uint64_t bits) const { return is_constant(i) && node(i).bits == bits; }
  std::vector<bool> needed(int result) const;

  std::vector<Node> nodes_;
  std::vector<ScalarType> inputs_;
  std::vector<std::vector<uint64_t>> tables_;
  std::vector<int> rare_;
  std::map<Key, int> known_;
  // Those made since a loop began are not there behind it.
  std::vector<Key> in_loop_;
  bool looping_ = false;
};

}  // namespace tinyt
