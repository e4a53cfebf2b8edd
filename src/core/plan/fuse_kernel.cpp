#include "core/plan/fuse_kernel.h"

#include <algorithm>

namespace tinyt {

KernelBuilder::KernelBuilder(const Fuser& fuser, Group& group)
    : fuser_(fuser), graph_(fuser.graph_), group_(group), region_(fuser.region_[group.nodes[0]]) {}

void KernelBuilder::run() {
  build();
  verify(group_.kernel);
  group_.compiled = find_fusion_target(group_.device)->compile(group_.kernel);
}

void KernelBuilder::build() {
  FusedKernel& kernel = group_.kernel;
  kernel.shape = group_.shape;
  kernel.reduced = group_.reduced;
  if (group_.product >= 0) group_.ops.push_back(graph_.nodes()[group_.product].op);
  for (const int64_t n : group_.nodes) {
    if (n == group_.product) continue;
    const Graph::Node& node = graph_.nodes()[n];
    group_.ops.push_back(node.op);
    FusedKernel::Op op{node.op, node.compute, {}};
    for (const int64_t v : node.inputs) op.in.push_back(operand(v, n));
    const int64_t v = node.outputs[0];
    if (fuser_.needed_[v]) {
      kernel.stores.push_back(static_cast<int>(kernel.ops.size()));
      group_.outputs.push_back(v);
    }
    kernel.ops.push_back(std::move(op));
    made_.push_back({graph_.values()[v].dtype, is_row(n)});
    value_of_.push_back(v);
  }
  finish();
}

// Made by an operation of the kernel: not the result of a product.
bool KernelBuilder::is_inside(int64_t v) const {
  return fuser_.is_made_inside(v, region_) &&
         graph_.values()[fuser_.source_[v]].node != group_.product;
}

bool KernelBuilder::is_row(int64_t node) const {
  return fuser_.role_[node] == Fuser::NodeKind::Row ||
         fuser_.role_[node] == Fuser::NodeKind::Reduction;
}

int KernelBuilder::load(int64_t v, bool per_row) {
  if (fuser_.is_made_inside(v, region_)) v = fuser_.source_[v];  // a product: one, whoever reads it
  const RegionInput wanted{v, per_row};
  const auto at = std::ranges::find(group_.inputs, wanted) - group_.inputs.begin();
  if (at == std::ssize(group_.inputs)) {
    group_.inputs.push_back(wanted);
    loads_.push_back({graph_.values()[v].dtype, false});
  }
  return ~static_cast<int>(at);
}

FusedKernel::Operand KernelBuilder::operand(int64_t v, int64_t node) {
  const bool single = numel_of(graph_.values()[v].shape) == 1;
  if (is_inside(v)) {
    const auto at = std::ranges::find(value_of_, fuser_.source_[v]);
    return {static_cast<int>(at - value_of_.begin()), single};
  }
  const Graph::Node& reader = graph_.nodes()[node];
  const bool rows_alone = !single && fuser_.role_[node] == Fuser::NodeKind::Row &&
                          group_.reduced > 0 &&
                          graph_.values()[reader.outputs[0]].shape.size() < group_.shape.size();
  return {load(v, rows_alone), single};
}

// Of each operation whether a store needs it.
std::vector<bool> KernelBuilder::wanted() const {
  const FusedKernel& kernel = group_.kernel;
  std::vector<bool> found(kernel.ops.size());
  for (const int v : kernel.stores) found[v] = true;
  for (size_t i = kernel.ops.size(); i-- > 0;)
    for (const FusedKernel::Operand& in : kernel.ops[i].in)
      if (found[i] && in.value >= 0) found[in.value] = true;
  return found;
}

// Leaves out what nothing needs, and numbers the rest, loads first.
void KernelBuilder::finish() {
  FusedKernel& kernel = group_.kernel;
  const std::vector<bool> is_wanted = wanted();
  std::vector<int> load_number(loads_.size(), -1), number(kernel.ops.size(), -1);
  std::vector<RegionInput> inputs;
  for (size_t i = 0; i < kernel.ops.size(); ++i)
    for (const FusedKernel::Operand& in : kernel.ops[i].in)
      if (is_wanted[i] && in.value < 0 && load_number[~in.value] < 0) {
        load_number[~in.value] = kernel.loads++;
        kernel.values.push_back(loads_[~in.value]);
        inputs.push_back(group_.inputs[~in.value]);
      }
  group_.inputs = std::move(inputs);
  std::vector<FusedKernel::Op> ops;
  for (size_t i = 0; i < kernel.ops.size(); ++i) {
    if (!is_wanted[i]) continue;
    number[i] = kernel.made_by(ops.size());
    kernel.values.push_back(made_[i]);
    for (FusedKernel::Operand& in : kernel.ops[i].in)
      in.value = in.value < 0 ? load_number[~in.value] : number[in.value];
    ops.push_back(std::move(kernel.ops[i]));
  }
  kernel.ops = std::move(ops);
  for (int& v : kernel.stores) v = number[v];
  if (group_.product < 0) return;
  const Graph::Node& product = graph_.nodes()[group_.product];
  kernel.front.op = product.op;
  for (size_t i = 0; i < group_.inputs.size(); ++i)
    if (group_.inputs[i].value == product.outputs[0]) kernel.front.load = static_cast<int>(i);
}

}  // namespace tinyt
