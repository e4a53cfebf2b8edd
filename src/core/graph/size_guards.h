// Size guards: what passes ask of the sizes in a recorded graph while they simplify it. Another
// recording of the same nodes is simplified alike, with its own sizes, where every answer is what
// it was.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/symbolic_scalars.h"

namespace tinyt {

class SizeGuards {
 public:
  // Gives the sizes of a graph the numbers from 0 on in `table`: the shapes of its values, the
  // integer attributes of its nodes (lists with their length), and of its outputs shape, strides
  // and offset.
  explicit SizeGuards(const Graph& graph);
  SymbolicScalars& table() { return table_; }

  // Of Python's numbers among the inputs, by their values: this one decides what a pass makes, but
  // for its being neither 0 nor 1; these two are taken for one.
  void hold_number(int64_t input) { held_.insert(input); }
  void merge_numbers(int64_t one, int64_t other) { merged_.emplace_back(one, other); }

  // What the passes made, as Graph::rewritten takes it; a place in it has the size of that number.
  void keep(std::vector<int64_t> flat, std::vector<std::pair<size_t, int64_t>> places);
  // The same of another recording. Nothing, and why, where passes may simplify that otherwise.
  std::optional<std::vector<int64_t>> of(const Graph& other, std::string& why) const;

 private:
  // A graph but for its sizes; holds none of its tensors.
  struct Form {
    std::vector<std::string> names;
    std::vector<int64_t> nodes, types, rest;
    std::vector<size_t> ends;  // of the nodes, in `nodes`

    explicit Form(const Graph& graph);
    // From another one; nothing where they are equal.
    std::string difference(const Form& now) const;
  };

  bool same_numbers(const Graph& other) const;
  std::optional<std::vector<int64_t>> evaluated(const Graph& other) const;

  Form form_;
  std::vector<std::pair<int64_t, Tensor>> numbers_;  // Python's, and their values
  SymbolicScalars table_;
  std::unordered_set<int64_t> held_;
  std::vector<std::pair<int64_t, int64_t>> merged_;
  std::vector<int64_t> flat_;
  std::vector<std::pair<size_t, int64_t>> places_;
};

}  // namespace tinyt
