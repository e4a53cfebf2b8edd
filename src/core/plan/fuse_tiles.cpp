#include "core/plan/fuse_tiles.h"

#include <algorithm>

#include "core/graph/fusion_target.h"

namespace tinyt {

namespace {

// From so many operations on halves on, converting in between costs more than it saves.
constexpr int64_t kFewHalves = 3;

bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }

// Their kernels for halves look at bits alone, and they round nothing.
bool keeps_bits(OpId op) { return op == OpId::neg || op == OpId::abs || op == OpId::relu; }

}  // namespace

TileBuilder::TileBuilder(const Fuser& fuser, Group& group)
    : fuser_(fuser), graph_(fuser.graph_), group_(group), region_(fuser.region_[group.nodes[0]]) {
  const auto on_halves = [&](int64_t n) {
    const Graph::Node& node = graph_.nodes()[n];
    return info(node.op).kind == OpKind::Scalar && is_half(node.compute) && !keeps_bits(node.op);
  };
  widens_ = std::count_if(group.nodes.begin(), group.nodes.end(), on_halves) >= kFewHalves;
}

void TileBuilder::run() {
  if (group_.product >= 0) group_.tiles.ops.push_back(graph_.nodes()[group_.product].op);
  for (const int64_t n : group_.nodes) {
    const Graph::Node& node = graph_.nodes()[n];
    if (n == group_.product) continue;
    if (info(node.op).kind == OpKind::Scalar) {
      add_scalar(node, n);
    } else if (info(node.op).kind == OpKind::Reduce) {
      add_reduction(node);
    } else {
      add_cast(node, n);
    }
    group_.tiles.ops.push_back(node.op);
    const int64_t v = node.outputs[0];
    if (!fuser_.needed_[v]) continue;
    int r = made_.back().is;
    auto& outputs = group_.tiles.outputs;
    if (made_.back().wide) {
      const DType half = graph_.values()[v].dtype;
      r = cast(r, half, group_.tiles.registers[r].per_row, half);
    }
    // Two results, or a result and an operand, that are the same have memory each.
    if (r < 0 || group_.tiles.registers[r].per_row != is_row(n) ||
        std::find(outputs.begin(), outputs.end(), r) != outputs.end())
      r = copy(r, is_row(n));
    outputs.push_back(r);
    group_.outputs.push_back(v);
  }
  drop_unused();
  finish();
  place();
}

// In a register: not the result of a product.
bool TileBuilder::is_inside(int64_t v) const {
  return fuser_.is_made_inside(v, region_) &&
         graph_.values()[fuser_.source_[v]].node != group_.product;
}

bool TileBuilder::is_row(int64_t node) const {
  if (node < 0) return false;  // an input, or none yet
  return fuser_.role_[node] == Fuser::NodeKind::Row ||
         fuser_.role_[node] == Fuser::NodeKind::Reduction;
}

DType TileBuilder::dtype_of(int r) const {
  return r < 0 ? input_dtype_[~r] : group_.tiles.registers[r].dtype;
}

int TileBuilder::input(int64_t v, DType dtype, DType through, bool per_row) {
  if (fuser_.is_made_inside(v, region_)) {  // a product: one operand, whoever reads it
    v = fuser_.source_[v];
    through = dtype;
  }
  const RegionInput wanted{v, through, per_row};
  for (size_t i = 0; i < group_.inputs.size(); ++i) {
    const RegionInput& have = group_.inputs[i];
    if (have.value == v && have.per_row == per_row && input_dtype_[i] == dtype &&
        (have.through == through || !is_integral(through)))
      return ~static_cast<int>(i);
  }
  group_.inputs.push_back(wanted);
  input_dtype_.push_back(dtype);
  return ~static_cast<int>(group_.inputs.size() - 1);
}

int TileBuilder::add(DType dtype, bool per_row) {
  group_.tiles.registers.push_back({dtype, per_row});
  return static_cast<int>(group_.tiles.registers.size()) - 1;
}

int TileBuilder::copy(int from, bool per_row) {
  const int out = add(dtype_of(from), per_row);
  group_.tiles.steps.push_back({OpId::cast, dtype_of(from), out, {from}, 1});
  return out;
}

int TileBuilder::cast(int from, DType to, bool per_row, DType half) {
  if (dtype_of(from) == to && half == DType::Float32) return from;
  // What an operand gives each row is not what it gives all elements.
  for (const LiveBuffer& held : casts_)
    if (held.from == from && held.dtype == to && held.half == half &&
        group_.tiles.registers[held.is].per_row == per_row)
      return held.is;
  const int out = add(to, per_row);
  group_.tiles.steps.push_back({OpId::cast, dtype_of(from), out, {from}, 1, half});
  casts_.push_back({from, to, half, out});
  return out;
}

