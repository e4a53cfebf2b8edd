// Regions: how they run through their operands, and where their results lie.
#include <algorithm>
#include <array>

#include "core/plan/planner.h"

namespace tinyt {

namespace {

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

}  // namespace

// Numbers of a run, and single elements given, in the dtypes of regions' registers, before anything
// else: in between they would keep steps apart that can run side by side, or after what is written
// at once.
void Planner::convert_numbers(std::span<const Group> groups) {
  for (const Group& group : groups) {
    if (!group.is_region() || !is_in_part(group.nodes[0])) continue;
    for (size_t i = 0; i < group.inputs.size(); ++i)
      if (graph_.values()[group.inputs[i].value].node < 0) operand_of(group, i);
  }
}

// A single element in the dtype of a region's register, by way of another; once for all regions. It
// is part of the program, so that a run takes no memory for it.
Tensor Planner::converted(int64_t v, DType through, DType dtype) {
  if (const auto it = converted_.find({v, through, dtype}); it != converted_.end())
    return it->second;
  const DType own = value(v).dtype();
  const Tensor x = through == own ? value(v) : converted(v, own, through);
  if (x.dtype() == dtype) return x;
  const Tensor out = Tensor::from_storage(Storage::of_number(dtype), x.shape(),
                                          contiguous_strides(x.shape()), 0, dtype);
  if (value(v).impl()->is_scalar && !is_number_[v]) {
    kernels_of(x.device()).copy_into(x, out);
  } else {
    add_copy(x, out);
  }
  return converted_[{v, through, dtype}] = out;
}

// As the region's register `i` takes it. Integers beyond the dtype of the call wrap.
Tensor Planner::operand_of(const Group& group, size_t i) {
  const RegionInput& input = group.inputs[i];
  const DType dtype = group.tiles.registers[i].dtype;
  const Tensor& t = value(input.value);
  const bool wraps = is_integral(input.through) && t.dtype() != input.through &&
                     dtype != input.through && dtype != DType::Bool;
  if (t.numel() == 1 && (wraps || t.dtype() != dtype))
    return converted(input.value, wraps ? input.through : t.dtype(), dtype);
  if (!input.per_row) return t;
  Dims shape(t.shape()), strides(t.strides());
  shape.resize(shape.size() + group.reduced, 1);
  strides.resize(shape.size(), 0);
  return t.view(shape, strides, t.offset());
}

namespace {

// A loop over dimensions of a region's shape, and the step of every operand in it, in elements.
struct Loop {
  int64_t size;
  Dims strides;
};

// Loops over dimensions [from, to), merged where all operands allow.
void add_loops(std::vector<Loop>& loops, std::span<const int64_t> shape,
               const std::vector<Dims>& strides, size_t from, size_t to) {
  const size_t others = loops.size();
  for (size_t d = from; d < to; ++d) {
    if (shape[d] == 1) continue;
    Dims steps;
    bool merges = loops.size() > others;
    for (size_t k = 0; k < strides.size(); ++k) {
      steps.push_back(strides[k][d]);
      merges = merges && loops.back().strides[k] == steps[k] * shape[d];
    }
    if (merges) {
      loops.back() = {loops.back().size * shape[d], steps};
    } else {
      loops.push_back({shape[d], steps});
    }
  }
}

// Dimensions [from, end) as one loop, along which every operand is dense or one element.
Loop row_loop(std::span<const int64_t> shape, const std::vector<Dims>& strides, size_t from) {
  Loop row{numel_of(shape.subspan(from)), {}};
  for (const Dims& s : strides) {
    int64_t step = 0;
    for (size_t d = from; d < shape.size(); ++d)
      if (shape[d] > 1) step = s[d];
    row.strides.push_back(step);
  }
  return row;
}

// Notes the loops, of which `last` runs along a row, and each operand's byte strides in them.
void set_loops(Plan::Region& region, const std::vector<Loop>& loops, const Loop& last,
               std::span<const Tensor> in) {
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

}  // namespace

// Finds the loops over a region's shape. What cannot be read where it lies is copied. After a
// product rows are those of its result, as far as all operands are dense or one element along them,
// and nothing is gathered.
void Planner::lay_out(Plan::Region& region, std::vector<Tensor>& in, const Group& group) {
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
    inner = op == OpId::conv || op == OpId::conv_backward_input ? shape.size() - 2 : 1;
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
    until_.emplace(&t.storage(), -1);  // read here alone: a result may take its place
    strides.back() = t.strides();
  }
  std::vector<Loop> loops;
  add_loops(loops, shape, strides, 0, split);
  Loop last{1, {}};
  if (inner > 0) {
    last = row_loop(shape, strides, split);
  } else if (!loops.empty()) {
    last = loops.back();
    loops.pop_back();
  }
  set_loops(region, loops, last, in);
}

// Whether an output of the same size may lie where an operand does: both run through it in the same
// order, and no step reads the operand once the output is written.
bool Plan::Region::may_replace(size_t operand, size_t output) const {
  const int made = tiles.outputs[output];
  int64_t step = space.cols * static_cast<int64_t>(size_of(tiles.registers[made].dtype));
  const TileOperand& from = operands[operand];
  for (size_t d = from.stride.size(); d-- > 0; step *= space.outer[d])
    if (from.stride[d] != step) return false;
  if (!from.inner && space.cols != 1) return false;
  bool written = false;
  for (const TileProgram::Step& s : tiles.steps) {
    const bool writes = s.out == made;
    const bool at_once = writes && info(s.op).kind == OpKind::Scalar;
    written |= writes;
    if (written && !at_once && std::count(s.in, s.in + s.inputs, static_cast<int>(operand)) != 0)
      return false;
  }
  return true;
}

// A result takes the place of an operand that nobody reads any more, neither later nor in steps
// after the one that makes it, where all operands that lie there run through it in the same order;
// else new memory. `taken`: of operands.
Tensor Planner::result_of(const Group& group, size_t output, const Plan::Region& region,
                          const std::vector<Tensor>& in, int64_t now, std::vector<bool>& taken) {
  const TileProgram& tiles = group.tiles;
  const Graph::Value& made = graph_.values()[group.outputs[output]];
  const auto takes = [&](size_t i) {
    const Tensor& t = in[i];
    if (t.itemsize() != size_of(made.dtype) || t.numel() != numel_of(made.shape) ||
        !until_.contains(&t.storage()) || !may_overwrite(t, now))
      return false;
    for (size_t k = 0; k < in.size(); ++k)
      if (&in[k].storage() == &t.storage() &&
          (taken[k] || in[k].itemsize() != t.itemsize() || in[k].offset() != t.offset() ||
           !region.may_replace(k, output)))
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
  Plan::Region region{group.tiles, {}, {}, {}};
  std::vector<Tensor> own, in, out;
  if (group.product >= 0) own = plan_product(group, now, region);
  const auto is_made = [&](size_t i) {
    return region.product && region.product->operand == static_cast<int>(i);
  };
  for (size_t i = 0; i < group.inputs.size(); ++i)
    in.push_back(is_made(i) ? region.product->result : operand_of(group, i));
  lay_out(region, in, group);
  std::vector<bool> taken;
  for (size_t i = 0; i < in.size(); ++i)  // the product reads its operands to its end
    taken.push_back(!is_made(i) && std::any_of(own.begin(), own.end(), [&](const Tensor& x) {
      return &x.storage() == &in[i].storage();
    }));
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
  Plan::Step& step = add_step(Plan::Kind::Region, own, out);
  step.index = static_cast<int64_t>(plan_.regions.size());
  if (region.product) step.compute = region.product->compute;
  plan_.regions.push_back(std::move(region));
}

// The product that a region begins with; its operands. Its result has new memory, which one of the
// region's takes if nobody else reads it.
std::vector<Tensor> Planner::plan_product(const Group& group, int64_t now, Plan::Region& region) {
  const Graph::Node& node = graph_.nodes()[group.product];
  const int64_t v = node.outputs[0];
  std::vector<Tensor> in;
  for (const int64_t from : node.inputs) in.push_back(value(from));
  Inferred inferred;
  infer(node.op, in, node.attrs, inferred);
  // An addend that the region reads as well stays what it is.
  const bool may_take =
      node.op == OpId::matmul_add &&
      std::none_of(group.inputs.begin(), group.inputs.end(), [&](const RegionInput& input) {
        return input.value != v && &value(input.value).storage() == &in[2].storage();
      });
  const Tensor* taken = may_take ? addend_to_take(in, inferred, now) : nullptr;
  const Tensor result = taken ? *taken : fresh(inferred.shape[0], inferred.dtype[0]);
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
      .attrs = static_cast<int64_t>(plan_.attrs.size()),
      .operand = at == group.inputs.end() ? -1 : static_cast<int>(at - group.inputs.begin()),
      .result = result};
  plan_.attrs.push_back(inferred.attrs);
  return in;
}

}  // namespace tinyt
