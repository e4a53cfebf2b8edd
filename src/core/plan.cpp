#include "plan.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "lives.h"
#include "memory/size_class.h"
#include "pack.h"
#include "parallel.h"
#include "plan_sides.h"

namespace tinyt {

namespace {

constexpr int64_t kAlways = INT64_MAX;

// From this size on, a block of its own costs nothing beside what is done with it, and leaves room
// for others outside its lifetime: results, too.
constexpr size_t kOwnBlock = size_t{1} << 15;

// What kernels are expected to take for themselves meanwhile.
constexpr size_t kScratch = size_t{16} << 20;

// Whether a node may find its operands wanting when it runs, as an index out of range.
bool may_fail(const Graph::Node& node) {
  if (node.opaque) return node.opaque->may_fail();
  if (info(node.op).kind == OpKind::Scalar) return is_integral(node.compute) && divides(node.op);
  return info(node.op).kind != OpKind::Reduce && !has_flag(node.op, op_flags::V);
}

Kernel kernel_of(OpId op) {
  const Backend& backend = backend_of({});
  const Kernel kernel = backend.kernels[static_cast<size_t>(op)];
  require(kernel, ErrorKind::NotImplemented, name_of(op), ": no kernel on ", backend.name);
  return kernel;
}

// From the first step of any of some blocks to the last.
std::pair<int64_t, int64_t> span_of(const std::vector<Lifetime>& blocks) {
  int64_t first = kAlways, last = -1;
  for (const Lifetime& block : blocks) {
    first = std::min(first, block.first);
    last = std::max(last, block.last);
  }
  return {first, last};
}

// Whether a region reads an operand where it lies: along the rows it is dense or one element, or
// what is gathered for a tile are whole cache lines.
bool is_readable(std::span<const int64_t> shape, const Dims& strides, size_t itemsize,
                 bool gathers) {
  constexpr int64_t kNear = 8, kLeastSide = 8;
  int64_t count = 0;  // of the last two dimensions
  std::array<size_t, 2> last{};
  for (size_t d = shape.size(); d-- > 0 && count < 2;)
    if (shape[d] > 1) last[count++] = d;
  if (count == 0) return true;
  const int64_t step = strides[last[0]];
  if (step == 0 || step == 1 || !gathers) return step == 0 || step == 1;
  if (std::abs(step) <= kNear) return true;
  return count == 2 && strides[last[1]] == 1 &&
         std::min(shape[last[0]], shape[last[1]]) >= kLeastSide &&
         numel_of(shape) * static_cast<int64_t>(itemsize) <= kGatheredBytes;
}

// Whether the last dimension's two elements lie as those of complex numbers do.
bool holds_pairs(const Tensor& x) {
  const int64_t last = x.rank() - 1;
  bool even = x.stride(last) == 1 && x.offset() % 2 == 0;
  for (int64_t d = 0; d < last; ++d) even &= x.stride(d) % 2 == 0;
  return even;
}

}  // namespace

Planner::Planner(Program& program, const Graph& graph, Program::Part part)
    : program_(program),
      graph_(graph),
      part_(part),
      outputs_(graph.outputs()),
      values_(graph.values().size()),
      last_read_(graph.values().size(), -1),
      is_number_(graph.values().size(), false),
      done_(graph.writes().size(), false) {
  if (part != Program::Part::All) cut_ = cut_of(graph);
  const size_t first = graph.mark().output;
  if (part == Program::Part::First) outputs_ = outputs_.first(first);
  if (part == Program::Part::Later) outputs_ = outputs_.subspan(first);
  for (const Graph::Output& output : outputs_) last_read_[output.value] = kAlways;
  if (part == Program::Part::First)
    for (int64_t v : cut_.carried) last_read_[v] = kAlways;
  for (size_t w = 0; w < done_.size(); ++w) {
    const int64_t v = graph.writes()[w].value;
    done_[w] = part != Program::Part::All &&
               (graph.values()[v].node >= cut_.node) != (part == Program::Part::Later);
    if (!done_[w]) last_read_[v] = kAlways;
  }
}

bool Planner::is_in_part(int64_t node) const {
  switch (part_) {
    case Program::Part::First:
      return node < cut_.node;
    case Program::Part::Later:
      return node >= cut_.node ||
             std::binary_search(cut_.repeated.begin(), cut_.repeated.end(), node);
    default:
      return true;
  }
}

// Who reads a value last, of what runs in this part.
void Planner::find_readers(std::span<const Group> groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto now = static_cast<int64_t>(i);
    if (!is_in_part(groups[i].nodes[0])) continue;
    for (const int64_t n : groups[i].nodes) {
      for (const int64_t v : graph_.nodes()[n].inputs) last_read_[v] = std::max(last_read_[v], now);
      if ((!groups[i].is_region() || n == groups[i].product) && may_fail(graph_.nodes()[n]))
        last_failing_ = now;
    }
  }
}