const TileBuilder::Made& TileBuilder::made(int64_t v) const {
  const int64_t source = fuser_.source_[v];
  return *std::find_if(made_.begin(), made_.end(),
                       [&](const Made& m) { return m.value == source; });
}

bool TileBuilder::is_read_inside(int64_t v) const {
  for (const int64_t n : group_.nodes)
    for (const int64_t input : graph_.nodes()[n].inputs)
      if (fuser_.source_[input] == v) return true;
  return false;
}

// The register becomes the value: a half that is read again stays wide.
void TileBuilder::make(int64_t v, int is, int64_t node) {
  const DType dtype = graph_.values()[v].dtype;
  const bool per_row = is >= 0 ? group_.tiles.registers[is].per_row : is_row(node);
  if (is_half(dtype) && dtype_of(is) == DType::Float32 && is_read_inside(v)) {
    made_.push_back({v, cast(is, DType::Float32, per_row, dtype), true});
  } else {
    made_.push_back({v, cast(is, dtype, per_row), false});
  }
}

// Whether an operation on halves runs their own kernel, which gives the bits of float32's, rounded.
bool TileBuilder::stays_half(const Graph::Node& node, DType dtype) const {
  if (dtype != node.compute || (widens_ && !keeps_bits(node.op))) return false;
  return std::none_of(node.inputs.begin(), node.inputs.end(),
                      [&](int64_t v) { return is_inside(v) && made(v).wide; });
}

// A value as the kernel takes it: converted as the eager call does (cpu/elementwise.cpp).
int TileBuilder::operand(int64_t v, DType want, DType compute, int64_t node) {
  const Graph::Value& value = graph_.values()[v];
  const bool is_one = numel_of(value.shape) == 1;
  int r = 0;
  bool per_row = is_row(node);
  if (is_inside(v)) {
    const Made& m = made(v);
    r = m.is;
    per_row = r < 0 ? is_row(graph_.values()[m.value].node) : group_.tiles.registers[r].per_row;
    if (m.wide && want == value.dtype) return cast(r, want, per_row, want);
    if (m.wide && want == DType::Float32) return r;
  } else {
    const auto rank = group_.shape.size();
    const bool rows_alone = per_row && group_.reduced > 0 &&
                            graph_.values()[graph_.nodes()[node].outputs[0]].shape.size() < rank;
    r = input(v, is_one ? want : value.dtype, compute, rows_alone && !is_one);
    if (is_one) return r;
  }
  const DType have = value.dtype;
  if (is_one && is_integral(compute) && want != DType::Bool) r = cast(r, compute, per_row);
  if (dtype_of(r) == want) return r;
  r = cast(r, want, per_row);
  if (is_one || have == compute || want == compute || want == DType::Bool) return r;
  return cast(cast(r, compute, per_row), want, per_row);
}

void TileBuilder::add_scalar(const Graph::Node& node, int64_t n) {
  bool mixed = false;
  for (const int64_t v : node.inputs) mixed |= graph_.values()[v].dtype != node.compute;
  DType dtype = fusion_target_of({}).kernel_dtype(node.op, node.compute, mixed);
  if (is_half(dtype) && !stays_half(node, dtype)) dtype = DType::Float32;
  TileProgram::Step step{node.op, dtype, 0, {}, static_cast<int>(node.inputs.size())};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const DType want = i == 0 && has_flag(node.op, op_flags::predicate_first) ? DType::Bool : dtype;
    step.in[i] = operand(node.inputs[i], want, node.compute, n);
  }
  const DType made = graph_.values()[node.outputs[0]].dtype;
  step.out = add(made == DType::Bool ? made : dtype, is_row(n));
  group_.tiles.steps.push_back(step);
  if (keeps_bits(node.op) && is_half(node.compute) && dtype != node.compute) {
    made_.push_back({node.outputs[0], step.out, true});
  } else {
    make(node.outputs[0], step.out, n);
  }
}

void TileBuilder::add_cast(const Graph::Node& node, int64_t n) {
  const int64_t v = node.inputs[0];
  const DType to = graph_.values()[node.outputs[0]].dtype;
  const DType from = graph_.values()[v].dtype;
  int r = 0;
  if (is_inside(v)) {
    const Made& m = made(v);
    if (m.wide && to == from) return made_.push_back({node.outputs[0], m.is, true});
    r = m.wide ? m.is : operand(v, from, from, n);
  } else {
    const bool per_row =
        is_row(n) && graph_.values()[node.outputs[0]].shape.size() < group_.shape.size();
    r = input(v, from, from, per_row && numel_of(graph_.values()[v].shape) != 1);
  }
  make(node.outputs[0], r, n);
}

