// The functors of math.h called once with values that write down what is done with them.
#define TINYT_TRACE

#include "cpu/math/definitions.h"

#include <array>
#include <memory>
#include <mutex>
#include <utility>

#include "cpu/math/math.h"
#include "cpu/math/scalar_rows.h"

namespace tinyt::cpu {

namespace {

// The node of a result: of a test or comparison the Bool itself.
template <class V>
int result_of(DTypeRule rule, V y) {
  return rule == DTypeRule::Bool ? y.truth() : y.node();
}

template <class Op, class T, int Arity, DTypeRule Rule, uint32_t Flags>
int apply() {
  using V = Traced<T>;
  const auto input = [] { return V::of(builder->input(V::kType)); };
  if constexpr (Arity == 1) {
    return result_of(Rule, Op::apply(input()));
  } else if constexpr ((Flags & op_flags::predicate_first) != 0) {
    const auto condition = Mask<V>::of(builder->input(ScalarType::Bool));
    const V x = input(), y = input();
    return result_of(Rule, Op::apply(condition, x, y));
  } else if constexpr (Arity == 2) {
    const V x = input(), y = input();
    return result_of(Rule, Op::apply(x, y));
  } else if constexpr (Arity == 3) {
    const V x = input(), y = input(), z = input();
    return result_of(Rule, Op::apply(x, y, z));
  } else {
    const V x = input(), y = input(), z = input(), w = input();
    return result_of(Rule, Op::apply(x, y, z, w));
  }
}

using Trace = int (*)();
using Traces = std::array<std::array<Trace, kDTypeCount>, kOpCount>;

template <class Op, class T, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr Trace trace_of() {
  if constexpr (takes<T>(Rule, Flags)) return apply<Op, T, Arity, Rule, Flags>;
  return nullptr;
}
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
  static std::mutex mutex;
  static std::array<std::array<std::unique_ptr<const ScalarDefinition>, kDTypeCount>, kOpCount> made;
  const Trace trace = kTraces[static_cast<size_t>(op)][static_cast<size_t>(compute)];
  if (trace == nullptr) return nullptr;
  const std::lock_guard lock(mutex);
  auto& definition = made[static_cast<size_t>(op)][static_cast<size_t>(compute)];
  if (!definition) {
    DefinitionBuilder own;
    builder = &own;
    const int result = trace();
    definition = std::make_unique<const ScalarDefinition>(own.finish(result));
    builder = nullptr;
  }
  return definition.get();
}

}  // namespace tinyt::cpu
