// Regions: their operands, and where their results lie.
#include <algorithm>

#include "core/ops/fallback.h"
#include "core/plan/planner.h"

namespace tinyt {

// Numbers of a run, and single elements given, in the dtypes of regions' registers, before anything
// else: in between they would keep steps apart that can run side by side, or after what is written
// at once.
void Planner::convert_numbers(std::span<const Group> groups) {
  for (const Group& group : groups) {
    if (!group.is_region() || !is_in_part(group.nodes[0])) continue;
    for (const CompiledKernel::Operand& operand : group.compiled->operands())
      if (graph_.values()[group.inputs[operand.load].value].node < 0) operand_of(group, operand);
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

// As the region's kernel takes it. Integers beyond the dtype of the call wrap.
Tensor Planner::operand_of(const Group& group, const CompiledKernel::Operand& operand) {
  const RegionInput& input = group.inputs[operand.load];
  const auto& [load, dtype, through] = operand;
  const Tensor& t = value(input.value);
  const bool wraps =
      is_integral(through) && t.dtype() != through && dtype != through && dtype != DType::Bool;
  if (t.numel() == 1 && (wraps || t.dtype() != dtype))
    return converted(input.value, wraps ? through : t.dtype(), dtype);
  if (!input.per_row) return t;
  Dims shape(t.shape()), strides(t.strides());
  shape.resize(shape.size() + group.reduced, 1);
  strides.resize(shape.size(), 0);
  return t.view(shape, strides, t.offset());
}

// A result takes the place of an operand that nobody reads any more, neither later nor in steps
// after the one that makes it, where all operands that lie there run through it in the same order;
// else new memory. `taken`: of operands.
Tensor Planner::result_of(const Group& group, size_t output, const Plan::Region& region,
                          const std::vector<Tensor>& in, int64_t now, std::vector<bool>& taken) {
  const Graph::Value& made = graph_.values()[group.outputs[output]];
  const auto takes = [&](size_t i) {
    const Tensor& t = in[i];
    if (t.device() != made.device || t.itemsize() != size_of(made.dtype) ||
        t.numel() != numel_of(made.shape) || !until_.contains(&t.storage()) ||
        !may_overwrite(t, now))
      return false;
    for (size_t k = 0; k < in.size(); ++k)
      if (&in[k].storage() == &t.storage() &&
          (taken[k] || in[k].itemsize() != t.itemsize() || in[k].offset() != t.offset() ||
           !region.kernel->may_replace(k, output)))
        return false;
    return true;
  };
  const auto take = [&](size_t i) {
    for (size_t k = 0; k < in.size(); ++k)
      if (&in[k].storage() == &in[i].storage()) taken[k] = true;
    return in[i].view_as(made.dtype, made.shape, contiguous_strides(made.shape), in[i].offset());
  };
  if (group.kernel.values[group.kernel.stores[output]].per_row)
    return fresh(made.shape, made.dtype, made.device);
  // A product's result first: it has new memory.
  if (region.product && region.product->operand >= 0 && takes(region.product->operand))
    return take(region.product->operand);
  for (size_t i = 0; i < in.size(); ++i)
    if (takes(i)) return take(i);
  return fresh(made.shape, made.dtype, made.device);
}

void Planner::plan_region(const Group& group, int64_t now) {
  Plan::Region region{group.kernel, group.compiled, group.ops, {}};
  const auto& operands = region.kernel->operands();
  std::vector<Tensor> own, in, out;
  if (group.product >= 0) own = plan_product(group, now, region);
  const auto is_made = [&](size_t i) {
    return region.product && region.product->operand == static_cast<int>(i);
  };
  for (size_t i = 0; i < operands.size(); ++i)
    in.push_back(is_made(i) ? region.product->result : operand_of(group, operands[i]));
  region.kernel->lay_out(in, [&](const Tensor& t) {
    const Tensor dense = copied(t);
    until_.emplace(&dense.storage(), -1);  // read here alone: a result may take its place
    return dense;
  });
  std::vector<bool> taken;
  for (size_t i = 0; i < in.size(); ++i)  // the product reads its operands to its end
    taken.push_back(!is_made(i) && std::any_of(own.begin(), own.end(), [&](const Tensor& x) {
      return &x.storage() == &in[i].storage();
    }));
  for (size_t o = 0; o < group.outputs.size(); ++o)
    out.push_back(result_of(group, o, region, in, now, taken));
  for (size_t o = 0; o < group.outputs.size(); ++o) set(group.outputs[o], out[o]);
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
  const Device device = graph_.values()[v].device;
  const Tensor result = taken ? *taken : fresh(inferred.shape[0], inferred.dtype[0], device);
  if (last_read_[v] > now) {
    set(v, result);
  } else {
    until_[&result.storage()] = now;
  }
  const auto& operands = region.kernel->operands();
  const auto at =
      std::ranges::find(operands, group.kernel.front.load, &CompiledKernel::Operand::load);
  region.product = {.op = node.op,
                    .compute = inferred.compute,
                    .kernel = kernel_of(node.op, inferred.compute, in.size(), device),
                    .inputs = in.size(),
                    .attrs = static_cast<int64_t>(plan_.attrs.size()),
                    .operand = at == operands.end() ? -1 : static_cast<int>(at - operands.begin()),
                    .result = result};
  plan_.attrs.push_back(inferred.attrs);
  return in;
}

}  // namespace tinyt
