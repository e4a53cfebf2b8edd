// CUDA C++ on the host, included in front of a kernel's source by the stand-in for NVRTC. It has no
// standard headers: thousands of kernels are compiled in a test run. To be compiled without
// contraction of products and sums.
#pragma once

#include "standin_module.h"

#define __global__
#define __device__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One section, so that the driver can fill the shared memory of all kernels before each block.
#define __shared__ __attribute__((section("standin_shared"))) static
// The line tells barriers apart.
#define __syncthreads() standin_barrier(__LINE__)

extern "C" {
StandinDim threadIdx, blockIdx, blockDim, gridDim;
void (*standin_barrier)(int line);
// The linker defines these where there is shared memory.
extern char __start_standin_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_standin_shared[] __attribute__((weak, visibility("hidden")));
}

// ---- intrinsics

static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
static inline double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
static inline float floorf(float x) { return __builtin_floorf(x); }
static inline double floor(double x) { return __builtin_floor(x); }
static inline float ceilf(float x) { return __builtin_ceilf(x); }
static inline double ceil(double x) { return __builtin_ceil(x); }
static inline float truncf(float x) { return __builtin_truncf(x); }
static inline double trunc(double x) { return __builtin_trunc(x); }
static inline float rintf(float x) { return __builtin_rintf(x); }
static inline double rint(double x) { return __builtin_rint(x); }

static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}

template <class To, class From>
static inline To standin_bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
static inline unsigned __float_as_uint(float x) { return standin_bit_cast<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return standin_bit_cast<float>(x); }
static inline long long __double_as_longlong(double x) { return standin_bit_cast<long long>(x); }
static inline double __longlong_as_double(long long x) { return standin_bit_cast<double>(x); }

// ---- a kernel that takes the addresses of its arguments' values

template <class T>
struct StandinIsPointer {
  static constexpr bool value = false;
};
template <class T>
struct StandinIsPointer<T*> {
  static constexpr bool value = true;
};

template <class... A>
struct StandinCall {
  StandinCall(void (*kernel)(A...), const A&... values) { kernel(values...); }
};

template <class F, F* kernel>
struct StandinEntry;
template <class... A, void (*kernel)(A...)>
struct StandinEntry<void(A...), kernel> {
  static constexpr StandinArgument arguments[] = {{sizeof(A), StandinIsPointer<A>::value}...,
                                                  {0, false}};
  // Braces: the order in which arguments are evaluated matters.
  static void run_thread(void* const* values) {
    StandinCall<A...>{kernel, *static_cast<const A*>(*values++)...};
  }
  static constexpr StandinKernel described(const char* name) {
    static_assert((sizeof(A) + ... + 0) <= STANDIN_PARAMETER_BYTES,
                  "formal parameter space overflowed");
    return {name, run_thread, arguments, sizeof...(A)};
  }
};

// The stand-in's compiler defines STANDIN_TWINS for sources that need them.
#ifdef STANDIN_TWINS
#include "twins.h"
#define STANDIN_SERVICES &standin_services
#else
#define STANDIN_SERVICES nullptr
#endif

#define STANDIN_KERNEL(name) StandinEntry<decltype(name), name>::described(#name),
// Ends a source: its kernels, each as STANDIN_KERNEL.
#define STANDIN_MODULE(has_barriers, ...)                                                       \
  static const StandinKernel standin_kernels[] = {__VA_ARGS__{}};                               \
  extern "C" __attribute__((visibility("default"))) const StandinModule standin_module;         \
  const StandinModule standin_module = {&threadIdx,                                             \
                                        &blockIdx,                                              \
                                        &blockDim,                                              \
                                        &gridDim,                                               \
                                        &standin_barrier,                                       \
                                        STANDIN_SERVICES,                                       \
                                        __start_standin_shared,                                 \
                                        __stop_standin_shared,                                  \
                                        standin_kernels,                                        \
                                        sizeof standin_kernels / sizeof standin_kernels[0] - 1, \
                                        has_barriers};
