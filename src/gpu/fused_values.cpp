#include "gpu/fused_values.h"

#include <cmath>

#include "core/base/error.h"
#include "core/ops/definition_builder.h"
#include "gpu/rare_paths.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// a joined by b, where a comes first: a sum, a product, or the larger or smaller one, of which a
// NaN wins.
ScalarDefinition combination(OpId op, ScalarType type) {
  DefinitionBuilder make;
  const int a = make.input(type), b = make.input(type);
  if (op == OpId::sum) return make.finish(make.value(MachineOp::add, type, a, b));
  if (op == OpId::prod) return make.finish(make.value(MachineOp::mul, type, a, b));
  const bool largest = op == OpId::amax;
  const int first = make.value(MachineOp::less, ScalarType::Bool, largest ? b : a, largest ? a : b);
  const int end = make.value(MachineOp::select, type, first, a, b);  // an instruction of its own
  if (!is_float(type)) return make.finish(end);
  const int nan = make.value(MachineOp::not_equal, ScalarType::Bool, a, a);
  return make.finish(make.value(MachineOp::select, type, nan, a, end));
}

uint64_t identity_bits(OpId op, ScalarType type) {
  const double x = info(op).identity;
  if (is_float(type)) return bits_of(type, x);
  if (!std::isinf(x)) return static_cast<uint64_t>(x);
  const uint64_t least = type == ScalarType::U8 ? 0 : uint64_t{1} << 63;  // of bools and int64
  return x < 0 ? least : type == ScalarType::U8 ? 1 : least - 1;
}

// tt_a_b_c.
template <class... Words>
std::string joined_words(const Words&... words) {
  std::string name = "tt";
  ((name += "_", name += words), ...);
  return name;
}

}  // namespace

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

std::string FusedValues::memory_type(int v) const {
  const auto type = dialect_.memory_types[static_cast<size_t>(value(v).dtype)];
  require(!type.empty(), ErrorKind::NotImplemented, dialect_.name, ": no ",
          tinyt::name_of(value(v).dtype), " in memory");
  return std::string(type);
}

// A function of that name in front of the kernel, once.
std::string FusedValues::function(const ScalarDefinition& definition, const std::string& name,
                                  Form form) {
  if (std::ranges::find(functions_, name, &Functions::value_type::first) == functions_.end()) {
    const auto print = form == Form::Whole ? function_source : common_source;
    functions_.emplace_back(name, print(definition, name, dialect_));
  }
  return name;
}

const ScalarDefinition* FusedValues::definition_of(const FusedKernel::Op& op) const {
  if (converts(op.op) || info(op.op).kind != OpKind::Scalar) return nullptr;
  return definition_in(dialect_, op.op, info(op.compute).compute);
}

bool FusedValues::has_rare(int v) const {
  if (dialect_.flag.empty()) return false;
  const ScalarDefinition* definition = definition_of(op_of(v));
  if (definition == nullptr || definition->rare.empty()) return false;
  const RarePaths paths(*definition);
  return !paths.paths().empty() && paths.has_vectors();
}

int FusedValues::cost_of(int v) const {
  const ScalarDefinition* definition = definition_of(op_of(v));
  return definition == nullptr ? 1 : static_cast<int>(definition->nodes.size());
}

std::string FusedValues::call_cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  const ScalarDefinition* cast = cast_definition(from, to);
  require(cast != nullptr, ErrorKind::NotImplemented, name_, ": no conversion from ",
          tinyt::name_of(from), " to ", tinyt::name_of(to));
  return function(*cast, joined_words(tinyt::name_of(to), "of", tinyt::name_of(from))) + "(" + x +
         ")";
}

std::string FusedValues::unpacked(int load, const std::string& item) {
  const DType dtype = value(load).dtype;
  if (is_bool(dtype)) return write_.cast(write_.type(ScalarType::U8), "(" + item + " != 0)");
  if (is_integer(dtype)) return write_.cast(write_.type(ScalarType::I64), item);
  if (const ScalarDefinition* unpack = unpack_definition(dtype))
    return function(*unpack, joined_words("unpack", tinyt::name_of(dtype))) + "(" + item + ")";
  return item;
}

std::string FusedValues::packed(int v) {
  const DType dtype = value(v).dtype;
  std::string bits = name_of_value(v);
  if (const ScalarDefinition* pack = pack_definition(dtype))
    bits = function(*pack, joined_words("pack", tinyt::name_of(dtype))) + "(" + bits + ")";
  return write_.cast(memory_type(v), bits);
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
  const DType out = value(v).dtype;
  if (converts(op.op))
    return call_cast(name_of_value(op.in[0].value), value(op.in[0].value).dtype, out);
  const DType compute = info(op.compute).compute;
  const ScalarDefinition* definition = definition_of(op);
  require(definition != nullptr, ErrorKind::NotImplemented, name_, ": ", tinyt::name_of(op.op),
          " has no definition in ", tinyt::name_of(compute));
  if (!has_rare(v)) form = Form::Whole;
  const std::string name = joined_words(tinyt::name_of(op.op), tinyt::name_of(compute));
  std::string call =
      function(*definition, form == Form::Whole ? name : name + "_common", form) + "(";
  for (size_t i = 0; i < op.in.size(); ++i) call += (i == 0 ? "" : ", ") + operand(op, i);
  call += form == Form::Whole ? ")" : ", &rare)";
  if (definition->type() != ScalarType::Bool) return call_cast(call, compute, out);
  return write_.cast(write_.type(ScalarType::U8), call);
}

std::string FusedValues::identity(int v) const {
  return literal(accumulator(v), identity_bits(op_of(v).op, accumulator(v)), dialect_);
}

std::string FusedValues::joined(int v, const std::string& a, const std::string& b) {
  const OpId op = op_of(v).op;
  const ScalarType type = accumulator(v);
  const std::string name = joined_words(tinyt::name_of(op), "step", tinyt::name_of(type));
  return function(combination(op, type), name) + "(" + a + ", " + b + ")";
}

}  // namespace tinyt::gpu
