// tanh.
#pragma once

#include "cpu/math/math_exp.h"

namespace tinyt::cpu {
namespace {

#if TINYT_VECTOR_BYTES == 64
// tanh(k w + d) as polynomials in d, |d| <= w / 2, for k = 0 to 31; error 0.02 ULP without that of
// the first coefficients. With this w, those of k = 1 to 5, where it counts most, are nearly exact.
inline constexpr float kTanhStep = 0x1.2bb6bep-2f;
alignas(64) inline constexpr float kTanhPieces[][32] = {
    {0.0f,           0x1.237052p-2f, 0x1.0d99c2p-1f, 0x1.6930cp-1f,  0x1.a626ccp-1f, 0x1.cbf096p-1f,
     0x1.e256fap-1f, 0x1.ef4482p-1f, 0x1.f69d26p-1f, 0x1.fac068p-1f, 0x1.fd120ep-1f, 0x1.fe5dd4p-1f,
     0x1.ff16f6p-1f, 0x1.ff7e2cp-1f, 0x1.ffb7aep-1f, 0x1.ffd7b8p-1f, 0x1.ffe992p-1f, 0x1.fff382p-1f,
     0x1.fff90ap-1f, 0x1.fffc2p-1f,  0x1.fffdd8p-1f, 0x1.fffeccp-1f, 0x1.ffff54p-1f, 0x1.ffffap-1f,
     0x1.ffffcap-1f, 0x1.ffffe2p-1f, 0x1.fffffp-1f,  0x1.fffff6p-1f, 0x1.fffffap-1f, 0x1.fffffep-1f,
     0x1.fffffep-1f, 0x1p+0f},
    {0x1p+0f,         0x1.d686eep-1f,  0x1.7209c2p-1f,  0x1.0132bcp-1f,
     0x1.47dc1p-2f,   0x1.8b4ec6p-3f,  0x1.ccd16cp-4f,  0x1.0757fcp-4f,
     0x1.299a8p-5f,   0x1.4e2d48p-6f,  0x1.75e636p-7f,  0x1.a180c8p-8f,
     0x1.d1ab36p-9f,  0x1.038876p-9f,  0x1.213136p-10f, 0x1.422d9cp-11f,
     0x1.66e33ep-12f, 0x1.8fc17cp-13f, 0x1.bd4348p-14f, 0x1.eff0ep-15f,
     0x1.1430cep-15f, 0x1.339eep-16f,  0x1.56a04ap-17f, 0x1.7d9d4ap-18f,
     0x1.a909f2p-19f, 0x1.d96782p-20f, 0x1.07a2f8p-20f, 0x1.25a2c8p-21f,
     0x1.470c7ap-22f, 0x1.6c437ep-23f, 0x1.95b694p-24f, 0.0f},
    {-0x1.6abe14p-24f, -0x1.0bd4fp-2f,   -0x1.85b282p-2f,  -0x1.6ae188p-2f,
     -0x1.0e533ap-2f,  -0x1.631cep-3f,   -0x1.b21f7p-4f,   -0x1.fd799ap-5f,
     -0x1.2425d4p-5f,  -0x1.4ac054p-6f,  -0x1.73c28cp-7f,  -0x1.a02bcap-8f,
     -0x1.d0d742p-9f,  -0x1.0346a6p-9f,  -0x1.21085cp-10f, -0x1.421442p-11f,
     -0x1.66d384p-12f, -0x1.8fb7bcp-13f, -0x1.bd3d3ap-14f, -0x1.efed2p-15f,
     -0x1.142fa4p-15f, -0x1.339e26p-16f, -0x1.569fd8p-17f, -0x1.7d9d04p-18f,
     -0x1.a909c6p-19f, -0x1.d96768p-20f, -0x1.07a2fp-20f,  -0x1.25a2c4p-21f,
     -0x1.470c76p-22f, -0x1.6c437ap-23f, -0x1.95b692p-24f, 0.0f},
    {-0x1.55532ep-2f, -0x1.dae848p-3f, -0x1.4c05ccp-5f, 0x1.521d56p-4f,
     0x1.c66b3p-4f,   0x1.767b72p-4f,  0x1.febe3cp-5f,  0x1.3d4462p-5f,
     0x1.772fc6p-6f,  0x1.afefc6p-7f,  0x1.e9fe8p-8f,   0x1.13accap-8f,
     0x1.34ca1ep-9f,  0x1.5902dep-10f, 0x1.80f1b2p-11f, 0x1.ad2b56p-12f,
     0x1.de44c6p-13f, 0x1.0a6d26p-13f, 0x1.28ca7ep-14f, 0x1.4a989p-15f,
     0x1.703a6ep-16f, 0x1.9a24f2p-17f, 0x1.c8d36ap-18f, 0x1.fcd02cp-19f,
     0x1.1b5b06p-19f, 0x1.3b9a1ap-20f, 0x1.5f8426p-21f, 0x1.8783ep-22f,
     0x1.b40f88p-23f, 0x1.e5ace4p-24f, 0x1.0e78fep-24f, 0.0f},
    {-0x1.108844p-12f, 0x1.39bcacp-3f,   0x1.2f846ap-3f,   0x1.eaafb4p-5f,
     -0x1.c73ee8p-9f,  -0x1.8e9f8p-6f,   -0x1.7f781cp-6f,  -0x1.122464p-6f,
     -0x1.5b1422p-7f,  -0x1.9e062ep-8f,  -0x1.deb552p-9f,  -0x1.102558p-9f,
     -0x1.3296bp-10f,  -0x1.57a4fcp-11f, -0x1.8019f4p-12f, -0x1.aca77cp-13f,
     -0x1.ddf212p-14f, -0x1.0a524cp-14f, -0x1.28bb6ap-15f, -0x1.4a8dfp-16f,
     -0x1.7033f2p-17f, -0x1.9a238p-18f,  -0x1.c8d00ep-19f, -0x1.fcccfap-20f,
     -0x1.1b5a5ap-20f, -0x1.3b98d4p-21f, -0x1.5f837p-22f,  -0x1.8781dep-23f,
     -0x1.b4112cp-24f, -0x1.e5b07p-25f,  -0x1.0e79c8p-25f, 0.0f},
    {0x1.186ee6p-3f,  0x1.b95406p-5f,  -0x1.841e66p-5f, -0x1.dded4ep-5f,
     -0x1.be45dap-6f, -0x1.28c766p-8f, 0x1.e3d0bep-9f,  0x1.3236a4p-8f,
     0x1.d2b33cp-9f,  0x1.2f6a22p-9f,  0x1.6e7b6ap-10f, 0x1.a92eaep-11f,
     0x1.e50deap-12f, 0x1.121262p-12f, 0x1.33b378p-13f, 0x1.57ac2cp-14f,
     0x1.7f096ep-15f, 0x1.ab1b2p-16f,  0x1.dcb5aap-17f, 0x1.094162p-17f,
     0x1.285a4cp-18f, 0x1.499882p-19f, 0x1.6e8a3p-20f,  0x1.982f9p-21f,
     0x1.c70b1ap-22f, 0x1.fa1b7cp-23f, 0x1.19a714p-23f, 0x1.39c306p-24f,
     0x1.5e3c02p-25f, 0x1.86d1e6p-26f, 0x1.b28f0ap-27f, 0.0f},
    {-0x1.7403d2p-6f,  -0x1.266d9ep-4f,  -0x1.0d239p-5f,   0x1.abb882p-7f,
     0x1.1e73c4p-6f,   0x1.0c5458p-7f,   0x1.f72cep-10f,   -0x1.647906p-12f,
     -0x1.90b99p-11f,  -0x1.493088p-11f, -0x1.b8ff48p-12f, -0x1.0c14cp-12f,
     -0x1.3a1b1p-13f,  -0x1.67362ep-14f, -0x1.95007ep-15f, -0x1.c4e422p-16f,
     -0x1.fc5b32p-17f, -0x1.1cf9p-17f,   -0x1.3c8b4cp-18f, -0x1.61fd46p-19f,
     -0x1.8b6c0cp-20f, -0x1.b51d2cp-21f, -0x1.e97164p-22f, -0x1.10caa6p-22f,
     -0x1.2fa16cp-23f, -0x1.522a64p-24f, -0x1.77debap-25f, -0x1.a3d6dep-26f,
     -0x1.d127ap-27f,  -0x1.02f476p-27f, -0x1.20e59cp-28f, 0.0f}};

TINYT_INLINE F32 tanh(F32 x) {
  return copysign(piecewise(at_most(abs(x), splat(9.1f)), kTanhStep, kTanhPieces), x);
}
#else
// (tanh(x) / x - 1) / x^2 as a polynomial in x^2, |x| <= 0.625; relative error of tanh 2^-27.7.
inline constexpr float kTanh32[] = {-0x1.555532p-2f, 0x1.1106fcp-3f, -0x1.b836f4p-5f,
                                    0x1.5203f4p-6f, -0x1.7547e2p-8f};

TINYT_INLINE F32 tanh(F32 x) {
  const F32 a = abs(x), z = x * x;
  const F32 small = fma(a * z, horner(z, kTanh32), a);
  const F32 large = 1.0f - 2.0f / (exp_below(at_most(a + a, splat(20.0f))) + 1.0f);
  return copysign(select(a < 0.625f, small, large), x);
}
#endif

// From t = e^2|x| - 1: t / (t + 2), or 1 - 2 / (t + 2) where that is the more accurate.
TINYT_INLINE F64 tanh(F64 x) {
  const F64 a = abs(x), t = expm1(2.0 * a);
  const I64 large = (I64)(a >= 1.0);
  const F64 q = select(large, splat(2.0), t) / (t + 2.0);
  return copysign(select(large, 1.0 - q, q), x);
}

}  // namespace
}  // namespace tinyt::cpu
