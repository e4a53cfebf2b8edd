// What a score weighs, for the kernels of attention: masks, and the exponential.
#pragma once

#include "cpu/math/math_exp.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

template <class T>
constexpr int64_t kWidth = kLanes<Vec<T>>;
template <class T>
constexpr T kInf = static_cast<T>(__builtin_inf());

// (2^r - 1) / r on |r| <= 1/2; relative error of 2^r 2^-28.
inline constexpr float kExp2Weight[] = {0x1.62e432p-1f, 0x1.ebfbe2p-3f,  0x1.c6ae72p-5f,
                                        0x1.3b270ep-7f, 0x1.5f7276p-10f, 0x1.470b4ap-13f};

// e^x for x <= 0: a weight. Exactly 1 at 0 and 0 below e^-87; a NaN stays.
TINYT_INLINE F32 weight(F32 x) {
  // Adding 1.5 * 2^23 + 127 rounds to an integer k and leaves the exponent of 2^k in the low bits.
  constexpr float kRound = 0x1.8p23f + 127.0f;
  const F32 y = at_least(x * kLog2E32, splat(-127.0f));
  const F32 shifted = y + kRound, r = y - (shifted - kRound);
  F32 p = splat(kExp2Weight[5]);
#pragma GCC unroll 5
  for (int i = 4; i >= 0; --i) p = fma(p, r, splat(kExp2Weight[i]));
  return fma(p, r, splat(1.0f)) * bit_cast<F32>(bit_cast<U32>(shifted) << 23);
}
TINYT_INLINE F64 weight(F64 x) { return exp(x); }

// One vector of scores with the masks from element `at` on, if there are any.
template <MaskKind Kind, class T>
TINYT_INLINE Vec<T> masked(Vec<T> score, const void* mask, int64_t at) {
  if constexpr (Kind == MaskKind::None) return score;
  const Vec<T> m = load<T>(static_cast<const T*>(mask) + at);
  return Kind == MaskKind::Add ? score + m : select(m != 0, score, splat(-kInf<T>));
}

// Lanes of numbers first, first + 1, ... that are at most `last`, clamped to what a lane counts.
template <class T>
TINYT_INLINE Mask<Vec<T>> up_to(int64_t last) {
  using I = Element<Mask<Vec<T>>>;
  const int64_t near = last < -1 ? -1 : last > kWidth<T> ? kWidth<T> : last;
  return (Mask<Vec<T>>)(iota<I, kWidth<T>>() <= splat(static_cast<I>(near)));
}

}  // namespace
}  // namespace tinyt::cpu
