// erf.
#pragma once

#include "math_exp.h"

namespace tinyt::cpu {
namespace {

// erf(x) / x - 1 as a polynomial in x^2, |x| <= 1 (0.97 for float32); relative errors of erf 2^-30,
// 2^-63.
inline constexpr float kErfSmall32[] = {0x1.06eba8p-3f,  -0x1.81274p-2f, 0x1.ce2d78p-4f,
                                        -0x1.b8027ep-6f, 0x1.545584p-8f, -0x1.a66298p-11f,
                                        0x1.506f34p-14f};
inline constexpr double kErfSmall64[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e6p-2,  0x1.ce2f21a042b34p-4,  -0x1.b82ce31284f38p-6,
    0x1.565bcd0dbd921p-8,  -0x1.c02db3db49762p-11, 0x1.f9a321e4b84f9p-14, -0x1.f4d1e434bc0cfp-17,
    0x1.b9df305cad6f7p-20, -0x1.5f1f40faeea79p-23, 0x1.f7b99d7c8709ap-27, -0x1.38ac2290d3965p-30,
    0x1.062759c5be8ecp-34};

// -log(1 - erf(x)) on [1, 6] ([0.97, 4] for float32), beyond which erf rounds to 1; errors of erf
// 2^-30, 2^-59.
inline constexpr float kErfLarge32[] = {0x1.333ce2p-12f, 0x1.209564p+0f,  0x1.4692ecp-1f,
                                        0x1.a75f38p-4f,  -0x1.67b9c2p-6f, 0x1.86129ap-9f,
                                        -0x1.8cb2b6p-13f};
inline constexpr double kErfLarge64[] = {
    0x1.8bf84ae9cebb9p-23,  0x1.20dd5565508e6p+0,   0x1.45f4328dd95f5p-1,   0x1.a4d9a9b627ddap-4,
    -0x1.388e8b81d6cadp-6,  -0x1.27f0aec8c3e77p-12, 0x1.d03cee8748605p-10,  -0x1.5107e6a892420p-11,
    0x1.8183c877fb83fp-15,  0x1.248d7b4b7770dp-14,  -0x1.778e522ea65a2p-15, 0x1.138185c957b01p-16,
    -0x1.20afcae02e2bdp-18, 0x1.c5c1f9ec2fc65p-21,  -0x1.0c121bff36ccfp-23, 0x1.d09dd51b1c8bbp-27,
    -0x1.178f8533039f6p-30, 0x1.a1f537802eb96p-35,  -0x1.2475c82bfba98p-40};

TINYT_INLINE F32 erf(F32 x) {
  const F32 a = clamp(abs(x), 0.0f, 4.0f);
  const F32 small = fma(a, poly(a * a, kErfSmall32), a);
  const F32 large = 1.0f - exp(-poly(a, kErfLarge32));
  return copysign(select(a < 0.97f, small, large), x);
}
TINYT_INLINE F64 erf(F64 x) {
  const F64 a = clamp(abs(x), 0.0, 6.0);
  const F64 small = fma(a, poly(a * a, kErfSmall64), a);
  const F64 large = 1.0 - exp(-poly(a, kErfLarge64));
  return copysign(select(a < 1.0, small, large), x);
}

}  // namespace
}  // namespace tinyt::cpu
