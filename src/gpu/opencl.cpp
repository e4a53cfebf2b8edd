// OpenCL C 1.2, for devices whose compilers make vectors of a thread's loops, as CPUs' do, and for
// others.
#include "gpu/c_like.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Spelling kOpenClSpellings[] = {
    {fma, kFloats, kAny, "fma($0, $1, $2)"},      {sqrt, kFloats, kAny, "sqrt($0)"},
    {floor, kFloats, kAny, "floor($0)"},          {ceil, kFloats, kAny, "ceil($0)"},
    {trunc, kFloats, kAny, "trunc($0)"},          {round_even, kFloats, kAny, "rint($0)"},
    {high_product, kU64, kAny, "mul_hi($0, $1)"}, {leading_zeros, kU64, kAny, "clz($0)"},
    {bit_cast, kI32, kF32, "as_int($0)"},         {bit_cast, kU32, kF32, "as_uint($0)"},
    {bit_cast, kI64, kF64, "as_long($0)"},        {bit_cast, kU64, kF64, "as_ulong($0)"},
    {bit_cast, kF32, kWhole, "as_float($0)"},     {bit_cast, kF64, kWhole, "as_double($0)"},
};

constexpr Dialect opencl(bool vectors) {
  return {
      .name = vectors ? "opencl" : "opencl-gpu",
      .begin = R"(#pragma OPENCL FP_CONTRACT OFF
#if defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#ifdef __clang__
#define TT_STREAM(T, x, p) \
  if ((ulong)(p) % sizeof(T) == 0) __builtin_nontemporal_store(x, (global T*)(p)); \
  else vstore8(x, 0, p)
#else
#define TT_STREAM(T, x, p) vstore8(x, 0, p)
#endif
)",
      .types = {"bool", "uchar", "char", "int", "uint", "long", "ulong", "float", "double"},
      .literal_suffix = {"", "", "", "", "u", "L", "UL", "f", ""},
      .infinity = {"INFINITY", "(double)INFINITY"},
      .nan = {"NAN", "(double)NAN"},
      .memory_types = {"uchar", "uchar", "char", "short", "int", "long", "ushort", "ushort",
                       "float", "double", "", ""},
      .table = "constant $T $N[$C] = {$E};",
      .unused = "(void)$N;",
      .function = "static inline $T $N($A)",
      .flag = vectors ? "$T* rare" : "",
      .raise = "*rare = $C ? 1u : *rare;",
      .kernel = "kernel void $N($A)",
      .reads = "global const $T* $N",
      .writes = "global $T* $N",
      .words = "const tt_words $N",
      .words_type = "typedef struct {\n  $T v[$C];\n} tt_words;",
      .word = "$N.v[$I]",
      .thread = "get_global_id(0)",
      .shared = "local $T $N[$E];",
      .barrier = "barrier(CLK_LOCAL_MEM_FENCE);",
      .multiply_add = "fma($A, $B, $C)",
      .vectors = vectors,
      .lanes = vectors ? 8 : 1,
      .vector = "$T8",
      .splat = "($T8)($E)",
      .vector_load = "vload8(0, $N + $E)",
      .vector_store = "vstore8($C, 0, $N + $E);",
      .vector_fma = "fma($A, $B, $C)",
      .vector_halves = vectors ? "vstore_half8_rte($C, 0, (global half*)$N + $E);" : "",
      .vector_stream = vectors ? "TT_STREAM($T8, $C, $N + $E);" : "",
      .spellings = kOpenClSpellings,
      .common = kCLike,
      .helpers = {},
      .common_helpers = kDivision,
  };
}

}  // namespace

constinit const Dialect kOpenCl = opencl(true), kOpenClGpu = opencl(false);

}  // namespace tinyt::gpu
