// WGSL with the 64-bit integers of wgpu, or with such in two words; without float64. Memory is
// words of 32 bits, in which narrower elements lie side by side; bytes are held in 32 bits. A
// thread takes a row, or an element.
//
// Compilers of shaders may reorder arithmetic and assume that nothing is a NaN. What floats make
// therefore goes through `tt_exact`, and some operands through `tt_given`, which change no bit and
// which no compiler sees through: `tt_zero` is the number of the thread in the third dimension, in
// which there is one, and `tt_null` that of groups less 1. One alone would cancel where a result is
// such an operand.
#include <algorithm>
#include <array>

#include "gpu/dialect.h"
#include "gpu/wgsl_two_words.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Types kWgslSmall = kI32 | kU32, kWgslLarge = kI64 | kU64,
                kWgslWide = kWgslSmall | kWgslLarge, kWgslBytes = kU8 | kI8,
                kWgslWhole = kWgslWide | kWgslBytes;

constexpr Spelling kWgslSpellings[] = {
    {add, kF32, kAny, "tt_exact($0 + $1)"},
    {sub, kF32, kAny, "tt_exact(tt_given($0) - $1)"},
    {mul, kF32, kAny, "tt_exact($0 * $1)"},
    {div, kF32, kAny, "tt_exact(tt_given($0) / $1)"},
    {sqrt, kF32, kAny, "tt_exact(sqrt($0))"},
    {neg, kF32, kAny, "bitcast<f32>(bitcast<u32>($0) ^ 0x80000000u)"},
    {floor, kF32, kAny, "floor($0)"},
    {ceil, kF32, kAny, "ceil($0)"},
    {trunc, kF32, kAny, "trunc($0)"},
    {round_even, kF32, kAny, "round($0)"},
    {equal, kBool, kF32, "tt_given($0) == $1"},
    {not_equal, kBool, kF32, "!(tt_given($0) == $1)"},  // naga's != is false of NaNs
    {less, kBool, kF32, "tt_given($0) < $1"},
    {less_equal, kBool, kF32, "tt_given($0) <= $1"},
    {fma, kF32, kAny, "tt_fma($0, $1, $2)"},

    {copy, kAny, kAny, "$0"},
    {add, kWgslWide, kAny, "$0 + $1"},
    {add, kU8, kAny, "($0 + $1) & 0xffu"},
    {add, kI8, kAny, "tt_i8($0 + $1)"},
    {sub, kWgslWide, kAny, "$0 - $1"},
    {sub, kU8, kAny, "($0 - $1) & 0xffu"},
    {sub, kI8, kAny, "tt_i8($0 - $1)"},
    {mul, kWgslWide, kAny, "$0 * $1"},
    {mul, kU8, kAny, "($0 * $1) & 0xffu"},
    {mul, kI8, kAny, "tt_i8($0 * $1)"},
    {quotient, kI64, kAny, "tt_quotient_i64($0, $1)"},
    {quotient, kU64, kAny, "tt_quotient_u64($0, $1)"},
    {rest, kI64, kAny, "tt_rest_i64($0, $1)"},
    {rest, kU64, kAny, "tt_rest_u64($0, $1)"},
    {high_product, kU64, kAny, "tt_high_product($0, $1)"},
    {leading_zeros, kU64, kAny, "tt_leading_zeros($0)"},
    {bit_and, kBool | kWgslWhole, kAny, "$0 & $1"},
    {bit_or, kBool | kWgslWhole, kAny, "$0 | $1"},
    {bit_xor, kBool, kAny, "$0 != $1"},
    {bit_xor, kWgslWhole, kAny, "$0 ^ $1"},
    {bit_not, kBool, kAny, "(select(0u, 1u, $0) ^ tt_zero) == 0u"},
    {bit_not, kU8, kAny, "~$0 & 0xffu"},
    {bit_not, kWgslWide | kI8, kAny, "~$0"},
    {shift_left, kI64, kAny, "$0 << tt_count_i64($1)"},
    {shift_left, kU64, kAny, "$0 << tt_count_u64($1)"},
    {shift_left, kWgslSmall, kAny, "$0 << u32($1)"},
    {shift_right, kI64, kAny, "$0 >> tt_count_i64($1)"},
    {shift_right, kU64, kAny, "$0 >> tt_count_u64($1)"},
    {shift_right, kWgslSmall, kAny, "$0 >> u32($1)"},
    {equal, kBool, kAny, "$0 == $1"},
    {not_equal, kBool, kAny, "$0 != $1"},
    {less, kBool, kAny, "$0 < $1"},
    {less_equal, kBool, kAny, "$0 <= $1"},
    {select, kAny, kBool, "select($2, $1, $0)"},
    {bit_cast, kWgslLarge, kWgslLarge, "$T($0)"},
    {bit_cast, kU8, kI8, "u32($0) & 0xffu"},
    {bit_cast, kI8, kU8, "tt_i8(i32($0))"},
    {bit_cast, kF32 | kWgslSmall, kF32 | kWgslSmall, "bitcast<$T>($0)"},
    {convert, kU8, kWgslWide | kI8, "u32($0) & 0xffu"},
    {convert, kI8, kWgslWide | kU8, "tt_i8(i32($0))"},
    {convert, kWgslLarge, kBool, "select($T(0), $T(1), $0)"},
    {convert, kI64, kI32 | kWgslBytes, "tt_wide(i32($0))"},
    {convert, kBool | kF32 | kWgslWhole, kAny, "$T($0)"},
    {mask, kU32, kAny, "select(0u, 0xffffffffu, $0)"},
    {mask, kI32 | kI8, kAny, "select(0i, -1i, $0)"},
    {mask, kU8, kAny, "select(0u, 0xffu, $0)"},
    {mask, kI64, kAny, "select(0li, -1li, $0)"},
    {mask, kU64, kAny, "select(0lu, 0xfffffffffffffffflu, $0)"},
};

