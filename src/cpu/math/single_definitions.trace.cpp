// The functors of math.h on float32 values, with double words in the place of float64.
#define TINYT_TRACE
#define TINYT_TRACE_SINGLE

#include "cpu/math/definitions.h"
#include "cpu/math/trace_definitions.h"

namespace tinyt::cpu {

namespace {

constexpr std::array<Trace, kOpCount> kSingleTraces = [] {
  using namespace op_flags;
  std::array<Trace, kOpCount> traces{};
#define SCALAR_OP(name, arity, rule, flags, attributes) \
  traces[static_cast<size_t>(OpId::name)] =             \
      trace_of<op::name, float, arity, DTypeRule::rule, flags>();
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  return traces;
}();

}  // namespace

const ScalarDefinition* single_definition_of(OpId op) {
  static Definitions<kOpCount> definitions;
  const auto row = static_cast<size_t>(op);
  return kSingleTraces[row] == nullptr ? nullptr : definitions.made_by(kSingleTraces[row], row);
}

}  // namespace tinyt::cpu
