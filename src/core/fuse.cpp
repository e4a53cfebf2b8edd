#include "fuse.h"

#include <algorithm>

namespace tinyt {

namespace {

// Dtypes with kernels of their own: no conversion inside a region.
bool has_kernels(DType t) { return info(t).compute == t && !is_complex(t); }

// The dtype a region's register must have to be input `i` of the node.
DType operand_dtype(const Graph::Node& node, size_t i) {
  return i == 0 && has_flag(node.op, op_flags::K) ? DType::Bool : node.compute;
}

// The register that holds a value as `want`; an input the region has not seen yet gets a new one.
using Known = std::vector<std::pair<int64_t, int>>;
int register_of(int64_t value, DType want, Group& group, Known& known) {
  for (const auto& [v, r] : known)
    if (v == value && group.tiles.registers[static_cast<size_t>(r)] == want) return r;
  const int r = group.tiles.inputs++;
  group.tiles.registers.push_back(want);
  group.inputs.push_back(value);
  known.emplace_back(value, r);
  return r;
}

}  // namespace

Fuser::Fuser(const Graph& graph) : graph_(graph), uses_(graph.values().size(), 0) {
  for (const Graph::Node& node : graph.nodes())
    for (int64_t v : node.inputs) ++uses_[v];
  for (const Graph::Output& output : graph.outputs()) ++uses_[output.value];
  for (const Graph::Write& w : graph.writes()) ++uses_[w.value];
}

// Every operand has the kernel's dtype, or is a single number that converts beforehand.
bool Fuser::can_fuse(const Graph::Node& node) const {
  if (node.opaque) return false;
  if (info(node.op).kind != OpKind::Scalar || !has_kernels(node.compute)) return false;
  // Integer division checks its divisors first, which a region cannot.
  if (is_integral(node.compute) && divides(node.op)) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Graph::Value& v = graph_.values()[node.inputs[i]];
    if (v.dtype != operand_dtype(node, i) && !(v.node < 0 && numel_of(v.shape) == 1)) return false;
  }
  return true;
}

// All uses of the value are by that one node.
bool Fuser::feeds_only(int64_t value, int64_t consumer) const {
  const auto& inputs = graph_.nodes()[consumer].inputs;
  return uses_[value] == std::count(inputs.begin(), inputs.end(), value) && uses_[value] > 0;
}

bool Fuser::can_end(const Graph::Node& node, const std::vector<int64_t>& chain) const {
  if (node.opaque || info(node.op).kind != OpKind::Reduce ||
      node.inputs[0] != graph_.nodes()[chain.back()].outputs[0])
    return false;
  const Graph::Value& in = graph_.values()[node.inputs[0]];
  if (in.dtype != graph_.values()[node.outputs[0]].dtype || is_bool(in.dtype)) return false;
  const auto dims = AttrReader(node.attrs).list();
  const auto rank = static_cast<int64_t>(in.shape.size());
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != rank - static_cast<int64_t>(dims.size() - i)) return false;
  return !dims.empty() && numel_of(in.shape) > 0;
}

// A view of something else, or a constant: may come before the region that it would interrupt.
bool Fuser::stands_aside(const Graph::Node& node, int64_t last) const {
  if (node.opaque || has_flag(node.op, op_flags::R)) return false;
  const auto& inputs = node.inputs;
  return (has_flag(node.op, op_flags::V) || inputs.empty()) &&
         std::find(inputs.begin(), inputs.end(), last) == inputs.end();
}

std::vector<Group> Fuser::run() {
  const auto& nodes = graph_.nodes();
  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<Group> groups;
  std::vector<int64_t> chain;
  const auto emit = [&](int64_t reduction) {
    groups.push_back(group_of(chain, reduction));
    chain.clear();
  };
  const auto shape_of = [&](int64_t n) -> const Dims& {
    return graph_.values()[nodes[n].outputs[0]].shape;
  };
  for (int64_t n = 0; n < count; ++n) {
    if (!chain.empty() && n == graph_.mark().node) emit(-1);
    if (!chain.empty()) {
      const bool linked = feeds_only(nodes[chain.back()].outputs[0], n);
      if (linked && can_end(nodes[n], chain)) {
        emit(n);
        continue;
      }
      if (stands_aside(nodes[n], nodes[chain.back()].outputs[0])) {
        groups.push_back(group_of({n}, -1));
        continue;
      }
      if (!(linked && can_fuse(nodes[n]) && shape_of(n) == shape_of(chain.back()) &&
            chain.size() < TileProgram::kMaxSteps))
        emit(-1);
    }
    chain.push_back(n);
    if (!can_fuse(nodes[n]) || numel_of(shape_of(n)) == 0) emit(-1);
  }
  if (!chain.empty()) emit(-1);
  return groups;
}

Group Fuser::group_of(const std::vector<int64_t>& chain, int64_t reduction) const {
  Group group;
  group.nodes = chain;
  if (reduction >= 0) group.nodes.push_back(reduction);
  const auto& nodes = graph_.nodes();
  group.output = nodes[group.nodes.back()].outputs[0];
  if (!group.is_region()) return group;
  group.shape = graph_.values()[nodes[chain[0]].outputs[0]].shape;
  Known known;
  // Inputs first, so that their registers come first.
  for (int64_t n : chain)
    for (size_t i = 0; i < nodes[n].inputs.size(); ++i) {
      const int64_t v = nodes[n].inputs[i];
      const int64_t producer = graph_.values()[v].node;
      const bool inside = std::find(chain.begin(), chain.end(), producer) != chain.end();
      if (!inside) register_of(v, operand_dtype(nodes[n], i), group, known);
    }
  for (int64_t n : chain) {
    const Graph::Node& node = nodes[n];
    TileProgram::Step step{node.op, node.compute, 0, {}, static_cast<int>(node.inputs.size())};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      step.in[i] = register_of(node.inputs[i], operand_dtype(node, i), group, known);
    step.out = static_cast<int>(group.tiles.registers.size());
    group.tiles.registers.push_back(graph_.values()[node.outputs[0]].dtype);
    known.emplace_back(node.outputs[0], step.out);
    group.tiles.steps.push_back(step);
  }
  if (reduction >= 0) {
    group.tiles.reduces = true;
    group.tiles.reduction = nodes[reduction].op;
    group.reduced = AttrReader(nodes[reduction].attrs).list().size();
  }
  return group;
}

}  // namespace tinyt