constexpr Helper kFusedMultiplyAdd[] = {
    {"tt_fma", ScalarType::F32, "a: f32, b: f32, c: f32", "  return tt_exact(fma(a, b, c));\n"}};
// The product is exact, and the sum is rounded twice: to 53 bits, and then to 24.
constexpr Helper kDoubleMultiplyAdd[] = {{"tt_fma", ScalarType::F32, "a: f32, b: f32, c: f32",
                                          "  return tt_exact(f32(f64(a) * f64(b) + f64(c)));\n"}};
// A constant must be finite: what is read of a variable need not be.
constexpr Helper kWgslHelpers[] = {
    {"tt_infinity", ScalarType::F32, "",
     "  var bits: u32 = 0x7f800000u;\n  return bitcast<f32>(bits);\n"},
    {"tt_nan", ScalarType::F32, "",
     "  var bits: u32 = 0x7fc00000u;\n  return bitcast<f32>(bits);\n"},
    {"tt_i8", ScalarType::I32, "x: i32", "  return (x << 24u) >> 24u;\n"},
    // Elements of words of memory.
    {"tt_byte", ScalarType::U32, "word: u32, place: i32",
     "  return (word >> (8u * u32(place & 3))) & 0xffu;\n"},
    {"tt_two_bytes", ScalarType::U32, "word: u32, place: i32",
     "  return (word >> (16u * u32(place & 1))) & 0xffffu;\n"},
};
template <size_t M, size_t N>
constexpr std::array<Helper, M + N> joined(const Helper (&a)[M], const Helper (&b)[N]) {
  std::array<Helper, M + N> all{};
  std::ranges::copy(b, std::ranges::copy(a, all.begin()).out);
  return all;
}
constexpr auto kFusedHelpers = joined(kFusedMultiplyAdd, kWgslHelpers),
               kDoubleHelpers = joined(kDoubleMultiplyAdd, kWgslHelpers);
