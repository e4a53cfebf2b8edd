// Instructions of GPUs from compute capability 8.0 on that CUDA C++ has no functions for without
// headers (NVIDIA, "PTX ISA"). On a CPU tests/cuda/twins.h has them: TINYT_TWINS.
#pragma once

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

#ifndef TINYT_TWINS

// Memory that the threads of a block share, of as many bytes as the launch says.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char tt_shared[];
  return tt_shared;
}

__device__ inline u32 shared_address(const void* p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

// ---- copies from memory to shared memory, which go on while the thread does

// 16 or 4 bytes to and from places that are multiples of that. Of 16, the first `bytes` are read,
// and the others become zeros; 4 become zeros where `there` is false, and nothing is read.
__device__ inline void copy_16(void* to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(bytes)
               : "memory");
}
__device__ inline void copy_4(void* to, const void* from, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(there ? 4 : 0)
               : "memory");
}
// All since the last one become a group; waits until all groups of this thread but the last
// `later` are there. Other threads see them behind a barrier.
__device__ inline void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int later>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(later) : "memory");
}

// ---- fragments of matrices, of a warp

// Four matrices of 8 rows of 16 bytes in shared memory. Lane l gives the address of row l % 8 of
// matrix l / 8, and gets word l % 4 of row l / 4 of each matrix.
__device__ inline void load_matrices(u32 (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same of elements of 16 bits with rows and columns exchanged: lane l gets element l / 4 of
// rows 2 * (l % 4) and the next.
__device__ inline void load_transposed(u32 (&words)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(shared_address(row))
               : "memory");
}

// ---- sums += a * b of a warp: 16 rows, 8 columns, as many products as 32 bytes of a row have
//
// Of a lane, with g = lane / 4 and t = lane % 4: a[0] is word t of row g, a[1] of row g + 8, a[2]
// and a[3] are words t + 4 of these; b[0] and b[1] are words t and t + 4 of column g; sums[0] and
// sums[1] are columns 2 t and 2 t + 1 of row g, sums[2] and sums[3] those of row g + 8.

struct Bfloat16 {};
struct Float16 {};
struct Tfloat32 {};  // float32, of which 10 bits behind the point count
struct Int8 {};
struct UInt8 {};

#define TINYT_PRODUCT(Type, Sum, Constraint, shape, types)                                       \
  __device__ inline void multiply_add(Type, Sum(&sums)[4], const u32(&a)[4], const u32(&b)[2]) { \
    asm volatile("mma.sync.aligned." shape ".row.col." types                                     \
                 " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"              \
                 : "+" Constraint(sums[0]), "+" Constraint(sums[1]), "+" Constraint(sums[2]),    \
                   "+" Constraint(sums[3])                                                       \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));            \
  }
TINYT_PRODUCT(Bfloat16, float, "f", "m16n8k16", "f32.bf16.bf16.f32")
TINYT_PRODUCT(Float16, float, "f", "m16n8k16", "f32.f16.f16.f32")
TINYT_PRODUCT(Tfloat32, float, "f", "m16n8k8", "f32.tf32.tf32.f32")
TINYT_PRODUCT(Int8, int, "r", "m16n8k32", "s32.s8.s8.s32")
TINYT_PRODUCT(UInt8, int, "r", "m16n8k32", "s32.u8.u8.s32")
#undef TINYT_PRODUCT

// ---- conversions, to nearest (`to_tfloat32`: ties away from zero)

__device__ inline u32 to_tfloat32(float x) {
  u32 bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}
__device__ inline u16 to_bfloat16(float x) {
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline u16 to_float16(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}
__device__ inline float from_float16(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

// ---- functions, not to nearest: to 2^-22 of the result (of `log2_near` from 0.5 to 2: by 2^-22);
// results, and numbers, below 2^-126 are zeros

__device__ inline float exp2_near(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float log2_near(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#endif

__device__ inline float from_bfloat16(u16 bits) {
  return __uint_as_float(static_cast<u32>(bits) << 16);
}
