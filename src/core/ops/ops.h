// The op enum and facts, derived from ops.def, and the attributes of one call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/device/device.h"

namespace tinyt {

enum class OpId : uint8_t {
#define SCALAR_OP(name, ...) name,
#define STRUCT_OP(name, ...) name,
#define REDUCE_OP(name, ...) name,
#define UPDATE_OP(name) name,
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
#undef UPDATE_OP
  kCount,
};
inline constexpr int kOpCount = static_cast<int>(OpId::kCount);
// Those before the updates: what is called by its name.
inline constexpr int kCallableCount = static_cast<int>(OpId::sgd_step);

// The most inputs that a scalar op takes.
inline constexpr int kMaxScalarInputs = std::max({
#define SCALAR_OP(name, inputs, ...) inputs,
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
});

enum class OpKind : uint8_t { Scalar, Struct, Reduce, Update };
enum class DTypeRule : uint8_t { Same, Float, Bool, Sum, Index, First, Attr };

// What the words in ops.def say, that file explains.
// clang-format off: one flag a line
#define TINYT_OP_FLAGS(FLAG) \
  FLAG(commutative)          \
  FLAG(differentiable)       \
  FLAG(second_differentiable) \
  FLAG(view)                 \
  FLAG(random)               \
  FLAG(dynamic_shape)        \
  FLAG(fused)                \
  FLAG(no_bool)              \
  FLAG(integral)             \
  FLAG(floating)             \
  FLAG(predicate_first)      \
  FLAG(no_inplace)           \
  FLAG(complex)              \
  FLAG(real_result)          \
  FLAG(inplace_first)        \
  FLAG(cheap)                \
  FLAG(value_error)          \
  FLAG(involution)           \
  FLAG(idempotent)           \
  FLAG(moves)                \
  FLAG(gemm_like)            \
  FLAG(checked_numbers)      \
  FLAG(on_device)
// clang-format on

namespace op_flags {
enum Position : uint32_t {
#define FLAG(name) k_##name,
  TINYT_OP_FLAGS(FLAG)
#undef FLAG
};
enum : uint32_t {
#define FLAG(name) name = uint32_t{1} << k_##name,
  TINYT_OP_FLAGS(FLAG)
#undef FLAG
};
}  // namespace op_flags

// Results of a row.
inline constexpr int kMostOutputs = 4;

struct OpInfo {
  std::string_view name;
  OpKind kind;
  int8_t inputs;   // -1: any number
  int8_t outputs;  // -1: any number
  DTypeRule dtype_rule;
  uint32_t flags;
  std::string_view attributes;
  double identity;  // of a reduction
};

extern const OpInfo kOps[kOpCount];
inline const OpInfo& info(OpId op) { return kOps[static_cast<int>(op)]; }
std::optional<OpId> find_op(std::string_view name);
inline std::string_view name_of(OpId op) { return info(op).name; }
inline bool has_flag(OpId op, uint32_t flag) { return (info(op).flags & flag) != 0; }

// Whether integer divisors must be looked at before the call: 0 is an error there.
inline bool divides(OpId op) {
  return info(op).kind == OpKind::Scalar && has_flag(op, op_flags::value_error);
}

// Attributes of one call, in the order of the row: integers, flags, dtypes and lists (length
// first) in `ints`, floats in `floats`.
struct Attrs {
  SmallVec<int64_t, 8> ints;
  SmallVec<double, 2> floats;
  // While sizes are traced: places in ints, and the rows of the formulas that they come from.
  std::vector<std::pair<size_t, int64_t>> formulas{};

  Attrs& add(int64_t v) {
    ints.push_back(v);
    return *this;
  }
  Attrs& add(DType t) { return add(static_cast<int64_t>(t)); }
  Attrs& add(std::span<const int64_t> list) {
    ints.push_back(static_cast<int64_t>(list.size()));
    for (int64_t v : list) ints.push_back(v);
    return *this;
  }
  Attrs& add_float(double v) {
    floats.push_back(v);
    return *this;
  }
  // A NaN is itself, zeros of two signs are two numbers.
  bool operator==(const Attrs& o) const {
    return ints == o.ints &&
           std::ranges::equal(floats, o.floats, {}, std::bit_cast<uint64_t, double>,
                              std::bit_cast<uint64_t, double>);
  }
};

// Where the integers of an op with flag `on_device` have its device.
inline size_t device_place(OpId op, const Attrs& attrs) {
  return attrs.ints.size() - (has_flag(op, op_flags::random) ? 3 : 1);
}
inline Device device_in(OpId op, const Attrs& attrs) {
  return device_of(attrs.ints[device_place(op, attrs)]);
}

// Reads attributes back in the same order.
class AttrReader {
 public:
  explicit AttrReader(const Attrs& attrs) : attrs_(attrs) {}
  const int64_t& next() { return attrs_.ints[at_++]; }
  int64_t integer() { return next(); }
  bool flag() { return integer() != 0; }
  DType dtype() { return static_cast<DType>(integer()); }
  double real() { return attrs_.floats[float_at_++]; }
  std::span<const int64_t> list() {
    const auto n = static_cast<size_t>(integer());
    const int64_t* first = attrs_.ints.data() + at_;
    at_ += n;
    return {first, n};
  }

 private:
  const Attrs& attrs_;
  size_t at_ = 0, float_at_ = 0;
};

// The kinds of an op's integer attributes, in order.
const std::string& integer_kinds(OpId op);
// Where the whole numbers among an op's attributes stand, those in lists too.
template <class F>
void for_each_integer(OpId op, const Attrs& attrs, const F& f) {
  size_t at = 0;
  for (const char kind : integer_kinds(op)) {
    const size_t count = kind == 'I' ? static_cast<size_t>(attrs.ints[at++]) : 1;
    for (size_t i = 0; i < count; ++i, ++at)
      if (kind == 'i' || kind == 'I') f(at);
  }
}

}  // namespace tinyt
