#include "gpu/value_source.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/ops/definition_builder.h"
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

}  // namespace

std::string ValueSource::memory_type(DType dtype) const {
  const auto type = dialect_.memory_types[static_cast<size_t>(dtype)];
  require(!type.empty(), ErrorKind::NotImplemented, dialect_.name, ": no ", tinyt::name_of(dtype),
          " in memory");
  return std::string(type);
}

std::string ValueSource::function(const ScalarDefinition& definition, const std::string& name,
                                  Form form) {
  if (std::ranges::find(functions_, name, &Functions::value_type::first) == functions_.end()) {
    const auto print = form == Form::Whole ? function_source : common_source;
    functions_.emplace_back(name, print(definition, name, dialect_));
  }
  return name;
}

std::string ValueSource::call_op(OpId op, DType compute, const std::string& operands) {
  const ScalarDefinition* definition = definition_in(dialect_, op, compute);
  require(definition != nullptr, ErrorKind::NotImplemented, name_, ": ", tinyt::name_of(op),
          " has no definition in ", tinyt::name_of(compute));
  return function(*definition, joined_words(tinyt::name_of(op), tinyt::name_of(compute))) + "(" +
         operands + ")";
}

std::string ValueSource::call_cast(const std::string& x, DType from, DType to) {
  if (from == to) return x;
  const ScalarDefinition* cast = cast_definition(from, to);
  require(cast != nullptr, ErrorKind::NotImplemented, name_, ": no conversion from ",
          tinyt::name_of(from), " to ", tinyt::name_of(to));
  return function(*cast, joined_words(tinyt::name_of(to), "of", tinyt::name_of(from))) + "(" + x +
         ")";
}

std::string ValueSource::unpacked(DType dtype, const std::string& item) {
  if (is_bool(dtype)) return write_.cast(write_.type(ScalarType::U8), "(" + item + " != 0)");
  if (is_integer(dtype))
    return size_of(dtype) == 8 ? write_.cast(write_.type(ScalarType::I64), item)
                               : write_.widened(item);
  if (const ScalarDefinition* unpack = unpack_definition(dtype))
    return function(*unpack, joined_words("unpack", tinyt::name_of(dtype))) + "(" + item + ")";
  return item;
}

// Its bits: whole numbers as they are.
std::string ValueSource::of_word(DType dtype, const std::string& word, const std::string& high) {
  const ScalarType type = held(dtype), index = dialect_.index;
  require(type != ScalarType::F64 || width_of(index) == 64, ErrorKind::NotImplemented,
          dialect_.name, ": no numbers of float64");
  DefinitionBuilder make;
  int x = make.input(index);
  if (type == ScalarType::I64 && width_of(index) == 32) {
    const int width = make.constant(ScalarType::U64, 32);
    int above = make.value(MachineOp::convert, ScalarType::U32, make.input(index));
    above = make.value(MachineOp::convert, ScalarType::U64, above);
    x = make.value(MachineOp::convert, ScalarType::U32, x);
    x = make.value(MachineOp::convert, ScalarType::U64, x);
    above = make.value(MachineOp::shift_left, ScalarType::U64, above, width);
    x = make.value(MachineOp::bit_or, ScalarType::U64, x, above);
    x = make.value(MachineOp::bit_cast, ScalarType::I64, x);
    return function(make.finish(x), "tt_word_pair") + "(" + word + ", " + high + ")";
  }
  if (type == ScalarType::F32 && width_of(index) > 32)
    x = make.value(MachineOp::convert, ScalarType::U32, x);
  const MachineOp op = is_float(type) ? MachineOp::bit_cast : MachineOp::convert;
  if (type == index) return word;
  x = make.value(op, type, x);
  return function(make.finish(x), joined_words("word", tinyt::name_of(type))) + "(" + word + ")";
}

std::string ValueSource::packed(DType dtype, const std::string& value) {
  std::string bits = value;
  if (const ScalarDefinition* pack = pack_definition(dtype))
    bits = function(*pack, joined_words("pack", tinyt::name_of(dtype))) + "(" + bits + ")";
  const bool narrows = is_integer(dtype) && size_of(dtype) < 8;
  return narrows ? write_.narrowed(memory_type(dtype), bits)
                 : write_.cast(memory_type(dtype), bits);
}

std::string ValueSource::whole(int64_t value) const {
  return literal(ScalarType::I64, static_cast<uint64_t>(value), dialect_);
}

std::string ValueSource::is_nan(ScalarType type, const std::string& x) {
  if (!is_float(type)) return "false";
  DefinitionBuilder make;
  const int value = make.input(type);
  const int nan = make.value(MachineOp::not_equal, ScalarType::Bool, value, value);
  return function(make.finish(nan), joined_words("is_nan", tinyt::name_of(type))) + "(" + x + ")";
}

std::string ValueSource::identity(OpId op, DType dtype) const {
  return literal(accumulator(dtype), identity_bits(op, accumulator(dtype)), dialect_);
}

std::string ValueSource::product_added(DType compute, const std::string& a, const std::string& b,
                                       const std::string& c) {
  if (is_float(held(compute)) && !dialect_.multiply_add.empty())
    return filled(dialect_.multiply_add, {{'A', a}, {'B', b}, {'C', c}});
  return call_op(OpId::add, compute, call_op(OpId::mul, compute, a + ", " + b) + ", " + c);
}

std::string ValueSource::joined(OpId op, DType dtype, const std::string& a, const std::string& b) {
  const ScalarType type = accumulator(dtype);
  const std::string name = joined_words(tinyt::name_of(op), "step", tinyt::name_of(type));
  return function(combination(op, type), name) + "(" + a + ", " + b + ")";
}

}  // namespace tinyt::gpu
