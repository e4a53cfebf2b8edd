// C99.
#include "gpu/c_like.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Spelling kC99Spellings[] = {
    {fma, kF32, kAny, "fmaf($0, $1, $2)"},
    {fma, kF64, kAny, "fma($0, $1, $2)"},
    {sqrt, kF32, kAny, "sqrtf($0)"},
    {sqrt, kF64, kAny, "sqrt($0)"},
    {floor, kF32, kAny, "floorf($0)"},
    {floor, kF64, kAny, "floor($0)"},
    {ceil, kF32, kAny, "ceilf($0)"},
    {ceil, kF64, kAny, "ceil($0)"},
    {trunc, kF32, kAny, "truncf($0)"},
    {trunc, kF64, kAny, "trunc($0)"},
    {round_even, kF32, kAny, "rintf($0)"},
    {round_even, kF64, kAny, "rint($0)"},
    {high_product, kU64, kAny, "tt_high_product($0, $1)"},
    {leading_zeros, kU64, kAny, "tt_leading_zeros($0)"},
    {bit_cast, kWhole, kF32, "($T)tt_bits_f32($0)"},
    {bit_cast, kWhole, kF64, "($T)tt_bits_f64($0)"},
    {bit_cast, kF32, kWhole, "tt_f32_of_bits((uint32_t)$0)"},
    {bit_cast, kF64, kWhole, "tt_f64_of_bits((uint64_t)$0)"},
};

constexpr Helper kC99Helpers[] = {
    {"tt_bits_f32", ScalarType::U32, "float x",
     "  uint32_t bits;\n  memcpy(&bits, &x, sizeof bits);\n  return bits;\n"},
    {"tt_bits_f64", ScalarType::U64, "double x",
     "  uint64_t bits;\n  memcpy(&bits, &x, sizeof bits);\n  return bits;\n"},
    {"tt_f32_of_bits", ScalarType::F32, "uint32_t bits",
     "  float x;\n  memcpy(&x, &bits, sizeof x);\n  return x;\n"},
    {"tt_f64_of_bits", ScalarType::F64, "uint64_t bits",
     "  double x;\n  memcpy(&x, &bits, sizeof x);\n  return x;\n"},
    {"tt_high_product", ScalarType::U64, "uint64_t a, uint64_t b",
     R"(  const uint64_t a_low = a & 0xffffffffu, a_high = a >> 32;
  const uint64_t b_low = b & 0xffffffffu, b_high = b >> 32;
  const uint64_t cross = a_high * b_low + (a_low * b_low >> 32);
  const uint64_t other = a_low * b_high + (cross & 0xffffffffu);
  return a_high * b_high + (cross >> 32) + (other >> 32);
)"},
    {"tt_leading_zeros", ScalarType::U64, "uint64_t x",
     R"(  uint64_t zeros = 0;
  for (int step = 32; step > 0; step /= 2) {
    if (x >> (64 - step) == 0) {
      zeros += (uint64_t)step;
      x <<= step;
    }
  }
  return zeros;
)"},
};

}  // namespace

// A product and a sum must not become one operation. GCC turns chains of selects into jumps, and
// those into longer chains, unless it is told not to.
constinit const Dialect kC99{
    .name = "c99",
    .begin = R"c99(#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off", "no-thread-jumps", "no-trapping-math")
#endif
#if defined(__GNUC__)
#define TT_INLINE __attribute__((always_inline))
#else
#define TT_INLINE
#endif
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define TT_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TT_INDEPENDENT
#endif
)c99",
    .types = {"bool", "uint8_t", "int8_t", "int32_t", "uint32_t", "int64_t", "uint64_t", "float",
              "double"},
    .literal_suffix = {"", "", "", "", "u", "", "u", "f", ""},
    .infinity = {"INFINITY", "(double)INFINITY"},
    .nan = {"NAN", "(double)NAN"},
    .memory_types = {"uint8_t", "uint8_t", "int8_t", "int16_t", "int32_t", "int64_t", "uint16_t",
                     "uint16_t", "float", "double", "", ""},
    .table = "static const $T $N[$C] = {$E};",
    .unused = "(void)$N;",
    .function = "static inline $T $N($A)",
    .inlined = "TT_INLINE ",
    .flag = "$T* rare",
    .raise = "*rare = $C ? 1u : *rare;",  // GCC has no vectors of an or of several truths
    .independent = "TT_INDEPENDENT",
    .kernel = "void $N($A)",
    .reads = "const $T* $N",
    .writes = "$T* $N",
    .sizes = "const $T* $N",
    .thread = "",
    .vectors = true,
    .spellings = kC99Spellings,
    .common = kCLike,
    .helpers = kC99Helpers,
    .common_helpers = kDivision,
};

}  // namespace tinyt::gpu
