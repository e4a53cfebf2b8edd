#include "core/ops/scalar_definition.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "core/base/error.h"

namespace tinyt {

namespace {

struct MachineOpInfo {
  std::string_view name;
  int operands;
};
constexpr MachineOpInfo kMachineOps[] = {
#define MACHINE_OP(name, operands) {#name, operands},
#include "core/ops/machine_ops.def"
#undef MACHINE_OP
};

struct ScalarTypeInfo {
  std::string_view name;
  int width;
};
constexpr ScalarTypeInfo kScalarTypes[] = {{"bool", 1}, {"u8", 8},   {"i8", 8},
                                           {"i32", 32}, {"u32", 32}, {"i64", 64},
                                           {"u64", 64}, {"f32", 32}, {"f64", 64}};

std::atomic<const DefinitionSource*> g_source{nullptr};

}  // namespace

int width_of(ScalarType type) { return kScalarTypes[static_cast<size_t>(type)].width; }
std::string_view name_of(ScalarType type) { return kScalarTypes[static_cast<size_t>(type)].name; }
std::string_view name_of(MachineOp op) { return kMachineOps[static_cast<size_t>(op)].name; }
int operands_of(MachineOp op) { return kMachineOps[static_cast<size_t>(op)].operands; }

int64_t integer_of(ScalarType type, uint64_t bits) {
  if (!is_signed(type)) return static_cast<int64_t>(bits);
  const int unused = 64 - width_of(type);
  return static_cast<int64_t>(bits << unused) >> unused;
}
double float_of(ScalarType type, uint64_t bits) {
  return type == ScalarType::F32 ? double{std::bit_cast<float>(static_cast<uint32_t>(bits))}
                                 : std::bit_cast<double>(bits);
}
uint64_t bits_of(ScalarType type, double x) {
  return type == ScalarType::F32 ? uint64_t{std::bit_cast<uint32_t>(static_cast<float>(x))}
                                 : std::bit_cast<uint64_t>(x);
}

ScalarType held_type(DType dtype) {
  if (is_bool(dtype)) return ScalarType::U8;
  if (is_integer(dtype)) return ScalarType::I64;
  return dtype == DType::Float64 ? ScalarType::F64 : ScalarType::F32;
}

void register_scalar_definitions(const DefinitionSource& source) { g_source = &source; }

const ScalarDefinition* scalar_definition(OpId op, DType compute) {
  const DefinitionSource* source = g_source;
  return source == nullptr ? nullptr : source->op(op, compute);
}
const ScalarDefinition* cast_definition(DType from, DType to) {
  const DefinitionSource* source = g_source;
  return source == nullptr ? nullptr : source->cast(from, to);
}
const ScalarDefinition* unpack_definition(DType half) {
  const DefinitionSource* source = g_source;
  return source == nullptr ? nullptr : source->unpack(half);
}
const ScalarDefinition* pack_definition(DType half) {
  const DefinitionSource* source = g_source;
  return source == nullptr ? nullptr : source->pack(half);
}

const ScalarDefinition* single_definition(OpId op) {
  const ScalarDefinition* ordinary = scalar_definition(op, DType::Float32);
  if (ordinary == nullptr) return nullptr;
  const auto wide = [](const ScalarDefinition::Node& n) { return width_of(n.type) == 64; };
  if (std::ranges::none_of(ordinary->nodes, wide)) return ordinary;
  const DefinitionSource* source = g_source;
  return source->single(op);
}

}  // namespace tinyt
