// 64-bit integers of WGSL in two words, vec2<u32>, the lower one first: for adapters without them.
//
// Nothing here has a loop: some drivers end a thread's loops, all together, after so many turns.
#pragma once

#include "gpu/dialect.h"

namespace tinyt::gpu {

inline constexpr Types kTwoWords = kI64 | kU64;

// In front of WGSL's own spellings; what those say of vectors holds, as of `$0 & $1`.
inline constexpr Spelling kTwoWordSpellings[] = {
    {MachineOp::add, kTwoWords, kAny, "tt_add($0, $1)"},
    {MachineOp::sub, kTwoWords, kAny, "tt_sub($0, $1)"},
    {MachineOp::mul, kTwoWords, kAny, "tt_mul($0, $1)"},
    {MachineOp::shift_left, kTwoWords, kAny, "tt_shift_left($0, ($1).x)"},
    {MachineOp::shift_right, kI64, kAny, "tt_shift_right_i64($0, ($1).x)"},
    {MachineOp::shift_right, kU64, kAny, "tt_shift_right_u64($0, ($1).x)"},
    {MachineOp::equal, kBool, kTwoWords, "all($0 == $1)"},
    {MachineOp::not_equal, kBool, kTwoWords, "any($0 != $1)"},
    {MachineOp::less, kBool, kI64, "tt_less_i64($0, $1)"},
    {MachineOp::less, kBool, kU64, "tt_less_u64($0, $1)"},
    {MachineOp::less_equal, kBool, kI64, "!tt_less_i64($1, $0)"},
    {MachineOp::less_equal, kBool, kU64, "!tt_less_u64($1, $0)"},
    {MachineOp::bit_cast, kTwoWords, kTwoWords, "$0"},
    {MachineOp::convert, kTwoWords, kTwoWords, "$0"},
    {MachineOp::convert, kTwoWords, kBool, "$T(select(0u, 1u, $0), 0u)"},
    {MachineOp::convert, kTwoWords, kU32 | kU8, "$T($0, 0u)"},
    {MachineOp::convert, kTwoWords, kI32 | kI8, "tt_wide($0)"},
    {MachineOp::convert, kTwoWords, kF32, "tt_whole($0)"},
    {MachineOp::convert, kBool, kTwoWords, "any($0 != vec2<u32>())"},
    {MachineOp::convert, kU8, kTwoWords, "($0).x & 0xffu"},
    {MachineOp::convert, kI8, kTwoWords, "tt_i8(i32(($0).x))"},
    {MachineOp::convert, kI32 | kU32, kTwoWords, "$T(($0).x)"},
    {MachineOp::convert, kF32, kI64, "tt_f32_of_i64($0)"},
    {MachineOp::convert, kF32, kU64, "tt_f32_of_u64($0)"},
    {MachineOp::mask, kTwoWords, kAny, "$T(select(0u, 0xffffffffu, $0))"},
};

inline constexpr Helper kTwoWordHelpers[] = {
    {"tt_wide", ScalarType::I64, "x: i32",
     "  return $I(bitcast<u32>(x), bitcast<u32>(x >> 31u));\n"},
    {"tt_add", ScalarType::U64, "a: $U, b: $U",
     "  let low = a.x + b.x;\n  return $U(low, a.y + b.y + select(0u, 1u, low < a.x));\n"},
    {"tt_sub", ScalarType::U64, "a: $U, b: $U",
     "  return $U(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));\n"},
    {"tt_shift_left", ScalarType::U64, "x: $U, by: u32",
     "  if (by >= 32u) { return $U(0u, x.x << (by - 32u)); }\n"
     "  return $U(x.x << by, (x.y << by) | ((x.x >> 1u) >> (31u - by)));\n"},
    {"tt_shift_right_i64", ScalarType::I64, "x: $I, by: u32",
     R"(  let high = bitcast<i32>(x.y);
  if (by >= 32u) { return $I(bitcast<u32>(high >> (by - 32u)), bitcast<u32>(high >> 31u)); }
  return $I((x.x >> by) | ((x.y << 1u) << (31u - by)), bitcast<u32>(high >> by));
)"},
    {"tt_shift_right_u64", ScalarType::U64, "x: $U, by: u32",
     "  if (by >= 32u) { return $U(x.y >> (by - 32u), 0u); }\n"
     "  return $U((x.x >> by) | ((x.y << 1u) << (31u - by)), x.y >> by);\n"},
    {"tt_less_i64", ScalarType::Bool, "a: $I, b: $I",
     "  return select(bitcast<i32>(a.y) < bitcast<i32>(b.y), a.x < b.x, a.y == b.y);\n"},
    {"tt_less_u64", ScalarType::Bool, "a: $U, b: $U",
     "  return select(a.y < b.y, a.x < b.x, a.y == b.y);\n"},
    // All 64 bits of a product of words, of those of their halves.
    {"tt_product", ScalarType::U64, "a: u32, b: u32",
     R"(  let low = (a & 0xffffu) * (b & 0xffffu);
  let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
  let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
  let high = (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u);
  return $U((other << 16u) | (low & 0xffffu), high);
)"},
    {"tt_mul", ScalarType::U64, "a: $U, b: $U",
     "  let low = tt_product(a.x, b.x);\n"
     "  return $U(low.x, low.y + a.x * b.y + a.y * b.x);\n"},
    {"tt_high_product", ScalarType::U64, "a: $U, b: $U",
     R"(  let middle = tt_add(tt_product(a.y, b.x), $U(tt_product(a.x, b.x).y, 0u));
  let other = tt_add(tt_product(a.x, b.y), $U(middle.x, 0u));
  return tt_add(tt_product(a.y, b.y), tt_add($U(middle.y, 0u), $U(other.y, 0u)));
)"},
    {"tt_leading_zeros", ScalarType::U64, "x: $U",
     "  if (x.y != 0u) { return $U(countLeadingZeros(x.y), 0u); }\n"
     "  return $U(32u + countLeadingZeros(x.x), 0u);\n"},
    {"tt_magnitude", ScalarType::U64, "x: $I",
     "  return select(x, tt_sub($U(), x), (x.y >> 31u) != 0u);\n"},

    // ---- division (Knuth, volume 2, 4.3.1, D; Warren, "Hacker's Delight", 9)

    // The quotient of three halves of a word by a word whose first bit is set, where half a word
    // holds it.
    {"tt_digit", ScalarType::U32, "high: u32, next: u32, by: u32",
     R"(  let first = by >> 16u;
  let second = by & 0xffffu;
  var digit = high / first;
  var left = high - digit * first;
  if (digit > 0xffffu || digit * second > ((left << 16u) | next)) {
    digit -= 1u;
    left += first;
    if (left <= 0xffffu && (digit > 0xffffu || digit * second > ((left << 16u) | next))) {
      digit -= 1u;
    }
  }
  return digit;
)"},
    // The quotient by a word above the upper word, and what is left.
    {"tt_divide", ScalarType::U64, "x: $U, by: u32",
     R"(  let shift = countLeadingZeros(by);
  let divisor = by << shift;
  let a = tt_shift_left(x, shift);
  let first = tt_digit(a.y, a.x >> 16u, divisor);
  let middle = ((a.y << 16u) | (a.x >> 16u)) - first * divisor;
  let second = tt_digit(middle, a.x & 0xffffu, divisor);
  let left = ((middle << 16u) | (a.x & 0xffffu)) - second * divisor;
  return $U((first << 16u) | second, left >> shift);
)"},
    {"tt_quotient_u64", ScalarType::U64, "a: $U, b: $U",
     R"(  if (all(b == $U())) { return $U(); }
  if (b.y == 0u) {
    let high = a.y / b.x;
    return $U(tt_divide($U(a.x, a.y - high * b.x), b.x).x, high);
  }
  let shift = countLeadingZeros(b.y);
  let half = tt_shift_right_u64(a, 1u);
  var digit = tt_divide(half, tt_shift_left(b, shift).y).x >> (31u - shift);
  if (digit != 0u) { digit -= 1u; }
  if (!tt_less_u64(tt_sub(a, tt_mul($U(digit, 0u), b)), b)) { digit += 1u; }
  return $U(digit, 0u);
)"},
    {"tt_quotient_i64", ScalarType::I64, "a: $I, b: $I",
     R"(  let x = tt_quotient_u64(tt_magnitude(a), tt_magnitude(b));
  return select(x, tt_sub($U(), x), ((a.y ^ b.y) >> 31u) != 0u);
)"},
    {"tt_rest_u64", ScalarType::U64, "a: $U, b: $U",
     "  if (all(b == $U())) { return $U(); }\n"
     "  return tt_sub(a, tt_mul(tt_quotient_u64(a, b), b));\n"},
    {"tt_rest_i64", ScalarType::I64, "a: $I, b: $I",
     "  if (all(b == $I())) { return $I(); }\n"
     "  return tt_sub(a, tt_mul(tt_quotient_i64(a, b), b));\n"},

    // ---- floats, by their bits: a machine may round what it converts either way

    {"tt_whole", ScalarType::I64, "x: f32",
     R"(  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  let digits = (bits & 0x7fffffu) | 0x800000u;
  var whole = $I();
  if (exponent >= 150u) {
    whole = tt_shift_left($I(digits, 0u), exponent - 150u);
  } else if (exponent >= 127u) {
    whole.x = digits >> (150u - exponent);
  }
  return select(whole, tt_sub($U(), whole), (bits >> 31u) != 0u);
)"},
    // To the nearest one, of two as near to the even one: up where the bit below the last one is
    // set, and the last one or any other bit.
    {"tt_f32_of_u64", ScalarType::F32, "x: $U",
     R"(  if (all(x == $U())) { return 0.0f; }
  let zeros = tt_leading_zeros(x).x;
  let digits = tt_shift_left(x, zeros);
  let up = (digits.y & 0x80u) != 0u && ((digits.y & 0x17fu) | digits.x) != 0u;
  let above = (digits.y >> 8u) & 0x7fffffu;
  return bitcast<f32>(((190u - zeros) << 23u) + above + select(0u, 1u, up));
)"},
    {"tt_f32_of_i64", ScalarType::F32, "x: $I",
     "  let bits = bitcast<u32>(tt_f32_of_u64(tt_magnitude(x)));\n"
     "  return bitcast<f32>(bits | (x.y & 0x80000000u));\n"},
};

}  // namespace tinyt::gpu
