#include "cut.h"

#include <algorithm>
#include <set>

namespace tinyt {

namespace {

// The inputs whose memory the first part writes: it is not what it was when the later part runs.
std::set<int64_t> written_inputs(const Graph& graph) {
  std::set<int64_t> found;
  for (const Graph::Write& write : graph.writes()) {
    if (graph.values()[write.value].node >= graph.mark().node) continue;
    for (const Graph::Input& input : graph.inputs())
      if (input.argument == write.argument &&
          (input.argument >= 0 || input.tensor.impl() == write.target.impl()))
        found.insert(input.value);
  }
  return found;
}

}  // namespace

Cut cut_of(const Graph& graph) {
  Cut cut{graph.mark().node, {}, {}, {}};
  const std::set<int64_t> written = written_inputs(graph);
  std::set<int64_t> carried, repeated, inputs;
  std::vector<int64_t> wanted;
  const auto want = [&](int64_t v) {
    const int64_t node = graph.values()[v].node;
    if (node < 0 && !written.contains(v)) inputs.insert(v);
    if (node < 0 ? written.contains(v) : node < cut.node) wanted.push_back(v);
  };
  for (auto n = cut.node; n < static_cast<int64_t>(graph.nodes().size()); ++n)
    for (int64_t v : graph.nodes()[n].inputs) want(v);
  for (auto o = graph.mark().output; o < graph.outputs().size(); ++o)
    want(graph.outputs()[o].value);
  while (!wanted.empty()) {
    const int64_t v = wanted.back(), n = graph.values()[v].node;
    wanted.pop_back();
    if (n < 0) {
      carried.insert(v);
      continue;
    }
    const Graph::Node& node = graph.nodes()[n];
    if (!node.opaque && (has_flag(node.op, op_flags::V) || node.op == OpId::fill)) {
      if (repeated.insert(n).second)
        for (int64_t input : node.inputs) want(input);
    } else {
      carried.insert(v);
    }
  }
  cut.carried.assign(carried.begin(), carried.end());
  cut.repeated.assign(repeated.begin(), repeated.end());
  cut.inputs.assign(inputs.begin(), inputs.end());
  return cut;
}

}  // namespace tinyt
