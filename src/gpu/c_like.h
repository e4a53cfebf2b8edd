// What the languages that descend from C spell alike. Signed integers go through unsigned ones
// where they may wrap.
#pragma once

#include "gpu/dialect.h"

namespace tinyt::gpu {

inline constexpr Types kUnsigned = kU32 | kU64, kSigned = kI32 | kI64, kWhole = kUnsigned | kSigned;
inline constexpr Types kByteTypes = kU8 | kI8;

inline constexpr Spelling kCLike[] = {
    {MachineOp::copy, kAny, kAny, "$0"},
    {MachineOp::add, kFloats | kUnsigned, kAny, "$0 + $1"},
    {MachineOp::add, kByteTypes, kAny, "($T)($0 + $1)"},
    {MachineOp::add, kSigned, kAny, "($T)(($U)$0 + ($U)$1)"},
    {MachineOp::sub, kFloats | kUnsigned, kAny, "$0 - $1"},
    {MachineOp::sub, kByteTypes, kAny, "($T)($0 - $1)"},
    {MachineOp::sub, kSigned, kAny, "($T)(($U)$0 - ($U)$1)"},
    {MachineOp::mul, kFloats | kUnsigned, kAny, "$0 * $1"},
    {MachineOp::mul, kByteTypes, kAny, "($T)($0 * $1)"},
    {MachineOp::mul, kSigned, kAny, "($T)(($U)$0 * ($U)$1)"},
    {MachineOp::div, kFloats, kAny, "$0 / $1"},
    {MachineOp::neg, kFloats, kAny, "-$0"},
    {MachineOp::quotient, kI64, kAny, "tt_quotient_i64($0, $1)"},
    {MachineOp::quotient, kU64, kAny, "tt_quotient_u64($0, $1)"},
    {MachineOp::rest, kI64, kAny, "tt_rest_i64($0, $1)"},
    {MachineOp::rest, kU64, kAny, "tt_rest_u64($0, $1)"},
    {MachineOp::bit_and, kByteTypes, kAny, "($T)($0 & $1)"},
    {MachineOp::bit_and, kAny, kAny, "$0 & $1"},
    {MachineOp::bit_or, kByteTypes, kAny, "($T)($0 | $1)"},
    {MachineOp::bit_or, kAny, kAny, "$0 | $1"},
    {MachineOp::bit_xor, kByteTypes, kAny, "($T)($0 ^ $1)"},
    {MachineOp::bit_xor, kAny, kAny, "$0 ^ $1"},
    {MachineOp::bit_not, kBool, kAny, "!$0"},
    {MachineOp::bit_not, kByteTypes, kAny, "($T)~$0"},
    {MachineOp::bit_not, kAny, kAny, "~$0"},
    {MachineOp::shift_left, kUnsigned, kAny, "$0 << $1"},
    {MachineOp::shift_left, kSigned, kAny, "($T)(($U)$0 << $1)"},
    {MachineOp::shift_right, kWhole, kAny, "$0 >> $1"},
    {MachineOp::equal, kBool, kAny, "$0 == $1"},
    {MachineOp::not_equal, kBool, kAny, "$0 != $1"},
    {MachineOp::less, kBool, kAny, "$0 < $1"},
    {MachineOp::less_equal, kBool, kAny, "$0 <= $1"},
    {MachineOp::select, kAny, kBool, "$0 ? $1 : $2"},
    {MachineOp::bit_cast, kWhole | kByteTypes, kWhole | kByteTypes, "($T)$0"},
    {MachineOp::convert, kAny, kAny, "($T)$0"},
    {MachineOp::mask, kByteTypes, kAny, "($T)-$0"},
    {MachineOp::mask, kAny, kAny, "-($T)$0"},
    {MachineOp::lookup, kU64, kAny, "$R[$0]"},
};

inline constexpr Helper kDivision[] = {
    {"tt_quotient_i64", ScalarType::I64, "$I a, $I b",
     "  if (b == 0) return 0;\n  return b == -1 ? ($I)(0 - ($U)a) : a / b;\n"},
    {"tt_quotient_u64", ScalarType::U64, "$U a, $U b", "  return b == 0 ? 0 : a / b;\n"},
    {"tt_rest_i64", ScalarType::I64, "$I a, $I b", "  return b == 0 || b == -1 ? 0 : a % b;\n"},
    {"tt_rest_u64", ScalarType::U64, "$U a, $U b", "  return b == 0 ? 0 : a % b;\n"},
};

}  // namespace tinyt::gpu
