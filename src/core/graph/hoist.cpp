// Moves what is the same in every step of a recorded part out of it.
#include <algorithm>

#include "core/graph/graph.h"

namespace tinyt {

// Of each value, the same outside: of arguments that stand for something there, constants, and what
// the nodes of the first part make of those alone.
std::vector<Tensor> Graph::record_fixed() const {
  std::vector<Tensor> fixed(values_.size());
  for (const Input& input : inputs_)
    if (input.argument < 0 && !input.number) fixed[input.value] = input.tensor;
  for (const auto& [argument, x] : outside_)
    for (const Input& input : inputs_)
      if (input.argument == argument) fixed[input.value] = x;
  const size_t end = split_point_.node < 0 ? nodes_.size() : static_cast<size_t>(split_point_.node);
  for (size_t n = 0; n < end; ++n) {
    const Node& node = nodes_[n];
    if (node.opaque || has_flag(node.op, op_flags::random)) continue;
    std::vector<Tensor> in;
    for (int64_t v : node.inputs) in.push_back(fixed[v]);
    if (!std::all_of(in.begin(), in.end(), [](const Tensor& t) { return static_cast<bool>(t); }))
      continue;
    // Its geometry counts from the start of the memory.
    if (node.op == OpId::as_strided && !covers_storage(in[0])) continue;
    Outputs made = dispatch(node.op, in, node.attrs);
    for (size_t i = 0; i < node.outputs.size(); ++i)
      fixed[node.outputs[i]] = made[static_cast<int>(i)];
  }
  return fixed;
}

void Graph::hoist() {
  const std::vector<Tensor> fixed = record_fixed();
  const auto goes = [&](const Node& node) {
    return !node.opaque && !has_flag(node.op, op_flags::view) &&
           std::all_of(node.outputs.begin(), node.outputs.end(),
                       [&](int64_t v) { return static_cast<bool>(fixed[v]); });
  };
  std::vector<bool> is_read(values_.size(), false);
  for (const Node& node : nodes_)
    if (!goes(node))
      for (int64_t v : node.inputs) is_read[v] = true;
  for (const Output& output : outputs_) is_read[output.value] = true;
  std::deque<Node> left;
  int64_t split_point = split_point_.node;
  for (size_t n = 0; n < nodes_.size(); ++n) {
    Node& node = nodes_[n];
    if (!goes(node)) {
      for (int64_t v : node.outputs) values_[v].node = static_cast<int64_t>(left.size());
      left.push_back(std::move(node));
      continue;
    }
    if (static_cast<int64_t>(n) < split_point_.node) --split_point;
    for (int64_t v : node.outputs) {
      values_[v].node = -1;
      if (is_read[v]) add_outside(v, fixed[v]);
    }
  }
  nodes_ = std::move(left);
  split_point_.node = split_point;
}

}  // namespace tinyt