void Planner::run() {
  const std::vector<Group> groups = Fuser(graph_).run();
  find_readers(groups);
  program_.step_of_.assign(graph_.nodes().size(), -1);
  take_inputs();
  for (size_t i = 0; i < groups.size(); ++i)
    if (is_in_part(groups[i].nodes[0])) plan_group(groups[i], static_cast<int64_t>(i));
  plan_results();
  plan_writes();
  unfused_peak_ = unfused_peak(graph_, [&](int64_t n) { return is_in_part(n); });
  plan_sides();
  place();
}

// A storage whose address is set at each run.
Tensor Planner::add_argument(const Tensor& like, std::span<const int64_t> shape, DType dtype,
                             size_t bytes) {
  Ref<Storage> storage(new Storage);
  storage->block.bytes = bytes;
  argument_of_[storage.get()] = program_.arguments_.size();
  program_.arguments_.push_back({storage, like});
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

// Arguments and what another part carried; captured memory is read where it lies.
void Planner::take_inputs() {
  for (const Graph::Input& input : graph_.inputs()) {
    is_number_[input.value] = input.number;
    const Tensor& t = input.tensor;
    if (input.argument < 0) {
      values_[input.value] = t;
      if (!input.number && last_read_[input.value] >= 0) program_.captured_.push_back(t);
    } else {
      values_[input.value] = add_argument(graph_.arguments()[input.argument], t.shape(), t.dtype(),
                                          t.storage().block.bytes);
    }
  }
  if (part_ != Program::Part::Later) return;
  for (int64_t v : cut_.carried) {
    const Graph::Value& kept = graph_.values()[v];
    const Tensor like = Tensor::from_storage(Ref<Storage>(new Storage), kept.shape,
                                             contiguous_strides(kept.shape), 0, kept.dtype);
    values_[v] = add_argument(like, kept.shape, kept.dtype, kept.bytes());
  }
}

void Planner::set(int64_t v, Tensor t) {
  int64_t& until = until_.try_emplace(&t.storage(), -1).first->second;
  until = std::max(until, last_read_[v]);
  values_[v] = std::move(t);
}

Tensor Planner::fresh(std::span<const int64_t> shape, DType dtype) {
  Ref<Storage> storage(new Storage);
  storage->block.bytes = static_cast<size_t>(numel_of(shape)) * size_of(dtype);
  buffer_of_[storage.get()] = static_cast<int64_t>(buffers_.size());
  buffers_.push_back({storage, kAlways, -1});
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Planner::copied(const Tensor& t) {
  Tensor out = fresh(t.shape(), t.dtype());
  add_copy(t, out);
  return out;
}

Program::Step& Planner::add_step(Program::Kind kind, std::span<const Tensor> inputs,
                                 std::span<const Tensor> outputs) {
  const auto now = static_cast<int64_t>(program_.steps_.size());
  auto& operands = program_.operands_;
  Program::Step step{.kind = kind, .first = static_cast<int64_t>(operands.size())};
  step.inputs = static_cast<int32_t>(inputs.size());
  step.outputs = static_cast<int32_t>(outputs.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  for (size_t i = static_cast<size_t>(step.first); i < operands.size(); ++i) {
    if (const auto it = buffer_of_.find(&operands[i].storage()); it != buffer_of_.end()) {
      Buffer& buffer = buffers_[it->second];
      buffer.first = std::min(buffer.first, now);
      buffer.last = now;
    }
    if (const auto it = argument_of_.find(&operands[i].storage()); it != argument_of_.end())
      program_.arguments_[it->second].used = true;
  }
  program_.steps_.push_back(step);
  return program_.steps_.back();
}

void Planner::plan_group(const Group& group, int64_t now) {
  const Graph::Node& node = graph_.nodes()[group.nodes[0]];
  const size_t steps = program_.steps_.size();
  note_touches(group, false);
  if (group.is_region()) {
    if (!group.outputs.empty() || group.product >= 0) plan_region(group, now);
  } else if (node.opaque) {
    plan_opaque(node, now);
  } else {
    plan_op(node, now);
  }
  if (program_.steps_.size() == steps) return;
  for (const int64_t n : group.nodes)
    program_.step_of_[n] = static_cast<int64_t>(program_.steps_.size()) - 1;
  program_.steps_.back().boundary = group.boundary;
  program_.steps_.back().boundary_bytes = group.boundary_bytes;
  note_touches(group, true);
}

// Where the values that a group reads or has made lie, for who watches a run.
void Planner::note_touches(const Group& group, bool made) {
  const int64_t step = static_cast<int64_t>(program_.steps_.size()) - (made ? 1 : 0);
  const auto note = [&](int64_t v) {
    if (values_[v]) program_.touches_.push_back({step, v, values_[v], made});
  };
  for (int64_t n : group.nodes) {
    const Graph::Node& node = graph_.nodes()[n];
    if (made) {
      for (int64_t v : node.outputs) note(v);
    } else {
      for (int64_t v : node.inputs) note(v);
    }
  }
}

// Nobody reads the memory of `base` after this group, so that it may write there.
bool Planner::may_overwrite(const Tensor& base, int64_t now) const {
  return buffer_of_.contains(&base.storage()) && base.is_contiguous() &&
         until_.at(&base.storage()) <= now;
}

// The operand of an elementwise op whose memory the result may take: nobody reads it any more, and
// whatever else lies there is the same tensor.
const Tensor* Planner::operand_to_take(const std::vector<Tensor>& in, const Inferred& inferred,
                                       int64_t now) const {
  for (const Tensor& t : in) {
    if (t.shape() != inferred.shape[0] || t.itemsize() != size_of(inferred.dtype[0]) ||
        !until_.contains(&t.storage()) || !may_overwrite(t, now))
      continue;
    if (std::all_of(in.begin(), in.end(), [&](const Tensor& other) {
          return &other.storage() != &t.storage() ||
                 (other.shape() == t.shape() && other.strides() == t.strides() &&
                  other.offset() == t.offset());
        }))
      return &t;
  }
  return nullptr;
}

void Planner::plan_op(const Graph::Node& node, int64_t now) {
  std::vector<Tensor> in;
  for (int64_t v : node.inputs) in.push_back(value(v));
  // A single number is there before the first run.
  if (node.op == OpId::fill && numel_of(graph_.values()[node.outputs[0]].shape) == 1) {
    const PausedRecording paused;
    values_[node.outputs[0]] = dispatch(OpId::fill, {}, node.attrs).first;
    return;
  }
  // Geometry attributes count from the start of a dense value.
  if (node.op == OpId::as_strided) {
    const Tensor base = in[0].is_contiguous() ? in[0] : copied(in[0]);
    AttrReader read(node.attrs);
    const auto shape = read.list(), strides = read.list();
    set(node.outputs[0], base.view(shape, strides, base.offset() + read.integer()));
    return;
  }
  if (node.op == OpId::update && may_overwrite(in[0], now) &&
      &in[0].storage() != &in[1].storage()) {
    AttrReader read(node.attrs);
    const auto shape = read.list(), strides = read.list();
    add_copy(in[1], in[0].view(shape, strides, in[0].offset() + read.integer()));
    set(node.outputs[0], in[0]);
    return;
  }
  // A pass may have left out the copy that laid the parts of complex numbers side by side.
  if (node.op == OpId::view_as_complex && !holds_pairs(in[0])) in[0] = copied(in[0]);
  Inferred inferred;
  infer(node.op, in, node.attrs, inferred);
  if (inferred.is_view) {
    set(node.outputs[0],
        in[0].view_as(inferred.dtype[0], inferred.shape[0], inferred.strides, inferred.offset));
    return;
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Tensor* taken =
        info(node.op).kind == OpKind::Scalar ? operand_to_take(in, inferred, now) : nullptr;
    out.push_back(taken ? taken->view_as(inferred.dtype[i], inferred.shape[i],
                                         contiguous_strides(inferred.shape[i]), taken->offset())
                        : fresh(inferred.shape[i], inferred.dtype[i]));
    set(node.outputs[i], out[i]);
  }
  Program::Step& step = add_step(Program::Kind::Op, in, out);
  step.op = node.op;
  step.compute = inferred.compute;
  step.kernel = kernel_of(node.op);
  step.index = static_cast<int64_t>(program_.attrs_.size());
  if (has_flag(node.op, op_flags::R)) {
    const auto& ints = inferred.attrs.ints;
    program_.draws_.push_back({step.index, ints[ints.size() - 2], ints[ints.size() - 1]});
  }
  program_.attrs_.push_back(inferred.attrs);
}

// A number in the dtype of a region's register.
Tensor Planner::converted(int64_t v, DType dtype) {
  const Tensor& t = value(v);
  if (t.dtype() == dtype) return t;
  if (t.impl()->is_scalar && !is_number_[v]) return cast(t, dtype);
  Tensor out = fresh(t.shape(), dtype);
  add_copy(t, out);
  return out;
}

// As the region's register `i` takes it. Integers beyond the dtype of the call wrap.
Tensor Planner::operand_of(const Group& group, size_t i) {
  const RegionInput& input = group.inputs[i];
  const DType dtype = group.tiles.registers[i].dtype;
  Tensor t = value(input.value);
  const bool wraps = is_integral(input.through) && t.dtype() != input.through &&
                     dtype != input.through && dtype != DType::Bool;
  if (t.numel() == 1 && (wraps || t.dtype() != dtype)) {
    if (!wraps) return converted(input.value, dtype);
    Tensor narrow = fresh(t.shape(), input.through), wide = fresh(t.shape(), dtype);
    add_copy(t, narrow);
    add_copy(narrow, wide);
    return wide;
  }
  if (!input.per_row) return t;
  Dims shape(t.shape()), strides(t.strides());
  shape.resize(shape.size() + group.reduced, 1);
  strides.resize(shape.size(), 0);
  return t.view(shape, strides, t.offset());
}

// Finds the loops over a region's shape, merged where all operands allow. What cannot be read where
// it lies is copied. After a product rows are those of its result, as far as all operands are dense
// or one element along them, and nothing is gathered.
void Planner::lay_out(Program::Region& region, std::vector<Tensor>& in, const Group& group) {
  const std::span<const int64_t> shape(group.shape);
  const auto fits_row = [&](const Dims& strides, size_t dims, bool dense) {
    const size_t from = shape.size() - dims;
    const Dims all{numel_of(shape.subspan(from))};
    const auto step = view_strides(shape.subspan(from), {strides.data() + from, dims}, all);
    return step && ((*step)[0] == 1 || ((*step)[0] == 0 && !dense) || all[0] == 1);
  };
  size_t inner = group.reduced;  // dimensions of a row
  if (group.product >= 0) {
    const OpId op = graph_.nodes()[group.product].op;
    inner = op == OpId::conv || op == OpId::conv_input ? shape.size() - 2 : 1;
    for (const Tensor& t : in)
      if (!fits_row(broadcast_strides(t.shape(), t.strides(), shape), inner, false)) inner = 0;
  }
  const size_t split = shape.size() - inner;
  const auto fits = [&](const Dims& strides, size_t itemsize, bool dense) {
    if (inner > 0) return fits_row(strides, inner, dense);
    return is_readable(shape, strides, itemsize, group.product < 0);
  };
  std::vector<bool> dense(in.size());  // as reductions take them
  for (const TileProgram::Step& step : group.tiles.steps)
    if (info(step.op).kind == OpKind::Reduce && step.in[0] < group.tiles.inputs)
      dense[step.in[0]] = true;
  std::vector<Dims> strides;  // in elements
  for (size_t i = 0; i < in.size(); ++i) {
    Tensor& t = in[i];
    strides.push_back(broadcast_strides(t.shape(), t.strides(), shape));
    if (fits(strides.back(), t.itemsize(), dense[i])) continue;
    t = copied(t.view(shape, strides.back(), t.offset()));
    strides.back() = t.strides();
  }
  struct Loop {
    int64_t size;
    Dims strides;
  };
  std::vector<Loop> loops;
  const auto add_loops = [&](size_t from, size_t to) {
    const size_t others = loops.size();
    for (size_t d = from; d < to; ++d) {
      if (shape[d] == 1) continue;
      Dims steps;
      bool merges = loops.size() > others;
      for (size_t k = 0; k < in.size(); ++k) {
        steps.push_back(strides[k][d]);
        merges = merges && loops.back().strides[k] == steps[k] * shape[d];
      }
      if (merges) {
        loops.back() = {loops.back().size * shape[d], steps};
      } else {
        loops.push_back({shape[d], steps});
      }
    }
  };
  add_loops(0, split);
  Loop last{1, {}};
  if (inner > 0) {
    last.size = numel_of(shape.subspan(split));
    for (const Dims& s : strides) {
      int64_t step = 0;
      for (size_t d = split; d < shape.size(); ++d)
        if (shape[d] > 1) step = s[d];
      last.strides.push_back(step);
    }
  } else if (!loops.empty()) {
    last = loops.back();
    loops.pop_back();
  }
  region.space.cols = last.size;
  for (const Loop& loop : loops) region.space.outer.push_back(loop.size);
  for (size_t k = 0; k < in.size(); ++k) {
    TileOperand operand;
    const int64_t step = last.size > 1 ? last.strides[k] : 0;
    const auto item = static_cast<int64_t>(in[k].itemsize());
    operand.inner = step == 1;
    if (step != 0 && step != 1) {
      operand.gather = step * item;
      ++region.space.gathered;
      region.space.turned |= !loops.empty() && loops.back().strides[k] == 1;
    }
    for (const Loop& loop : loops) operand.stride.push_back(loop.strides[k] * item);
    region.operands.push_back(std::move(operand));
  }
}

// A result takes the place of an operand that nobody reads any more, neither later nor in steps
// after the one that makes it, where all operands that lie there run through it in the same order;
// else new memory. `taken`: of operands.
Tensor Planner::result_of(const Group& group, size_t output, const Program::Region& region,
                          const std::vector<Tensor>& in, int64_t now, std::vector<bool>& taken) {
  const TileProgram& tiles = group.tiles;
  const Graph::Value& made = graph_.values()[group.outputs[output]];
  const auto is_dense = [&](const TileOperand& operand) {
    int64_t step = region.space.cols * static_cast<int64_t>(size_of(made.dtype));
    for (size_t d = operand.stride.size(); d-- > 0; step *= region.space.outer[d])
      if (operand.stride[d] != step) return false;
    return operand.inner || region.space.cols == 1;
  };
  const auto is_read_after = [&](size_t i) {
    bool written = false;
    for (const TileProgram::Step& step : tiles.steps) {
      const bool reads = std::count(step.in, step.in + step.inputs, static_cast<int>(i)) != 0;
      written |= step.out == tiles.outputs[output];
      const bool at_once =
          step.out == tiles.outputs[output] && info(step.op).kind == OpKind::Scalar;
      if (reads && written && !at_once) return true;
    }
    return false;
  };
  const auto takes = [&](size_t i) {
    const Tensor& t = in[i];
    if (t.itemsize() != size_of(made.dtype) || t.numel() != numel_of(made.shape) ||
        !until_.contains(&t.storage()) || !may_overwrite(t, now))
      return false;
    for (size_t k = 0; k < in.size(); ++k)
      if (&in[k].storage() == &t.storage() &&
          (taken[k] || in[k].itemsize() != t.itemsize() || in[k].offset() != t.offset() ||
           !is_dense(region.operands[k]) || is_read_after(k)))
        return false;
    return true;
  };
  const auto take = [&](size_t i) {
    for (size_t k = 0; k < in.size(); ++k)
      if (&in[k].storage() == &in[i].storage()) taken[k] = true;
    return in[i].view_as(made.dtype, made.shape, contiguous_strides(made.shape), in[i].offset());
  };
  if (tiles.registers[tiles.outputs[output]].per_row) return fresh(made.shape, made.dtype);
  // A product's result first: it has new memory.
  if (region.product && region.product->operand >= 0 && takes(region.product->operand))
    return take(region.product->operand);
  for (size_t i = 0; i < in.size(); ++i)
    if (takes(i)) return take(i);
  return fresh(made.shape, made.dtype);
}

void Planner::plan_region(const Group& group, int64_t now) {
  Program::Region region{group.tiles, {}, {}, {}};
  std::vector<Tensor> own, in, out;
  if (group.product >= 0) own = plan_product(group, now, region);
  const auto is_made = [&](size_t i) {
    return region.product && region.product->operand == static_cast<int>(i);
  };
  for (size_t i = 0; i < group.inputs.size(); ++i)
    in.push_back(is_made(i) ? region.product->result : operand_of(group, i));
  lay_out(region, in, group);
  std::vector<bool> taken;
  for (const Tensor& t : in)  // the product reads its operands to its end
    taken.push_back(std::any_of(own.begin(), own.end(),
                                [&](const Tensor& x) { return &x.storage() == &t.storage(); }));
  for (size_t o = 0; o < group.outputs.size(); ++o)
    out.push_back(result_of(group, o, region, in, now, taken));
  for (size_t o = 0; o < group.outputs.size(); ++o) set(group.outputs[o], out[o]);
  region.outputs.resize(out.size());
  for (size_t i = 0; i < in.size(); ++i)
    if (!is_made(i)) own.push_back(in[i]);
  const auto lies_there = [&](const Tensor& t) {
    return &t.storage() == &region.product->result.storage();
  };
  if (region.product && std::none_of(out.begin(), out.end(), lies_there))
    out.push_back(region.product->result);
  Program::Step& step = add_step(Program::Kind::Region, own, out);
  step.index = static_cast<int64_t>(program_.regions_.size());
  if (region.product) step.compute = region.product->compute;
  program_.regions_.push_back(std::move(region));
}

// The product that a region begins with; its operands. Its result has new memory, which one of the
// region's takes if nobody else reads it.
std::vector<Tensor> Planner::plan_product(const Group& group, int64_t now,
                                          Program::Region& region) {
  const Graph::Node& node = graph_.nodes()[group.product];
  const int64_t v = node.outputs[0];
  std::vector<Tensor> in;
  for (const int64_t from : node.inputs) in.push_back(value(from));
  Inferred inferred;
  infer(node.op, in, node.attrs, inferred);
  const Tensor result = fresh(inferred.shape[0], inferred.dtype[0]);
  if (last_read_[v] > now) {
    set(v, result);
  } else {
    until_[&result.storage()] = now;
  }
  const auto at = std::find_if(group.inputs.begin(), group.inputs.end(),
                               [&](const RegionInput& input) { return input.value == v; });
  region.product = {
      .op = node.op,
      .compute = inferred.compute,
      .kernel = kernel_of(node.op),
      .inputs = in.size(),
      .attrs = static_cast<int64_t>(program_.attrs_.size()),
      .operand = at == group.inputs.end() ? -1 : static_cast<int>(at - group.inputs.begin()),
      .result = result};
  program_.attrs_.push_back(inferred.attrs);
  return in;
}

// Whether output i of the last node may be written where its captured input lies: the step works
// in place, nothing reads the old value after it, and no step that could fail comes after it.
bool Planner::writes_captured(const Graph::Node& node, int64_t now, size_t i) const {
  const Tensor& old = value(node.inputs[i]);
  const auto until = until_.find(&old.storage());  // of its views
  if (until != until_.end() && until->second > now) return false;
  if (now < last_failing_ || last_read_[node.inputs[i]] > now ||
      std::count(node.inputs.begin(), node.inputs.end(), node.inputs[i]) != 1)
    return false;
  for (const Graph::Write& w : graph_.writes())
    if (w.argument < 0 && w.value == node.outputs[i] && w.target.impl() == old.impl()) return true;
  return false;
}

void Planner::plan_opaque(const Graph::Node& node, int64_t now) {
  const bool in_place = node.opaque->outputs().empty();
  std::vector<Tensor> in, out;
  for (int64_t v : node.inputs) {
    const bool written = in_place && in.size() < node.outputs.size();
    in.push_back(written || value(v).is_contiguous() ? value(v) : copied(value(v)));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (in_place && writes_captured(node, now, i)) {
      out.push_back(in[i]);
      for (size_t w = 0; w < done_.size(); ++w)
        if (graph_.writes()[w].value == node.outputs[i]) done_[w] = true;
      program_.written_.push_back(in[i]);
      values_[node.outputs[i]] = in[i];
    } else {
      const Graph::Value& made = graph_.values()[node.outputs[i]];
      out.push_back(fresh(made.shape, made.dtype));
      set(node.outputs[i], out[i]);
    }
  }
  add_step(Program::Kind::Opaque, in, out).index = static_cast<int64_t>(program_.bound_.size());
  program_.bound_.push_back(node.opaque->bind(in, out));
  program_.names_.emplace_back(node.opaque->name());
}

// Whether a write that is still to come changes what the value's tensor sees.
bool Planner::is_overwritten(int64_t v) const {
  for (size_t w = 0; w < done_.size(); ++w) {
    const Graph::Write& write = graph_.writes()[w];
    const Storage* target = write.argument < 0 ? &write.target.storage()
                                               : program_.arguments_[write.argument].storage.get();
    if (!done_[w] && target == &value(v).storage()) return true;
  }
  return false;
}

// The memory of a result, which the step that makes it writes at once where it has its own.
int64_t Planner::memory_for(int64_t v) {
  Tensor made = value(v);
  const auto buffer = buffer_of_.find(&made.storage());
  if (buffer == buffer_of_.end() || !made.is_contiguous() || made.offset() != 0 ||
      static_cast<size_t>(made.numel()) * made.itemsize() != made.storage().block.bytes)
    made = copied(made);
  const auto number = static_cast<int64_t>(program_.memories_.size());
  Buffer& taken = buffers_[buffer_of_.at(&made.storage())];
  program_.memories_.push_back({taken.storage, taken.storage->block.bytes});
  buffer_of_.erase(&made.storage());
  const auto last = static_cast<int64_t>(program_.steps_.size()) - 1;
  program_.taken_.push_back(
      {std::min(taken.first, last), program_.memories_.back(), Program::Use::Result});
  taken.storage = {};
  memory_of_[&made.storage()] = number;
  return number;
}

void Planner::plan_results() {
  std::unordered_map<const Storage*, int64_t> returned;  // recorded memory: one for all its views
  for (const Graph::Output& output : outputs_) {
    const Tensor& t = output.tensor;
    if (output.argument >= 0) program_.arguments_[output.argument].used = true;
    if (output.argument >= 0 || !t.is_recorded()) {
      program_.results_.push_back({t, -1, output.argument});
      continue;
    }
    const auto it = returned.find(&t.storage());
    const int64_t memory = it != returned.end() ? it->second : memory_for(output.value);
    returned[&t.storage()] = memory;
    program_.results_.push_back({t, memory, -1});
  }
  if (part_ != Program::Part::First) return;
  for (int64_t v : cut_.carried) {
    const Graph::Value& kept = graph_.values()[v];
    // What is returned, too, is kept as it is: its version tells whether it was written to.
    const auto it = memory_of_.find(&value(v).storage());
    const bool is_returned =
        it != memory_of_.end() && value(v).is_contiguous() && value(v).offset() == 0;
    const int64_t memory = is_returned ? it->second : memory_for(v);
    program_.results_.push_back(
        {Tensor::from_storage(Ref<Storage>(new Storage), kept.shape, contiguous_strides(kept.shape),
                              0, kept.dtype),
         memory, -1});
  }
}

void Planner::plan_writes() {
  // What lies in memory that is written is taken from there before.
  std::vector<Tensor> sources(done_.size());
  for (size_t w = 0; w < done_.size(); ++w) {
    const int64_t v = graph_.writes()[w].value;
    if (!done_[w]) sources[w] = is_overwritten(v) ? copied(value(v)) : value(v);
  }
  for (size_t w = 0; w < done_.size(); ++w) {
    if (done_[w]) continue;
    const Graph::Write& write = graph_.writes()[w];
    if (write.argument < 0) {
      add_copy(sources[w], write.target);
      program_.written_.push_back(write.target);
    } else {
      Program::Argument& argument = program_.arguments_[write.argument];
      argument.used = argument.written = true;
      add_copy(sources[w], Tensor::from_storage(argument.storage, write.target.shape(),
                                                write.target.strides(), 0, write.target.dtype()));
    }
  }
}

// What a run will hold at most, with the lifetimes as they are, where buffers of at least so many
// bytes have blocks of their own.
size_t Planner::peak(size_t own_block) const {
  const auto steps = static_cast<int64_t>(program_.steps_.size());
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  std::vector<Lifetime> small;
  const auto add = [&](int64_t first, int64_t last, size_t bytes) {
    change[first] += static_cast<int64_t>(bytes);
    change[last + 1] -= static_cast<int64_t>(bytes);
  };
  for (const Program::Turn& turn : program_.taken_)
    if (turn.step >= 0) add(turn.step, steps - 1, turn.memory.bytes);
  for (const Buffer& buffer : buffers_) {
    if (!is_used(buffer)) continue;
    const size_t bytes = buffer.storage->block.bytes;
    if (bytes < own_block) {
      small.push_back({buffer.first, buffer.last, bytes});
    } else {
      add(buffer.first, buffer.last, bytes);
    }
  }
  if (!small.empty()) {
    const auto [first, last] = span_of(small);
    add(first, last, pack(small, steps, memory::kAlignment).bytes);
  }
  int64_t held = 0, most = 0;
  for (const int64_t bytes : change) most = std::max(most, held += bytes);
  return static_cast<size_t>(most);
}

// The smallest buffer that has a block of its own: the arena, which is there for as long as
// anything lies in it, must not add to a peak that eager mode stays below.
size_t Planner::least_own_block() const {
  for (size_t own = kOwnBlock; own > memory::kAlignment; own /= 4)
    if (peak(own) <= unfused_peak_) return own;
  return 0;
}

// What steps of a group use is there from its first step to its last.
void Planner::stretch(std::span<const Program::Side> sides) {
  std::vector<int64_t> from(program_.steps_.size());
  std::iota(from.begin(), from.end(), 0);
  std::vector<int64_t> to = from;
  for (const Program::Side& side : sides)
    for (int64_t s = side.first; s <= side.last; ++s) from[s] = side.first, to[s] = side.last;
  for (Buffer& buffer : buffers_) {
    if (buffer.last < 0) continue;
    buffer.first = from[buffer.first];
    buffer.last = to[buffer.last];
  }
  for (Program::Turn& turn : program_.taken_)
    if (turn.step >= 0) turn.step = from[turn.step];
}

// Steps that run side by side, as far as the run holds no more for that.
void Planner::plan_sides() {
  const auto steps = static_cast<int64_t>(program_.steps_.size());
  Lives lives;
  for (const Buffer& buffer : buffers_)
    if (is_used(buffer))
      lives[buffer.storage.get()] = {buffer.first, buffer.last, buffer.storage->block.bytes};
  for (const Program::Turn& turn : program_.taken_)
    if (turn.step >= 0)
      lives[turn.memory.storage.get()] = {turn.step, steps - 1, turn.memory.bytes};
  std::vector<Program::Side> sides = SideChooser(program_, lives, std::max(2, num_threads())).run();
  if (sides.empty()) return;
  const size_t enough = peak(least_own_block());
  const std::vector<Buffer> buffers = buffers_;
  const std::vector<Program::Turn> taken = program_.taken_;
  for (; !sides.empty(); sides.resize(sides.size() / 2)) {
    stretch(sides);
    if (peak(least_own_block()) <= enough) break;
    buffers_ = buffers;
    program_.taken_ = taken;
  }
  program_.sides_ = std::move(sides);
}

// Small buffers lie in one arena from their first step to their last; large ones have blocks of
// their own, for which a run asks for room.
void Planner::place() {
  const auto steps = static_cast<int64_t>(program_.steps_.size());
  std::vector<Lifetime> small, large;
  std::vector<Ref<Storage>> in_arena;
  const auto add_large = [&](int64_t first, int64_t last, size_t bytes) {
    if (bytes > memory::kSlabMax) large.push_back({first, last, bytes});
  };
  const size_t own_block = least_own_block();
  for (const Program::Turn& turn : program_.taken_)  // of results
    if (turn.step >= 0) add_large(turn.step, steps - 1, turn.memory.bytes);
  for (const Buffer& buffer : buffers_) {
    if (!is_used(buffer)) continue;
    const size_t bytes = buffer.storage->block.bytes;
    if (bytes < own_block) {
      small.push_back({buffer.first, buffer.last, bytes});
      in_arena.push_back(buffer.storage);
      continue;
    }
    program_.taken_.push_back({buffer.first, {buffer.storage, bytes}});
    program_.given_back_.push_back({buffer.last, {buffer.storage, bytes}});
    add_large(buffer.first, buffer.last, bytes);
  }
  if (!small.empty()) {
    const Packing arena = pack(small, steps, memory::kAlignment);
    const auto [first, last] = span_of(small);
    const Program::Memory memory{Ref<Storage>(new Storage), arena.bytes};
    program_.taken_.push_back({first, memory, Program::Use::Arena});
    program_.given_back_.push_back({last, memory, Program::Use::Arena});
    program_.arena_bytes_ = arena.bytes;
    for (size_t i = 0; i < in_arena.size(); ++i)
      program_.placed_.emplace_back(in_arena[i], arena.offsets[i]);
  }
  if (!large.empty()) program_.room_ = pack(large, steps, memory::kRangeStep).bytes + kScratch;
  const auto by_step = [](const Program::Turn& a, const Program::Turn& b) {
    return a.step < b.step;
  };
  std::stable_sort(program_.taken_.begin(), program_.taken_.end(), by_step);
  std::stable_sort(program_.given_back_.begin(), program_.given_back_.end(), by_step);
}

}  // namespace tinyt
