#include "core/graph/partition.h"

#include <algorithm>
#include <set>

namespace tinyt {

namespace {

// The inputs whose memory the first part writes: it is not what it was when the later part runs.
std::set<int64_t> written_inputs(const Graph& graph) {
  std::set<int64_t> found;
  for (const Graph::Write& write : graph.writes()) {
    if (graph.values()[write.value].node >= graph.split_point().node) continue;
    for (const Graph::Input& input : graph.inputs())
      if (input.argument == write.argument &&
          (input.argument >= 0 || input.tensor.impl() == write.target.impl()))
        found.insert(input.value);
  }
  return found;
}

}  // namespace

Partition partition_of(const Graph& graph) {
  Partition partition{graph.split_point().node, {}, {}, {}};
  const std::set<int64_t> written = written_inputs(graph);
  std::set<int64_t> saved, repeated, inputs;
  std::vector<int64_t> wanted;
  const auto want = [&](int64_t v) {
    const int64_t node = graph.values()[v].node;
    if (node < 0 && !written.contains(v)) inputs.insert(v);
    if (node < 0 ? written.contains(v) : node < partition.node) wanted.push_back(v);
  };
  for (auto n = partition.node; n < static_cast<int64_t>(graph.nodes().size()); ++n)
    for (int64_t v : graph.nodes()[n].inputs) want(v);
  for (auto o = graph.split_point().output; o < graph.outputs().size(); ++o)
    want(graph.outputs()[o].value);
  while (!wanted.empty()) {
    const int64_t v = wanted.back(), n = graph.values()[v].node;
    wanted.pop_back();
    if (n < 0) {
      saved.insert(v);
      continue;
    }
    const Graph::Node& node = graph.nodes()[n];
    if (!node.opaque && (has_flag(node.op, op_flags::view) || node.op == OpId::fill)) {
      if (repeated.insert(n).second)
        for (int64_t input : node.inputs) want(input);
    } else {
      saved.insert(v);
    }
  }
  partition.saved.assign(saved.begin(), saved.end());
  partition.repeated.assign(repeated.begin(), repeated.end());
  partition.inputs.assign(inputs.begin(), inputs.end());
  return partition;
}

// One of the two, with numbers of its own for the values that it has.
class Splitting {
 public:
  Splitting(const Graph& old, Graph& made)
      : old_(old), made_(made), number_(old.values_.size(), -1) {
    made.scalars_ = old.scalars_;
    made.arguments_ = old.arguments_;
    for (const Graph::Input& input : old.inputs_)
      if (input.argument >= 0) add_input(input);
  }

  void add_node(int64_t n) {
    Graph::Node node = old_.nodes_[n];
    for (int64_t& v : node.inputs) v = value(v);
    for (int64_t& v : node.outputs) v = add_value(v, static_cast<int64_t>(made_.nodes_.size()));
    made_.nodes_.push_back(std::move(node));
  }
  void add_output(int64_t v) {
    const int64_t now = value(v);
    made_.outputs_.push_back({now, made_.make(now)});
  }
  // A value that the other graph makes.
  void add_argument(int64_t v) {
    made_.add_argument(old_.make(v));
    number_[v] = made_.inputs_.back().value;
  }

 private:
  int64_t add_value(int64_t v, int64_t node) {
    const Graph::Value& was = old_.values_[v];
    return number_[v] = made_.add_value(was.shape, was.dtype, node, was.device);
  }
  void add_input(const Graph::Input& input) {
    made_.inputs_.push_back(input);
    made_.inputs_.back().value = add_value(input.value, -1);
  }
  int64_t value(int64_t v) {
    if (number_[v] < 0)  // a constant or number, read for the first time
      for (const Graph::Input& input : old_.inputs_)
        if (input.value == v) add_input(input);
    return number_[v];
  }

  const Graph& old_;
  Graph& made_;
  std::vector<int64_t> number_;
};

std::pair<std::unique_ptr<Graph>, std::unique_ptr<Graph>> Graph::split() const {
  const Partition partition = partition_of(*this);
  auto first = std::make_unique<Graph>(), later = std::make_unique<Graph>();
  Splitting now(*this, *first), then(*this, *later);
  for (int64_t v : partition.saved) then.add_argument(v);
  for (int64_t n : partition.repeated) then.add_node(n);
  for (int64_t n = 0; n < static_cast<int64_t>(nodes_.size()); ++n)
    (n < partition.node ? now : then).add_node(n);
  for (size_t o = 0; o < outputs_.size(); ++o)
    (o < split_point_.output ? now : then).add_output(outputs_[o].value);
  for (int64_t v : partition.saved) now.add_output(v);
  return {std::move(first), std::move(later)};
}

}  // namespace tinyt
