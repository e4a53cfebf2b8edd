// What the vector extensions lack, on machines other than x86: NEON instructions where there are
// any, else the compiler's builtins lane by lane.
#pragma once

#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "cpu/simd/simd_types.h"

namespace tinyt::cpu {
namespace {

#if defined(__ARM_NEON)

inline constexpr bool kHasFma = true;
TINYT_INLINE F32 fma(F32 a, F32 b, F32 c) { return (F32)vfmaq_f32(c, a, b); }
TINYT_INLINE F64 fma(F64 a, F64 b, F64 c) { return (F64)vfmaq_f64(c, a, b); }
TINYT_INLINE F32 sqrt(F32 x) { return (F32)vsqrtq_f32(x); }
TINYT_INLINE F64 sqrt(F64 x) { return (F64)vsqrtq_f64(x); }
template <Rounding R>
TINYT_INLINE F32 round_to(F32 x) {
  if constexpr (R == kDown) return (F32)vrndmq_f32(x);
  if constexpr (R == kUp) return (F32)vrndpq_f32(x);
  if constexpr (R == kToZero) return (F32)vrndq_f32(x);
  return (F32)vrndnq_f32(x);
}
template <Rounding R>
TINYT_INLINE F64 round_to(F64 x) {
  if constexpr (R == kDown) return (F64)vrndmq_f64(x);
  if constexpr (R == kUp) return (F64)vrndpq_f64(x);
  if constexpr (R == kToZero) return (F64)vrndq_f64(x);
  return (F64)vrndnq_f64(x);
}

#else

inline constexpr bool kHasFma = false;
TINYT_INLINE F32 fma(F32 a, F32 b, F32 c) { return a * b + c; }
TINYT_INLINE F64 fma(F64 a, F64 b, F64 c) { return a * b + c; }
template <class V>
TINYT_INLINE V sqrt(V x) {
  for (int i = 0; i < kLanes<V>; ++i) {
    if constexpr (sizeof(Element<V>) == 4) x[i] = __builtin_sqrtf(x[i]);
    if constexpr (sizeof(Element<V>) == 8) x[i] = __builtin_sqrt(x[i]);
  }
  return x;
}
template <Rounding R, class V>
TINYT_INLINE V round_to(V x) {
  for (int i = 0; i < kLanes<V>; ++i) {
    const double d = x[i];
    x[i] = static_cast<Element<V>>(R == kDown     ? __builtin_floor(d)
                                   : R == kUp     ? __builtin_ceil(d)
                                   : R == kToZero ? __builtin_trunc(d)
                                                  : __builtin_rint(d));
  }
  return x;
}

#endif

// No store past the caches that all compilers offer.
template <class V>
TINYT_INLINE void stream(void* p, V v) {
  __builtin_memcpy(p, &v, sizeof v);
}
[[maybe_unused]] void stream_fence() {}

template <class V>
TINYT_INLINE V at_least(V x, V low) {
  return low > x ? low : x;
}
template <class V>
TINYT_INLINE V at_most(V x, V high) {
  return high < x ? high : x;
}

struct F32Halves {
  Vec<float, kLanes<F64>> lo, hi;
};
TINYT_INLINE F64Pair widen(F32 x) {
  const auto h = bit_cast<F32Halves>(x);
  return {__builtin_convertvector(h.lo, F64), __builtin_convertvector(h.hi, F64)};
}
TINYT_INLINE F32 narrow(F64 lo, F64 hi) {
  using Half = Vec<float, kLanes<F64>>;
  return bit_cast<F32>(
      F32Halves{__builtin_convertvector(lo, Half), __builtin_convertvector(hi, Half)});
}

template <class M>
TINYT_INLINE bool any(M mask) {
  const auto w = bit_cast<I64>(mask);
  return (w[0] | w[1]) != 0;
}

TINYT_INLINE U64 sum_bytes(B8 x) {
  U64 sums{};
  for (int i = 0; i < kLanes<B8>; ++i) sums[i / 8] += x[i];
  return sums;
}

template <class M>
TINYT_INLINE M bytes_to_mask(const void* p, M*) {
  Vec<int8_t, kLanes<M>> b;
  __builtin_memcpy(&b, p, sizeof b);
  return (M)(__builtin_convertvector(b, M) != 0);
}
template <class M>
TINYT_INLINE void mask_to_bytes(void* p, M mask) {
  const auto b = __builtin_convertvector(mask & 1, Vec<uint8_t, kLanes<M>>);
  __builtin_memcpy(p, &b, sizeof b);
}

}  // namespace
}  // namespace tinyt::cpu
