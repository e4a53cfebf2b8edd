#include "gpu/fused_values.h"

#include <algorithm>

#include "core/base/error.h"
#include "gpu/rare_paths.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

void FusedValues::find_live() {
  live_.resize(kernel_.values.size(), false);
  for (const int v : kernel_.stores) live_[static_cast<size_t>(v)] = true;
  for (size_t i = kernel_.ops.size(); i-- > 0;)
    if (is_live(kernel_.made_by(i)))
      for (const Operand& in : kernel_.ops[i].in) live_[static_cast<size_t>(in.value)] = true;
}

void FusedValues::find_pass(size_t i) {
  const FusedKernel::Op& op = kernel_.ops[i];
  int pass = 0;
  for (const Operand& in : op.in) pass = std::max(pass, pass_of(in.value));
  const int v = kernel_.made_by(i);
  if (reduces(op) && is_live(v)) last_pass_ = std::max(last_pass_, pass);
  pass_.push_back(reduces(op) ? pass + 1 : pass);
  const bool stored = std::ranges::find(kernel_.stores, v) != kernel_.stores.end();
  if (stored && !value(v).per_row) last_pass_ = std::max(last_pass_, pass);
}

std::vector<int> FusedValues::needs(const std::vector<int>& wanted, bool per_row) const {
  std::vector<bool> need(kernel_.values.size(), false);
  for (const int v : wanted) need[static_cast<size_t>(v)] = true;
  std::vector<int> order;
  for (int v = static_cast<int>(kernel_.values.size()) - 1; v >= 0; --v) {
    if (!need[static_cast<size_t>(v)]) continue;
    if (is_load(v) || value(v).per_row == per_row) order.push_back(v);
    if (is_load(v) || reduces(op_of(v)) || value(v).per_row != per_row || is_kept(v)) continue;
    for (const Operand& in : op_of(v).in) need[static_cast<size_t>(in.value)] = true;
  }
  std::ranges::reverse(order);
  return order;
}

void FusedValues::leave_unrounded(int v) {
  const auto takes = [&](const FusedKernel::Op& op) {
    return std::ranges::any_of(op.in, [&](const Operand& in) { return in.value == v; });
  };
  unrounded_[static_cast<size_t>(v)] = !is_load(v) && std::ranges::none_of(kernel_.ops, takes);
}

const ScalarDefinition* FusedValues::definition_of(const FusedKernel::Op& op) const {
  if (converts(op.op) || info(op.op).kind != OpKind::Scalar) return nullptr;
  return definition_in(dialect(), op.op, info(op.compute).compute);
}

bool FusedValues::has_rare(int v) const {
  if (dialect().flag.empty()) return false;
  const ScalarDefinition* definition = definition_of(op_of(v));
  if (definition == nullptr || definition->rare.empty()) return false;
  const RarePaths paths(*definition);
  return !paths.paths().empty() && paths.has_vectors();
}

int FusedValues::cost_of(int v) const {
  const ScalarDefinition* definition = definition_of(op_of(v));
  return definition == nullptr ? 1 : static_cast<int>(definition->nodes.size());
}

// As the eager call converts it: to the dtype that it computes in, of a number with no rounding on
// the way but that of integers.
std::string FusedValues::operand(const FusedKernel::Op& op, size_t i) {
  const Operand& in = op.in[i];
  const DType have = value(in.value).dtype, compute = info(op.compute).compute;
  const std::string x = name_of_value(in.value);
  if (i == 0 && has_flag(op.op, op_flags::predicate_first))
    return call_cast(x, have, DType::Bool) + " != 0";
  const bool directly = in.single && !is_bool(op.compute) && !is_integer(op.compute);
  return call_cast(x, have, directly ? compute : op.compute);
}

std::string FusedValues::result_of(int v, Form form) {
  const FusedKernel::Op& op = op_of(v);
  const auto result = [&](const std::string& x, DType have) {
    const bool as_it_is = is_unrounded(v) && held(have) == ScalarType::F32;
    return as_it_is ? x : call_cast(x, have, value(v).dtype);
  };
  if (converts(op.op)) return result(name_of_value(op.in[0].value), value(op.in[0].value).dtype);
  const DType compute = info(op.compute).compute;
  const ScalarDefinition* definition = definition_of(op);
  require(definition != nullptr, ErrorKind::NotImplemented, this->name(), ": ",
          tinyt::name_of(op.op), " has no definition in ", tinyt::name_of(compute));
  if (!has_rare(v)) form = Form::Whole;
  const std::string name = joined_words(tinyt::name_of(op.op), tinyt::name_of(compute));
  std::string call =
      function(*definition, form == Form::Whole ? name : name + "_common", form) + "(";
  for (size_t i = 0; i < op.in.size(); ++i) call += (i == 0 ? "" : ", ") + operand(op, i);
  call += form == Form::Whole ? ")" : ", &rare)";
  if (definition->type() != ScalarType::Bool) return result(call, compute);
  return write().cast(write().type(ScalarType::U8), call);
}

}  // namespace tinyt::gpu
