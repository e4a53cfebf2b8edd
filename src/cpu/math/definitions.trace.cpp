// The functors of math.h called once with values that write down what is done with them.
#define TINYT_TRACE

#include "cpu/math/definitions.h"
#include "cpu/math/trace_definitions.h"

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

}  // namespace

const ScalarDefinition* definition_of(OpId op, DType compute) {
  static Definitions<size_t{kOpCount} * kDTypeCount> definitions;
  const auto row = static_cast<size_t>(op), column = static_cast<size_t>(compute);
  return definitions.made_by(kTraces[row][column], row * kDTypeCount + column);
}

}  // namespace tinyt::cpu
