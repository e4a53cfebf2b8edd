#include "plan.h"

#include <algorithm>

namespace tinyt {

namespace {

// Dtypes with kernels of their own: no conversion inside a region.
bool has_kernels(DType t) { return info(t).compute == t && !is_complex(t); }

// The dtype a region's register must have to be input `i` of the node.
DType operand_dtype(const Graph::Node& node, size_t i) {
  return i == 0 && has_flag(node.op, op_flags::K) ? DType::Bool : node.compute;
}

}  // namespace

Fuser::Fuser(Program& program, const Graph& graph)
    : program_(program),
      graph_(graph),
      uses_(graph.values().size(), 0),
      last_user_(graph.values().size(), -1) {
  for (size_t n = 0; n < graph.nodes().size(); ++n)
    for (int64_t v : graph.nodes()[n].inputs) {
      ++uses_[v];
      last_user_[v] = static_cast<int64_t>(n);
    }
  for (int64_t v : graph.outputs()) ++uses_[v];
  for (const Graph::Write& w : graph.writes()) ++uses_[w.value];
}

// Every operand has the kernel's dtype, or is a single number that converts beforehand.
bool Fuser::can_fuse(const Graph::Node& node) const {
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
  if (info(node.op).kind != OpKind::Reduce ||
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

void Fuser::run() {
  const auto& nodes = graph_.nodes();
  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<int64_t> chain;
  auto shape_of = [&](int64_t n) -> const Dims& {
    return graph_.values()[nodes[n].outputs[0]].shape;
  };
  for (int64_t n = 0; n < count; ++n) {
    if (!chain.empty()) {
      const int64_t previous = nodes[chain.back()].outputs[0];
      const bool linked = feeds_only(previous, n);
      if (linked && can_end(nodes[n], chain)) {
        emit(chain, n);
        chain.clear();
        continue;
      }
      if (!(linked && can_fuse(nodes[n]) && shape_of(n) == shape_of(chain.back()) &&
            chain.size() < TileProgram::kMaxSteps)) {
        emit(chain, -1);
        chain.clear();
      }
    }
    if (can_fuse(nodes[n]) && numel_of(shape_of(n)) > 0)
      chain.push_back(n);
    else
      program_.steps_.push_back({n, -1});
  }
  if (!chain.empty()) emit(chain, -1);
}

// The register that holds a value as `want`; an input the region has not seen yet gets a new one.
int Fuser::register_of(int64_t value, DType want, Program::Region& region,
                       std::vector<std::pair<int64_t, int>>& known) const {
  for (const auto& [v, r] : known)
    if (v == value && region.tiles.registers[static_cast<size_t>(r)] == want) return r;
  const int r = region.tiles.inputs++;
  region.tiles.registers.push_back(want);
  region.inputs.push_back(value);
  known.emplace_back(value, r);
  return r;
}

void Fuser::emit(const std::vector<int64_t>& chain, int64_t reduction) {
  if (chain.size() == 1 && reduction < 0) {
    program_.steps_.push_back({chain[0], -1});
    return;
  }
  const auto& nodes = graph_.nodes();
  Program::Region region;
  region.shape = graph_.values()[nodes[chain[0]].outputs[0]].shape;
  std::vector<std::pair<int64_t, int>> known;
  // Inputs first, so that their registers come first.
  for (int64_t n : chain)
    for (size_t i = 0; i < nodes[n].inputs.size(); ++i) {
      const int64_t v = nodes[n].inputs[i];
      const int64_t producer = graph_.values()[v].node;
      const bool inside = std::find(chain.begin(), chain.end(), producer) != chain.end();
      if (!inside) register_of(v, operand_dtype(nodes[n], i), region, known);
    }
  for (int64_t n : chain) {
    const Graph::Node& node = nodes[n];
    TileProgram::Step step{node.op, node.compute, 0, {}, static_cast<int>(node.inputs.size())};
    for (size_t i = 0; i < node.inputs.size(); ++i)
      step.in[i] = register_of(node.inputs[i], operand_dtype(node, i), region, known);
    step.out = static_cast<int>(region.tiles.registers.size());
    region.tiles.registers.push_back(graph_.values()[node.outputs[0]].dtype);
    known.emplace_back(node.outputs[0], step.out);
    region.tiles.steps.push_back(step);
  }
  const int64_t last = reduction < 0 ? chain.back() : reduction;
  region.output = nodes[last].outputs[0];
  const int64_t total = numel_of(region.shape);
  region.space = {1, total};
  if (reduction >= 0) {
    region.tiles.reduces = true;
    region.tiles.reduction = nodes[reduction].op;
    region.space.rows = numel_of(graph_.values()[region.output].shape);
  } else if (!region.shape.empty()) {
    region.space.rows = total / region.shape.back();
  }
  region.space.cols = total / region.space.rows;
  program_.steps_.push_back({-1, static_cast<int64_t>(program_.regions_.size())});
  program_.regions_.push_back(std::move(region));
}

}  // namespace tinyt