// Of 64-bit integers.
constexpr Helper kWgslLargeHelpers[] = {
    // llvmpipe finds none that is made of an i32 below a zero that it knows.
    {"tt_wide", ScalarType::I64, "x: i32", "  return $I(x) ^ $I(tt_zero);\n"},
    // naga does not convert 64-bit literals.
    {"tt_count_i64", ScalarType::U32, "x: i64", "  return u32(x);\n"},
    {"tt_count_u64", ScalarType::U32, "x: u64", "  return u32(x);\n"},
    {"tt_quotient_i64", ScalarType::I64, "a: i64, b: i64",
     "  if (b == 0li) { return 0li; }\n  if (b == -1li) { return 0li - a; }\n  return a / b;\n"},
    {"tt_quotient_u64", ScalarType::U64, "a: u64, b: u64",
     "  if (b == 0lu) { return 0lu; }\n  return a / b;\n"},
    {"tt_rest_i64", ScalarType::I64, "a: i64, b: i64",
     "  if (b == 0li || b == -1li) { return 0li; }\n  return a - a / b * b;\n"},
    {"tt_rest_u64", ScalarType::U64, "a: u64, b: u64",
     "  if (b == 0lu) { return 0lu; }\n  return a - a / b * b;\n"},
    {"tt_high_product", ScalarType::U64, "a: u64, b: u64",
     R"(  let a_low = a & 0xfffffffflu;
  let a_high = a >> 32u;
  let b_low = b & 0xfffffffflu;
  let b_high = b >> 32u;
  let middle = a_high * b_low + ((a_low * b_low) >> 32u);
  let other = a_low * b_high + (middle & 0xfffffffflu);
  return a_high * b_high + (middle >> 32u) + (other >> 32u);
)"},
    {"tt_leading_zeros", ScalarType::U64, "x: u64",
     R"(  let high = u32(x >> 32u);
  if (high != 0u) { return u64(countLeadingZeros(high)); }
  return u64(32u + countLeadingZeros(u32(x & 0xfffffffflu)));
)"},
    {"tt_pair", ScalarType::I64, "low: u32, high: u32",
     "  return $I(($U(high) << 32u) | $U(low));\n"},
};

// Neighbours are other threads': their bits of a word stay as they are.
constexpr std::string_view kStoreByte =
                               "{ let tt_place = $E; let tt_by = 8u * u32(tt_place & 3); "
                               "$N_put(tt_place >> 2u, 0xffu << tt_by, u32($V) << tt_by); }",
                           kStoreTwoBytes =
                               "{ let tt_place = $E; let tt_by = 16u * u32(tt_place & 1); "
                               "$N_put(tt_place >> 1u, 0xffffu << tt_by, u32($V) << tt_by); }";

constexpr std::string_view kBarriers = R"(var<private> tt_zero: u32;
var<private> tt_null: u32;
fn tt_exact(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ tt_zero);
}
fn tt_given(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) ^ tt_null);
}
)";

constexpr Dialect wgsl(std::span<const Helper> common_helpers) {
  return {
      .name = "wgsl",
      .begin = kBarriers,
      .types = {"bool", "u32", "i32", "i32", "u32", "i64", "u64", "f32", ""},
      .literal_suffix = {"", "u", "", "", "u", "li", "lu", "f", ""},
      .infinity = {"tt_infinity()", ""},
      .nan = {"tt_nan()", ""},
      .memory_types = {"u32", "u32", "i32", "i32", "i32", "i64", "u32", "u32", "f32", "", "", ""},
      .constant = "let $N: $T = $E;",
      .variable = "var $N: $T = $E;",
      .array = "var $N: array<$T, $E>;",
      .loop = "for (var $N: $T = $E; $C; $S)",
      .cast = "$T($E)",
      .widened = "tt_wide(i32($E))",
      .table = "",
      .unused = "",
      .function = "fn $N($A) -> $T",
      .argument = "$N: $T",
      .kernel =
          "@compute @workgroup_size(64)\nfn $N(@builtin(global_invocation_id) "
          "thread_number: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>)",
      // The driver makes one binding of arguments in the same buffer: of these lines alone
      // (src/webgpu/bindings.h).
      .reads = R"(@group(0) @binding($I) var<storage, read> m$I: array<u32>;
fn $N(i: i32) -> u32 { return m$I[i]; })",
      .writes = R"(@group(0) @binding($I) var<storage, read_write> m$I: array<u32>;
fn $N(i: i32) -> u32 { return m$I[i]; }
fn $N_set(i: i32, x: u32) { m$I[i] = x; })",
      .writes_parts = R"(@group(0) @binding($I) var<storage, read_write> m$I: array<atomic<u32>>;
