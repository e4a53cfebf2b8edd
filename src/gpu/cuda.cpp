// The C++ of CUDA and HIP, for compilers at run time, which have no headers. To be compiled without
// contraction (--fmad=false). A thread takes a row, or an element.
#include "gpu/c_like.h"

namespace tinyt::gpu {

namespace {

using enum MachineOp;

constexpr Spelling kCudaSpellings[] = {
    {fma, kF32, kAny, "__fmaf_rn($0, $1, $2)"},
    {fma, kF64, kAny, "__fma_rn($0, $1, $2)"},
    {sqrt, kF32, kAny, "__fsqrt_rn($0)"},
    {sqrt, kF64, kAny, "__dsqrt_rn($0)"},
    {floor, kF32, kAny, "floorf($0)"},
    {floor, kF64, kAny, "floor($0)"},
    {ceil, kF32, kAny, "ceilf($0)"},
    {ceil, kF64, kAny, "ceil($0)"},
    {trunc, kF32, kAny, "truncf($0)"},
    {trunc, kF64, kAny, "trunc($0)"},
    {round_even, kF32, kAny, "rintf($0)"},
    {round_even, kF64, kAny, "rint($0)"},
    {high_product, kU64, kAny, "__umul64hi($0, $1)"},
    {leading_zeros, kU64, kAny, "($T)__clzll((long long)$0)"},
    {bit_cast, kWhole, kF32, "($T)__float_as_uint($0)"},
    {bit_cast, kWhole, kF64, "($T)__double_as_longlong($0)"},
    {bit_cast, kF32, kWhole, "__uint_as_float((unsigned int)$0)"},
    {bit_cast, kF64, kWhole, "__longlong_as_double((long long)$0)"},
};

constexpr Dialect cxx(std::string_view name) {
  return {
      .name = name,
      .begin = "",
      .types = {"bool", "unsigned char", "signed char", "int", "unsigned int", "long long",
                "unsigned long long", "float", "double"},
      .literal_suffix = {"", "", "", "", "u", "ll", "ull", "f", ""},
      .infinity = {"__uint_as_float(0x7f800000u)", "__longlong_as_double(0x7ff0000000000000ll)"},
      .nan = {"__uint_as_float(0x7fc00000u)", "__longlong_as_double(0x7ff8000000000000ll)"},
      .memory_types = {"unsigned char", "unsigned char", "signed char", "short", "int", "long long",
                       "unsigned short", "unsigned short", "float", "double", "", ""},
      .table = "__device__ const $T $N[$C] = {$E};",
      .unused = "(void)$N;",
      .function = "__device__ inline $T $N($A)",
      .kernel = "extern \"C\" __global__ void $N($A)",
      .reads = "const $T* __restrict__ $N",
      .writes = "$T* __restrict__ $N",
      .words = "const tt_words $N",
      .words_type = "struct tt_words {\n  $T v[$C];\n};",
      .word = "$N.v[$I]",
      .thread = "(blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x)",
      .shared = "__shared__ $T $N[$E];",
      .barrier = "__syncthreads();",
      .multiply_add = "fma($A, $B, $C)",
      .spellings = kCudaSpellings,
      .common = kCLike,
      .helpers = {},
      .common_helpers = kDivision,
  };
}

}  // namespace

constinit const Dialect kCuda = cxx("cuda");
constinit const Dialect kHip = cxx("hip");

}  // namespace tinyt::gpu
