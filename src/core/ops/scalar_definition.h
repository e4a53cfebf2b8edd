// Scalar ops as data: what one element of the result is, in machine operations.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/dtype.h"
#include "core/ops/ops.h"

namespace tinyt {

enum class ScalarType : uint8_t { Bool, U8, I8, I32, U32, I64, U64, F32, F64, kCount };
inline constexpr bool is_float(ScalarType t) {
  return t == ScalarType::F32 || t == ScalarType::F64;
}
inline constexpr bool is_signed(ScalarType t) {
  return t == ScalarType::I8 || t == ScalarType::I32 || t == ScalarType::I64;
}
// Bits; of Bool 1.
int width_of(ScalarType type);
std::string_view name_of(ScalarType type);
// The number that a constant's bits are: an integer's with its sign, of unsigned ones as it is.
int64_t integer_of(ScalarType type, uint64_t bits);
double float_of(ScalarType type, uint64_t bits);
uint64_t bits_of(ScalarType type, double x);  // of a float

enum class MachineOp : uint8_t {
#define MACHINE_OP(name, operands) name,
#include "core/ops/machine_ops.def"
#undef MACHINE_OP
  kCount,
};
std::string_view name_of(MachineOp op);
int operands_of(MachineOp op);

// A list in which operands come before what uses them. One element of the result is the value of
// node `result`, given one of each operand.
struct ScalarDefinition {
  struct Node {
    MachineOp op;
    ScalarType
        type;  // of its value; of loop, leave_unless, set and end_loop, which have none, Bool
    int32_t in[3] = {-1, -1, -1};
    uint64_t bits = 0;

    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;
  int32_t result = -1;
  std::vector<ScalarType> inputs;  // a condition is a Bool
  std::vector<std::vector<uint64_t>> tables;
  // Bools that are seldom true: the CPU's kernels compute what only they select where any lane of a
  // register has one.
  std::vector<int32_t> rare;

  ScalarType type() const { return nodes[static_cast<size_t>(result)].type; }
};

// The definition of a scalar op that computes in such a dtype, the same at every call; null where
// the op does not take it. Made at the first call.
const ScalarDefinition* scalar_definition(OpId op, DType compute);
// The float32 definition of a scalar op without a 64-bit type, for machines that have none: the
// ordinary one where it has none, else one with double-word arithmetic, whose bounds are those of
// docs/numerics.md. Null where the op does not take float32.
const ScalarDefinition* single_definition(OpId op);

// How sources hold a value of any real dtype: whole numbers as I64, halves as F32, bools as U8.
// Whatever is held is a value of its dtype.
ScalarType held_type(DType dtype);
// A held value of one dtype as such of another. None of complex numbers.
const ScalarDefinition* cast_definition(DType from, DType to);
// Of float16 and bfloat16: the value of the bits in memory (as U32), and the bits of a value.
const ScalarDefinition* unpack_definition(DType half);
const ScalarDefinition* pack_definition(DType half);

// From where; registered once, by the kernels that have them.
struct DefinitionSource {
  const ScalarDefinition* (*op)(OpId op, DType compute);
  const ScalarDefinition* (*single)(OpId op);
  const ScalarDefinition* (*cast)(DType from, DType to);
  const ScalarDefinition* (*unpack)(DType half);
  const ScalarDefinition* (*pack)(DType half);
};
void register_scalar_definitions(const DefinitionSource& source);

}  // namespace tinyt
