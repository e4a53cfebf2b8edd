// Scalar definitions of functors called with the values of a trace. For the files that define
// TINYT_TRACE.
#pragma once

#include <array>
#include <memory>
#include <mutex>

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

template <class Op, class T, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr Trace trace_of() {
  if constexpr (takes<T>(Rule, Flags)) return apply<Op, T, Arity, Rule, Flags>;
  return nullptr;
}

// N definitions, each made at its first use: what a trace leaves, whose result is its node.
template <size_t N>
class Definitions {
 public:
  template <class F>
  const ScalarDefinition* made_by(const F& trace, size_t number) {
    const std::lock_guard lock(mutex_);
    auto& definition = made_[number];
    if (!definition) {
      DefinitionBuilder own;
      builder = &own;
      const int result = trace();
      definition = std::make_unique<const ScalarDefinition>(own.finish(result));
      builder = nullptr;
    }
    return definition.get();
  }

 private:
  std::mutex mutex_;
  std::array<std::unique_ptr<const ScalarDefinition>, N> made_;
};

}  // namespace
}  // namespace tinyt::cpu
