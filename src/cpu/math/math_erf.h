// erf, erfc, erfinv.
#pragma once

#include "cpu/math/math_log.h"

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

// e^(x^2) erfc(x) (x + 3) as a polynomial in (x - 3) / (x + 3), x in [0.45, 27.3], beyond which
// erfc(x) is 0; relative error 2^-53.
inline constexpr double kErfc[] = {
    0x1.12f21ddd9f5e2p+0,   -0x1.c44c471baa376p-1,  0x1.2e326945de2bbp-1,   -0x1.3deb21415dc6fp-2,
    0x1.e995f11b16617p-4,   -0x1.b78993d6bc5f2p-6,  -0x1.3dd3e70c10e2fp-10, 0x1.8dae3a2c5539ap-9,
    -0x1.1f78e1b57f044p-11, -0x1.2238ff5ec2ab2p-12, 0x1.c32550db8d90ap-14,  0x1.fdfffe76e2bd7p-16,
    -0x1.251cc2eb7f543p-16, -0x1.3ec24baf80dc9p-18, 0x1.735281fe1ea0ap-19,  0x1.0c74a11878207p-20,
    -0x1.b93f2b1a62cd9p-22, -0x1.f76b516df59d3p-23, 0x1.b31e0543b0bc1p-25,  0x1.ae29b43192fc4p-25,
    -0x1.57ec8a160ae47p-28, -0x1.d9ef8d22f6e97p-28, 0x1.7ca61470f66bep-31};

TINYT_OUTLINE F64 erfc(F64 x) {
  const F64 a = clamp(abs(x), 0.0, 28.0);
  const F64 near = 1.0 - fma(x, poly<-2>(x * x, kErfSmall64), x);
  const F64 r = 1.0 / (a + 3.0);
  const Two<F64> square = two_prod(a, a);
  const F64 tail = lowered(lifted_exp(-square.hi, -square.lo) * (poly((a - 3.0) * r, kErfc) * r));
  return select(a < 0.5, near, select(x < 0.0, 2.0 - tail, tail));
}
TINYT_INLINE F32 erfc(F32 x) {
  return through_double(x, [](F64 d) { return erfc(d); });
}

// erfinv(x) / x as polynomials in w - 3, sqrt(w) - 3.25 and sqrt(w) - 5 for w = -log(1 - x^2) up
// to 6, 16 and 36.1, the largest there is (the variable of Giles, "Approximating the erfinv
// function", 2010); relative errors 2^-53, 2^-54, 2^-54.
inline constexpr double kErfinvNear[] = {
    0x1.9fa072ed72dbbp+0,   0x1.eedbebdce73e7p-3,   -0x1.780def1d3f2d6p-8,  -0x1.b6666b152bb86p-11,
    0x1.9912c04a44041p-13,  -0x1.aab13d1beb4b7p-17, -0x1.d539ca0af4e2bp-20, 0x1.e32b0d3f8da37p-22,
    -0x1.96f821fb18faep-26, -0x1.77b39f59d61edp-28, 0x1.31558c60f7d7dp-30,  -0x1.146c7b0ccb733p-35,
    -0x1.30dc12f22972cp-36, 0x1.7bda7c9f2d523p-39,  0x1.cbd052d485358p-48,  -0x1.dcd866b1e388cp-45,
    0x1.c65f9475729f8p-48,  0x1.3d84e9cd9d1bep-52,  -0x1.6dee1bdd21cccp-53, 0x1.d7159834e24a3p-57,
    0x1.0388191ddfe90p-59,  -0x1.c8c0cc5a0892cp-62, 0x1.01413c6c54ee6p-69,  0x1.40b3966752c2ep-68,
    -0x1.09c4ede468b46p-72};
inline constexpr double kErfinvMiddle[] = {
    0x1.8abcc380d5a48p+1,   0x1.0158a6d641d55p+0,   0x1.5ffcfe5b6cb68p-8,   -0x1.ebadabba0545dp-9,
    0x1.468eeca952327p-9,   -0x1.ba9240d7cd9b6p-10, 0x1.f3cc5458d10bep-11,  -0x1.7448bcf097fc6p-12,
    0x1.932e96bef5dbap-16,  0x1.1e6ac0e8a5524p-14,  -0x1.8cf47a1c7181dp-15, 0x1.a2410a0933f9cp-17,
    0x1.89a0511d05c71p-19,  -0x1.0b75b94de91bcp-18, 0x1.8d9aa74380111p-20,  -0x1.e1792a5f99841p-26,
    -0x1.06f490ee8bf1dp-22, 0x1.1b6194661d637p-23,  -0x1.6fbd205d87f36p-26, -0x1.0966f2a728df2p-26,
    0x1.0db4c969cb76bp-27};
inline constexpr double kErfinvFar[] = {
    0x1.3664ddd1ad7fbp+2,  0x1.02a30d1fba10ep+0,   -0x1.22ea5df1d3566p-13, -0x1.c2f36aa270bdep-13,
    0x1.3ebf4efc90382p-14, -0x1.4a348faf7607fp-16, 0x1.2fbcfca4c6384p-18,  -0x1.0a907bfe48a47p-20,
    0x1.ebe3a619abcc3p-23, -0x1.22254eb6731d9p-24, 0x1.f27dca4f2e421p-26,  -0x1.0621a35bd6cdap-26,
    0x1.0ce346455c0c1p-27, -0x1.dc9891bf7fd68p-29, 0x1.68a62a6408891p-30,  -0x1.e3a5aa29351ddp-32,
    0x1.3abc099247c05p-34, 0x1.7e527b7fdef5dp-35,  -0x1.6e0fad98070efp-36};

TINYT_OUTLINE F64 erfinv(F64 x) {
  const F64 a = abs(x), w = -log((1.0 - a) * (1.0 + a)), s = sqrt(w);
  const F64 middle = poly(s - 3.25, kErfinvMiddle), far = poly<1>(s - 5.0, kErfinvFar);
  const F64 ratio = select(w < 6.0, poly<2>(w - 3.0, kErfinvNear), select(w < 16.0, middle, far));
  return select(a == 1.0, copysign(splat(__builtin_inf()), x), x * ratio);
}
TINYT_INLINE F32 erfinv(F32 x) {
  if constexpr (!kDoubleWords) return through_double(x, [](F64 d) { return erfinv(d); });
  const F32 y = through_double(x, [](F64 d) {
    const I64 tiny = (I64)(abs(d) < 0x1p-90);  // there erfinv is linear
    const F64 r = erfinv(select(tiny, lifted(d), d));
    return select(tiny, lowered(r), r);
  });
  return select(x == 0.0f, x, y);
}

}  // namespace
}  // namespace tinyt::cpu