void TileBuilder::add_reduction(const Graph::Node& node) {
  const int64_t v = node.inputs[0];
  const DType from = graph_.values()[v].dtype, to = graph_.values()[node.outputs[0]].dtype;
  const DType dtype = info(to).compute;
  int r = is_inside(v) ? (made(v).wide ? made(v).is : operand(v, from, from, -1))
                       : input(v, from, from, false);
  if (r >= 0 && group_.tiles.registers[r].per_row) r = copy(r, false);  // repeated along the row
  r = cast(r, dtype, false);
  const int out = add(dtype, true);
  group_.tiles.steps.push_back({node.op, dtype, out, {r}, 1});
  make(node.outputs[0], out, -1);
}

// Steps whose results nobody takes.
void TileBuilder::drop_unused() {
  TileProgram& tiles = group_.tiles;
  std::vector<bool> used(tiles.registers.size());
  for (const int r : tiles.outputs) used[r] = true;
  std::vector<TileProgram::Step> kept;
  for (size_t s = tiles.steps.size(); s-- > 0;) {
    const TileProgram::Step& step = tiles.steps[s];
    if (!used[step.out]) continue;
    for (int i = 0; i < step.inputs; ++i)
      if (step.in[i] >= 0) used[step.in[i]] = true;
    kept.push_back(step);
  }
  tiles.steps.assign(kept.rbegin(), kept.rend());
}

// Operands that are still read come first, then what is made.
void TileBuilder::finish() {
  TileProgram& tiles = group_.tiles;
  std::vector<int> number(group_.inputs.size(), -1);
  std::vector<RegionInput> inputs;
  std::vector<TileProgram::Register> registers;
  for (const TileProgram::Step& step : tiles.steps)
    for (int i = 0; i < step.inputs; ++i)
      if (const int r = step.in[i]; r < 0 && number[~r] < 0) {
        number[~r] = tiles.inputs++;
        inputs.push_back(group_.inputs[~r]);
        registers.push_back({input_dtype_[~r]});
      }
  group_.inputs = std::move(inputs);
  registers.insert(registers.end(), tiles.registers.begin(), tiles.registers.end());
  tiles.registers = std::move(registers);
  for (int& r : tiles.outputs) r += tiles.inputs;
  for (TileProgram::Step& step : tiles.steps) {
    step.out += tiles.inputs;
    for (int i = 0; i < step.inputs; ++i)
      step.in[i] = step.in[i] < 0 ? number[~step.in[i]] : step.in[i] + tiles.inputs;
    if (info(step.op).kind == OpKind::Reduce) tiles.reduces = true;
    if (tiles.is_row_step(step)) continue;
    for (int i = 0; i < step.inputs; ++i) tiles.uses_rows |= tiles.registers[step.in[i]].per_row;
  }
}

// Tiles for what is no result: each is free after the last step that reads it. A kernel may write
// over what it reads where that is as large.
void TileBuilder::place() {
  TileProgram& tiles = group_.tiles;
  const auto count = tiles.registers.size();
  std::vector<size_t> last(count, 0);
  for (size_t s = 0; s < tiles.steps.size(); ++s)
    for (int i = 0; i < tiles.steps[s].inputs; ++i) last[tiles.steps[s].in[i]] = s;
  std::vector<bool> is_output(count);
  for (size_t o = 0; o < tiles.outputs.size(); ++o) {
    is_output[tiles.outputs[o]] = true;
    tiles.registers[tiles.outputs[o]].place = ~static_cast<int>(o);
  }
  std::vector<int> free;
  const auto in_tile = [&](int r) {
    return r >= tiles.inputs && !is_output[r] && !tiles.registers[r].per_row;
  };
  for (size_t s = 0; s < tiles.steps.size(); ++s) {
    const TileProgram::Step& step = tiles.steps[s];
    TileProgram::Register& out = tiles.registers[step.out];
    const bool rounds = step.op == OpId::cast && step.half != DType::Float32;
    const bool writes_over = info(step.op).kind == OpKind::Scalar || rounds;
    std::vector<int> ending;  // that the result must not take
    for (int i = 0; i < step.inputs; ++i) {
      const int r = step.in[i];
      if (!in_tile(r) || last[r] != s || std::count(step.in, step.in + i, r) != 0) continue;
      const bool may_take = writes_over && size_of(tiles.registers[r].dtype) == size_of(out.dtype);
      (may_take ? free : ending).push_back(tiles.registers[r].place);
    }
    if (is_output[step.out]) {
      // It is written where it stays.
    } else if (out.per_row) {
      out.place = tiles.row_tiles++;
    } else if (free.empty()) {
      out.place = tiles.tiles++;
    } else {
      out.place = free.back();
      free.pop_back();
    }
    free.insert(free.end(), ending.begin(), ending.end());
  }
}

}  // namespace tinyt