fn $N(i: i32) -> u32 { return atomicLoad(&m$I[i]); }
fn $N_put(i: i32, bits: u32, x: u32) { atomicAnd(&m$I[i], ~bits); atomicOr(&m$I[i], x & bits); })",
      .loads = {"tt_byte($N(($E) >> 2u), $E)", "tt_byte($N(($E) >> 2u), $E)",
                "(i32(tt_byte($N(($E) >> 2u), $E) << 24u) >> 24u)",
                "(i32(tt_two_bytes($N(($E) >> 1u), $E) << 16u) >> 16u)", "bitcast<i32>($N($E))",
                "tt_pair($N(2 * ($E)), $N(2 * ($E) + 1))", "tt_two_bytes($N(($E) >> 1u), $E)",
                "tt_two_bytes($N(($E) >> 1u), $E)", "bitcast<f32>($N($E))", "", "", ""},
      .stores = {kStoreByte, kStoreByte, kStoreByte, kStoreTwoBytes,
                 "$N_set($E, bitcast<u32>($V));",
                 "{ let tt_at = 2 * ($E); let tt_v = u64($V); $N_set(tt_at, u32(tt_v & "
                 "0xfffffffflu)); $N_set(tt_at + 1, u32(tt_v >> 32u)); }",
                 kStoreTwoBytes, kStoreTwoBytes, "$N_set($E, bitcast<u32>($V));", "", "", ""},
      .enter = "tt_zero = thread_number.z; tt_null = groups.z - 1u;",
      .words = "@group(1) @binding(0) var<uniform> $N: array<vec4<$T>, $Q>;",
      .word = "$N[$Q][$R]",
      .apart = true,
      .index = ScalarType::I32,
      .thread = "thread_number.y * (groups.x * 64u) + thread_number.x",
      .shared = "var<workgroup> $N: array<$T, $E>;",
      .barrier = "workgroupBarrier();",
      .multiply_add = "$A * $B + $C",
      .spellings = {},
      .common = kWgslSpellings,
      .helpers = kWgslLargeHelpers,
      .common_helpers = common_helpers,
  };
}

constexpr Dialect in_two_words(Dialect d) {
  constexpr auto kWide = static_cast<size_t>(DType::Int64);
  d.name = "wgsl-two-words";
  for (const ScalarType type : {ScalarType::I64, ScalarType::U64})
    d.types[static_cast<size_t>(type)] = "vec2<u32>";
  d.memory_types[kWide] = "vec2<u32>";
  d.two_words = "vec2<u32>($Lu, $Hu)";
  d.narrowed = "$T(($E).x)";
  d.loads[kWide] = "vec2<u32>($N(2 * ($E)), $N(2 * ($E) + 1))";
  d.stores[kWide] =
      "{ let tt_at = 2 * ($E); let tt_v = $V; $N_set(tt_at, tt_v.x); $N_set(tt_at + 1, tt_v.y); }";
  d.spellings = kTwoWordSpellings;
  d.helpers = kTwoWordHelpers;
  return d;
}

}  // namespace

constinit const Dialect kWgsl = wgsl(kFusedHelpers), kWgslDoubleFma = wgsl(kDoubleHelpers),
                        kWgslTwoWords = in_two_words(wgsl(kFusedHelpers)),
                        kWgslTwoWordsDoubleFma = in_two_words(wgsl(kDoubleHelpers));

}  // namespace tinyt::gpu
