// exp, exp2, expm1, sigmoid.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

// x = k ln 2 + r, |r| <= ln(2) / 2. ln 2 is split so that k times its upper part is exact.
inline constexpr float kLog2E32 = 0x1.715476p+0f, kLn2Hi32 = 0x1.62ep-1f,
                       kLn2Lo32 = 0x1.0bfbe8p-15f;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLog2E = 0x1.71547652b82fep+0, kLn2Hi = 0x1.62e42feep-1,
                        kLn2Lo = 0x1.a39ef35793c76p-33;

// (e^r - 1 - r) / r^2 on |r| <= 0.35; relative errors of e^r 2^-28, 2^-64.
inline constexpr float kExp32[] = {0x1p-1f, 0x1.555488p-3f, 0x1.555454p-5f, 0x1.124136p-7f,
                                   0x1.6dbcf4p-10f};
inline constexpr double kExp64[] = {
    0x1.0000000000000p-1,  0x1.555555555555cp-3,  0x1.555555555555ep-5,  0x1.111111110e8c0p-7,
    0x1.6c16c16c13129p-10, 0x1.a01a01b4e3f2ap-13, 0x1.a01a01b58a74dp-16, 0x1.71ddeca57b11ap-19,
    0x1.27e4bcd399bf9p-22, 0x1.af71f493c370ep-26, 0x1.1fa156cdec04cp-29};

// e^r, |r| <= 0.35.
TINYT_INLINE F32 exp_reduced(F32 r) {
  return fma(fma(horner(r, kExp32), r, splat(1.0f)), r, splat(1.0f));
}
TINYT_INLINE F32 exp(F32 x) {
  x = clamp(x, -104.0f, 89.0f);
  I32 k;
  const F32 n = nearest_product(x, kLog2E32, k);
  const F32 r = fma(n, splat(-kLn2Lo32), fma(n, splat(-kLn2Hi32), x));
  return scale(exp_reduced(r), n, k);
}

// e^x for x <= 0, or little above it, in few instructions at every level: 0 below e^-87.6, where
// results would be subnormal; a NaN stays.
TINYT_INLINE F32 exp_below(F32 x) {
  // Adding 1.5 * 2^23 + 127 rounds to an integer k and leaves the exponent of 2^k in the low bits.
  constexpr float kRound = 0x1.8p23f + 127.0f;
  x = at_least(x, splat(-88.0f));
  const F32 shifted = fma(x, splat(kLog2E32), splat(kRound)), n = shifted - kRound;
  const F32 r = fma(n, splat(-kLn2Lo32), fma(n, splat(-kLn2Hi32), x));
  return exp_reduced(r) * bit_cast<F32>(bit_cast<U32>(shifted) << 23);
}

// e^(x + low), |low| < 2^-40 or so.
TINYT_INLINE F64 exp(F64 x, F64 low) {
  x = clamp(x, -746.0, 710.0);
  I64 k;
  const F64 n = nearest(x * kLog2E, k);
  const F64 r = fma(n, splat(-kLn2Lo), fma(n, splat(-kLn2Hi), x)) + low;
  return scale(fma(r * r, poly<-1>(r, kExp64), r) + 1.0, n, k);
}
TINYT_INLINE F64 exp(F64 x) { return exp(x, F64{}); }
TINYT_INLINE F64 exp_below(F64 x) { return exp(x); }
// lifted(e^(x + low)).
TINYT_INLINE F64 lifted_exp(F64 x, F64 low) {
  if constexpr (kDoubleWords) return exp(x + 64 * kLn2, low);
  return exp(x, low);
}

// (2^r - 1) / r on |r| <= 1/2; relative error of 2^r 2^-56.
inline constexpr double kExp2[] = {
    0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0cfp-5,  0x1.3b2ab6fba4e22p-7,
    0x1.5d87fe78a26c9p-10, 0x1.430912f883cefp-13, 0x1.ffcbfc74d60f9p-17, 0x1.62c021e270a2dp-20,
    0x1.b524dd5548da2p-24, 0x1.e4d06c6b2d167p-28, 0x1.ea014ee709110p-32, 0x1.c2cea75de2a80p-36};

TINYT_INLINE F64 exp2(F64 x) {
  x = clamp(x, -1080.0, 1030.0);
  I64 k;
  const F64 r = x - nearest(x, k);
  return scale(fma(r, poly<-1>(r, kExp2), splat(1.0)), k);
}
TINYT_INLINE F32 exp2(F32 x) {
  return through_double(x, [](F64 d) { return exp2(d); });
}

// Where the result is an infinity; the power of two below is not, of double words.
inline constexpr double kExpm1Most = kDoubleWords ? 89.0 : 710.0;

// 2^k (e^r - 1) + (2^k - 1), with 2^(k-1) in the place of 2^k so that it cannot overflow early.
TINYT_INLINE F64 expm1(F64 x) {
  const F64 t = clamp(x, -40.0, kExpm1Most);
  I64 k;
  const F64 n = nearest(t * kLog2E, k);
  const F64 upper = fma(n, splat(-kLn2Hi), t), lower = n * kLn2Lo;
  const F64 r = upper - lower;
  const F64 rest = (upper - r) - lower;  // of the reduction
  const F64 e = r + fma(r * r, poly<-1>(r, kExp64), rest);
  const F64 s = pow2(k - 1);
  return copysign(2.0 * (s * e + (s - 0.5)), x);
}
TINYT_INLINE F32 expm1(F32 x) {
  const F32 y = through_double(x, [](F64 d) { return expm1(d); });
  return identity_near_zero(x, y);
}

// 1 / (1 + e^-x), from e^-|x| <= 1.
template <class V>
TINYT_INLINE V sigmoid(V x) {
  const V e = exp(-abs(x));
  return select(x < 0, e, V{} + 1) / (1 + e);
}

}  // namespace
}  // namespace tinyt::cpu
