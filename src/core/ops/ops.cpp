#include "core/ops/ops.h"

#include <array>
#include <limits>

namespace tinyt {

namespace {
constexpr double inf = std::numeric_limits<double>::infinity();
using namespace op_flags;
}  // namespace

#define SCALAR_OP(...)
#define REDUCE_OP(...)
#define STRUCT_OP(name, inputs, outputs, ...) static_assert(outputs <= kMostOutputs, #name);
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef REDUCE_OP
#undef STRUCT_OP

// The fields of OpInfo in order; `inf` and the flag letters above serve ops.def.
const OpInfo kOps[kOpCount] = {
#define SCALAR_OP(name, inputs, rule, flags, attrs) \
  {#name, OpKind::Scalar, inputs, 1, DTypeRule::rule, (flags), attrs, 0.0},
#define STRUCT_OP(name, inputs, outputs, rule, flags, attrs) \
  {#name, OpKind::Struct, inputs, outputs, DTypeRule::rule, (flags), attrs, 0.0},
#define REDUCE_OP(name, rule, flags, identity) \
  {#name, OpKind::Reduce, 1, 1, DTypeRule::rule, (flags), "dims:I keepdim:b", (identity)},
#define UPDATE_OP(name)                                          \
  {#name,                                                        \
   OpKind::Update,                                               \
   -1,                                                           \
   -1,                                                           \
   DTypeRule::First,                                             \
   0,                                                            \
   "count:i states:i maximize:b nesterov:b decoupled:b first:I", \
   0.0},
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
#undef UPDATE_OP
};

std::optional<OpId> find_op(std::string_view name) {
  const auto* row = std::ranges::find(kOps, name, &OpInfo::name);
  if (row == std::end(kOps)) return std::nullopt;
  return static_cast<OpId>(row - std::begin(kOps));
}

const std::string& integer_kinds(OpId op) {
  static const auto all = [] {
    std::array<std::string, kOpCount> kinds;
    for (int i = 0; i < kOpCount; ++i) {
      std::string_view row = info(static_cast<OpId>(i)).attributes;
      for (size_t colon; (colon = row.find(':')) != std::string_view::npos;) {
        if (row[colon + 1] != 'f') kinds[static_cast<size_t>(i)] += row[colon + 1];
        row.remove_prefix(colon + 2);
      }
    }
    return kinds;
  }();
  return all[static_cast<size_t>(op)];
}

}  // namespace tinyt
