#include "core/plan/liveness.h"

#include <algorithm>

namespace tinyt {

namespace {

// Whether output i of a node lies where its input i does.
bool is_in_place(const Graph::Node& node, size_t i, const std::vector<int64_t>& last, int64_t now) {
  if (node.opaque) return node.opaque->outputs().empty();
  if (has_flag(node.op, op_flags::view)) return true;
  return node.op == OpId::update && i == 0 && last[node.inputs[0]] == now;
}

}  // namespace

std::vector<size_t> unfused_held(const Graph& graph, const std::function<bool(int64_t)>& runs,
                                 bool takes_outputs) {
  const auto& nodes = graph.nodes();
  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<int64_t> last(graph.values().size(), -1);  // node that reads a value
  std::vector<int64_t> memory(graph.values().size());    // the value that it lies in the memory of
  std::vector<bool> is_made(graph.values().size(), false);
  for (const Graph::Output& output : graph.outputs()) last[output.value] = count;
  for (int64_t n = 0; n < count; ++n)
    if (runs(n))
      for (const int64_t v : nodes[n].inputs) last[v] = std::max(last[v], n);
  for (size_t v = 0; v < memory.size(); ++v) memory[v] = static_cast<int64_t>(v);
  std::vector<int64_t> until(memory.size(), -1);
  for (int64_t n = 0; n < count; ++n) {
    if (!runs(n)) continue;
    for (size_t i = 0; i < nodes[n].outputs.size(); ++i) {
      const int64_t v = nodes[n].outputs[i];
      if (is_in_place(nodes[n], i, last, n)) {
        memory[v] = memory[nodes[n].inputs[i]];
      } else {
        is_made[v] = true;
      }
      until[memory[v]] = std::max({until[memory[v]], last[v], n});
    }
  }
  if (!takes_outputs)
    for (const Graph::Output& output : graph.outputs()) is_made[memory[output.value]] = false;
  std::vector<int64_t> change(static_cast<size_t>(count) + 2, 0);
  for (size_t v = 0; v < memory.size(); ++v) {
    if (!is_made[v]) continue;
    const auto bytes = static_cast<int64_t>(graph.values()[v].bytes());
    change[graph.values()[v].node] += bytes;
    change[until[v] + 1] -= bytes;
  }
  std::vector<size_t> out(static_cast<size_t>(count));
  int64_t held = 0;
  for (size_t n = 0; n < out.size(); ++n) out[n] = static_cast<size_t>(held += change[n]);
  return out;
}

}  // namespace tinyt
