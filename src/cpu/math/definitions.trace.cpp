// The functors of math.h called once with values that write down what is done with them.
#define TINYT_TRACE

#include <limits>

#include "cpu/math/definitions.h"
#include "cpu/math/trace_definitions.h"
#include "cpu/simd/convert_bits.h"

namespace tinyt::cpu {

namespace {

using Traces = std::array<std::array<Trace, kDTypeCount>, kOpCount>;

template <class Op, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr void fill(std::array<Trace, kDTypeCount>& row) {
  row[static_cast<int>(DType::Float32)] = trace_of<Op, float, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Float64)] = trace_of<Op, double, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Int64)] = trace_of<Op, int64_t, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Bool)] = trace_of<Op, uint8_t, Arity, Rule, Flags>();
}

constexpr Traces kTraces = [] {
  using namespace op_flags;
  Traces traces{};
#define SCALAR_OP(name, arity, rule, flags, attributes) \
  fill<op::name, arity, DTypeRule::rule, flags>(traces[static_cast<size_t>(OpId::name)]);
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  return traces;
}();

// ---- conversions: as convert.h has them

F32 bits_to_float(U32 bits) { return bit_cast<F32>(bits); }
U32 float_to_bits(F32 x) { return bit_cast<U32>(x); }
U32 choose(I32 condition, U32 a, U32 b) { return select(condition, a, b); }

// Cut as an instruction does, and the lowest integer for what is beyond, or is a NaN.
template <class To, class V>
To whole_number(V x, double end) {
  const auto inside = (V(-end) <= x) & (x < V(end));
  const To cut = converted<To>(select(inside, x, V{}));
  return select(inside, cut, splat(std::numeric_limits<Element<To>>::min()));
}
// In 32 bits where these hold it: what has vectors in most machines.
template <class V>
I64 to_integer(V x, DType to) {
  if constexpr (!kIsFloat<V>) return converted<I64>(x);
  if (to == DType::Int64) return whole_number<I64>(x, 0x1p63);
  return converted<I64>(whole_number<I32>(x, 0x1p31));
}
// The low bits, as the dtype has them.
I64 wrapped(I64 x, DType to) {
  if (to == DType::UInt8) return x & 0xFF;
  const int64_t unused = 64 - 8 * static_cast<int64_t>(size_of(to));
  return unused == 0 ? x : (x << unused) >> unused;
}
F32 rounded(F32 x, DType to) {
  if (to == DType::Float16) return half_to_float(float_to_half(x));
  if (to == DType::BFloat16) return bits_to_float(float_to_brain(x) << 16);
  return x;
}
template <class V>
int cast_to(V x, DType to) {
  if (is_bool(to)) return converted<B8>(x != V{}).node();
  if (is_integer(to)) {
    const I64 whole = to_integer(x, to);
    return (kIsFloat<V> && to == DType::Int32 ? whole : wrapped(whole, to)).node();
  }
  if (to == DType::Float64) return converted<F64>(x).node();
  return rounded(converted<F32>(x), to).node();
}
int cast_between(DType from, DType to) {
  const int x = builder->input(held_type(from));
  switch (held_type(from)) {
    case ScalarType::U8:
      return cast_to(converted<I32>(B8::of(x)), to);
    case ScalarType::I64:
      if (from == DType::Int64 || is_integer(to)) return cast_to(I64::of(x), to);
      return cast_to(converted<I32>(I64::of(x)), to);
    case ScalarType::F64:
      return cast_to(F64::of(x), to);
    default:
      return cast_to(F32::of(x), to);
  }
}

const ScalarDefinition* definition_of(OpId op, DType compute) {
  static Definitions<size_t{kOpCount} * kDTypeCount> definitions;
  const auto row = static_cast<size_t>(op), column = static_cast<size_t>(compute);
  if (kTraces[row][column] == nullptr) return nullptr;
  return definitions.made_by(kTraces[row][column], row * kDTypeCount + column);
}
const ScalarDefinition* cast_of(DType from, DType to) {
  static Definitions<size_t{kDTypeCount} * kDTypeCount> definitions;
  if (is_complex(from) || is_complex(to)) return nullptr;
  return definitions.made_by([&] { return cast_between(from, to); },
                             static_cast<size_t>(from) * kDTypeCount + static_cast<size_t>(to));
}
const ScalarDefinition* unpack_of(DType half) {
  static Definitions<kDTypeCount> definitions;
  if (half != DType::Float16 && half != DType::BFloat16) return nullptr;
  const auto trace = [&] {
    const auto bits = U32::of(builder->input(ScalarType::U32));
    return (half == DType::Float16 ? half_to_float(bits) : bits_to_float(bits << 16)).node();
  };
  return definitions.made_by(trace, static_cast<size_t>(half));
}
const ScalarDefinition* pack_of(DType half) {
  static Definitions<kDTypeCount> definitions;
  if (half != DType::Float16 && half != DType::BFloat16) return nullptr;
  const auto trace = [&] {
    const auto x = F32::of(builder->input(ScalarType::F32));
    return (half == DType::Float16 ? float_to_half(x) : float_to_brain(x)).node();
  };
  return definitions.made_by(trace, static_cast<size_t>(half));
}

}  // namespace

const DefinitionSource& definitions() {
  static constexpr DefinitionSource kSource{definition_of, single_definition_of, cast_of, unpack_of,
                                            pack_of};
  return kSource;
}

}  // namespace tinyt::cpu
