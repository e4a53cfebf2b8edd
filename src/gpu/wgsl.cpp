// WGSL, which has neither float64 nor 64-bit integers, and fma by leave of the device. Bytes are
// held in 32 bits. A thread takes a row, or an element.
#include "gpu/dialect.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Types kWgslSigned = kI32, kWgslUnsigned = kU32 | kU8,
                kWgslWhole = kWgslSigned | kWgslUnsigned;

constexpr Spelling kWgslSpellings[] = {
    {copy, kAny, kAny, "$0"},
    {add, kF32 | kU32 | kI32, kAny, "$0 + $1"},
    {add, kU8, kAny, "($0 + $1) & 0xffu"},
    {sub, kF32 | kU32 | kI32, kAny, "$0 - $1"},
    {sub, kU8, kAny, "($0 - $1) & 0xffu"},
    {mul, kF32 | kU32 | kI32, kAny, "$0 * $1"},
    {mul, kU8, kAny, "($0 * $1) & 0xffu"},
    {div, kF32, kAny, "$0 / $1"},
    {fma, kF32, kAny, "fma($0, $1, $2)"},
    {sqrt, kF32, kAny, "sqrt($0)"},
    {neg, kF32, kAny, "-$0"},
    {floor, kF32, kAny, "floor($0)"},
    {ceil, kF32, kAny, "ceil($0)"},
    {trunc, kF32, kAny, "trunc($0)"},
    {round_even, kF32, kAny, "round($0)"},
    {bit_and, kBool | kWgslWhole, kAny, "$0 & $1"},
    {bit_or, kBool | kWgslWhole, kAny, "$0 | $1"},
    {bit_xor, kBool, kAny, "$0 != $1"},
    {bit_xor, kWgslWhole, kAny, "$0 ^ $1"},
    {bit_not, kBool, kAny, "!$0"},
    {bit_not, kU8, kAny, "~$0 & 0xffu"},
    {bit_not, kU32 | kI32, kAny, "~$0"},
    {shift_left, kU32 | kI32, kAny, "$0 << u32($1)"},
    {shift_right, kU32 | kI32, kAny, "$0 >> u32($1)"},
    {equal, kBool, kAny, "$0 == $1"},
    {not_equal, kBool, kAny, "$0 != $1"},
    {less, kBool, kAny, "$0 < $1"},
    {less_equal, kBool, kAny, "$0 <= $1"},
    {select, kAny, kBool, "select($2, $1, $0)"},
    {bit_cast, kF32 | kI32 | kU32, kAny, "bitcast<$T>($0)"},
    {convert, kF32 | kWgslWhole, kAny, "$T($0)"},
    {mask, kU32, kAny, "0u - u32($0)"},
    {mask, kI32, kAny, "-i32($0)"},
    {mask, kU8, kAny, "(0u - u32($0)) & 0xffu"},
};

// A constant must be finite: what is read of a variable need not be.
constexpr Helper kWgslHelpers[] = {
    {"tt_infinity", ScalarType::F32, "",
     "  var bits: u32 = 0x7f800000u;\n  return bitcast<f32>(bits);\n"},
    {"tt_nan", ScalarType::F32, "",
     "  var bits: u32 = 0x7fc00000u;\n  return bitcast<f32>(bits);\n"},
};

}  // namespace

constinit const Dialect kWgsl{
    .name = "wgsl",
    .begin = "",
    .types = {"bool", "u32", "", "i32", "u32", "", "", "f32", ""},
    .literal_suffix = {"", "u", "", "", "u", "", "", "f", ""},
    .infinity = {"tt_infinity()", ""},
    .nan = {"tt_nan()", ""},
    .memory_types = {"", "", "", "", "", "", "", "", "f32", "", "", ""},
    .constant = "let $N: $T = $E;",
    .variable = "var $N: $T = $E;",
    .array = "var $N: array<$T, $E>;",
    .loop = "for (var $N: $T = $E; $C; $S)",
    .cast = "$T($E)",
    .table = "",
    .unused = "",
    .function = "fn $N($A) -> $T",
    .argument = "$N: $T",
    .kernel =
        "@compute @workgroup_size(64)\nfn $N(@builtin(global_invocation_id) "
        "thread_number: vec3<u32>)",
    .reads = "@group(0) @binding($I) var<storage, read> $N: array<$T>;",
    .writes = "@group(0) @binding($I) var<storage, read_write> $N: array<$T>;",
    .words = "@group(0) @binding($I) var<storage, read> $N: array<$T>;",
    .word = "$N[$I]",
    .apart = true,
    .index = ScalarType::I32,
    .thread = "thread_number.x",
    .spellings = kWgslSpellings,
    .common = {},
    .helpers = kWgslHelpers,
    .common_helpers = {},
};

}  // namespace tinyt::gpu
