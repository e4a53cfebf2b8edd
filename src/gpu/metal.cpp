// The C++ of Metal, which has no float64. A thread takes a row, or an element.
#include "gpu/c_like.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Spelling kMetalSpellings[] = {
    {fma, kF32, kAny, "fma($0, $1, $2)"},
    {sqrt, kF32, kAny, "precise::sqrt($0)"},
    {floor, kF32, kAny, "floor($0)"},
    {ceil, kF32, kAny, "ceil($0)"},
    {trunc, kF32, kAny, "trunc($0)"},
    {round_even, kF32, kAny, "rint($0)"},
    {high_product, kU64, kAny, "mulhi($0, $1)"},
    {leading_zeros, kU64, kAny, "clz($0)"},
    {bit_cast, kI32 | kU32, kF32, "as_type<$T>($0)"},
    {bit_cast, kF32, kI32 | kU32, "as_type<$T>($0)"},
};

}  // namespace

constinit const Dialect kMetal{
    .name = "metal",
    .begin = R"(#include <metal_stdlib>
using namespace metal;
#pragma METAL fp contract(off)
)",
    .types = {"bool", "uchar", "char", "int", "uint", "long", "ulong", "float", ""},
    .literal_suffix = {"", "", "", "", "u", "L", "UL", "f", ""},
    .infinity = {"as_type<float>(0x7f800000u)", ""},
    .nan = {"as_type<float>(0x7fc00000u)", ""},
    .memory_types = {"uchar", "uchar", "char", "short", "int", "long", "ushort", "ushort", "float",
                     "", "", ""},
    .table = "constant $T $N[$C] = {$E};",
    .unused = "(void)$N;",
    .function = "inline $T $N($A)",
    .kernel = "kernel void $N($A, uint thread_number [[thread_position_in_grid]])",
    .reads = "device const $T* $N [[buffer($I)]]",
    .writes = "device $T* $N [[buffer($I)]]",
    .words = "constant $T* $N [[buffer($I)]]",
    .word = "$N[$I]",
    .thread = "thread_number",
    .shared = "threadgroup $T $N[$E];",
    .barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);",
    .multiply_add = "fma($A, $B, $C)",
    .spellings = kMetalSpellings,
    .common = kCLike,
    .helpers = {},
    .common_helpers = kDivision,
};

}  // namespace tinyt::gpu
