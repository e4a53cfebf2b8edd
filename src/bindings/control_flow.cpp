// Control flow for Python: recordings of parts, and nodes that run them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include "casters.h"
#include "core/graph/partition.h"
#include "core/program/control_flow.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;
using Numbers3 = std::vector<std::tuple<int64_t, int64_t, int64_t>>;
// (recording, sources, draws)
using Part = std::tuple<std::shared_ptr<Graph>, Numbers3, Numbers3>;

FlowPart part_of(const Part& given) {
  const auto& [graph, sources, draws] = given;
  require(graph->split_point().node < 0, ErrorKind::Value,
          "control flow: a recording with a split point is to be split");
  FlowPart out{graph, {}, {}};
  for (const auto& [kind, at, other] : sources)
    out.sources.push_back({static_cast<FlowSource::Kind>(kind), at, other});
  for (const auto& [generator, first, count] : draws)
    out.draws.push_back({generator, first, count});
  return out;
}

Tensors record(std::shared_ptr<const ExternalOp> node, const Tensors& inputs) {
  require(recording() && !inputs.empty(), ErrorKind::Capture,
          "control flow: recorded outside a recording");
  return recording()->record(std::move(node), inputs);
}

std::shared_ptr<Graph> new_part() {
  require(recording(), ErrorKind::Capture, "record: a part needs a recording around it");
  return std::make_shared<Graph>(*recording());
}

// Which arguments the later part of a recording reads, and of each value that the first one keeps
// for it, whether it can differ from step to step: arguments from number `given` on do not.
std::pair<std::vector<bool>, std::vector<bool>> later_reads(const Graph& g, int64_t given) {
  const Partition partition = partition_of(g);
  std::vector<bool> reads(g.arguments().size(), false), differs(g.values().size(), false), kept;
  for (const Graph::Input& input : g.inputs()) {
    if (input.argument < 0) continue;
    differs[input.value] = input.argument < given;
    reads[input.argument] = std::ranges::binary_search(partition.inputs, input.value);
  }
  for (const Graph::Node& node : g.nodes()) {
    bool found = node.opaque || has_flag(node.op, op_flags::random);
    for (int64_t v : node.inputs) found = found || differs[v];
    for (int64_t v : node.outputs) differs[v] = found;
  }
  for (int64_t v : partition.saved) kept.push_back(differs[v]);
  return {reads, kept};
}

}  // namespace

void bind_flow(py::module_& m) {
  using py::arg;
  m.def("new_part", new_part,
        "A part of this thread's recording, for `Graph.begin`: what it reads from outside are its "
        "arguments.");
  m.def("later_reads", later_reads, arg("graph"), arg("given"),
        "Of a part with a split point: which arguments are read after it, and of the values that "
        "are kept "
        "for what comes after it, which can differ from step to step.");
  m.def(
      "split",
      [](const Graph& g) {
        auto [first, later] = g.split();
        return std::pair(std::shared_ptr<Graph>(std::move(first)),
                         std::shared_ptr<Graph>(std::move(later)));
      },
      arg("graph"),
      "Of a part with a split point: what comes before it, whose last outputs are what the rest "
      "needs, "
      "and the rest, whose last arguments these are.");
  m.def(
      "hoist", [](Graph& g) { g.hoist(); }, arg("graph"),
      "Records what a part computes in the same way at every step in the recording around it.");
  m.def(
      "take_outside", [](Graph& g) { return g.take_outside(); }, arg("graph"),
      "(argument, tensor outside) of a part, once.");
  m.def(
      "record_scan",
      [](const Part& body, int64_t steps, bool reversed, std::vector<int64_t> finals,
         std::vector<int64_t> stacks, const Tensors& inputs) {
        return record(
            scan_node({part_of(body), steps, reversed, std::move(finals), std::move(stacks)}),
            inputs);
      },
      arg("body"), arg("steps"), arg("reversed"), arg("finals"), arg("stacks"), arg("inputs"),
      "A part that runs step by step (control_flow.h).");
  m.def(
      "record_cond",
      [](const Part& when_false, const Part& when_true, std::vector<int64_t> false_results,
         std::vector<int64_t> true_results, const Tensors& inputs) {
        return record(cond_node({{part_of(when_false), part_of(when_true)},
                                 {std::move(false_results), std::move(true_results)}}),
                      inputs);
      },
      arg("when_false"), arg("when_true"), arg("false_results"), arg("true_results"), arg("inputs"),
      "One of two parts, as the first input says.");
  m.def(
      "record_while",
      [](const Part& condition, const Part& body, std::vector<int64_t> carries,
         const Tensors& inputs) {
        return record(while_node({part_of(condition), part_of(body), std::move(carries)}), inputs);
      },
      arg("condition"), arg("body"), arg("carries"), arg("inputs"),
      "A part that runs as long as another says so.");
}

}  // namespace tinyt
