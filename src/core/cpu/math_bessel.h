// The modified Bessel functions I0 and I1, plain and times e^-|x|.
#pragma once

#include "math_exp.h"

namespace tinyt::cpu {
namespace {

// (I0(x) - 1) / z and (2 I1(x) / x - 1) / z as polynomials in z = (x/2)^2, |x| <= 8; relative
// errors of the functions 2^-55.
inline constexpr double kI0Small[] = {
    0x1.0000000000000p+0,  0x1.0000000000000p-2,  0x1.c71c71c71c717p-6,  0x1.c71c71c71c7aep-10,
    0x1.23456789ab3a9p-14, 0x1.02e85c08a48aap-19, 0x1.522a43f50cf10p-25, 0x1.522a440f326d7p-31,
    0x1.0b31312de08a6p-37, 0x1.5601a427990f7p-44, 0x1.69c8fb37d4392p-51, 0x1.41a9a1c15fd01p-58,
    0x1.e6075fadecd3dp-66, 0x1.445b0b1948052p-73, 0x1.3c57c801ce1f2p-81, 0x1.15dbd12793bb3p-88};
inline constexpr double kI1Small[] = {
    0x1.0000000000000p-1,  0x1.5555555555555p-4,  0x1.c71c71c71c71ap-8,  0x1.6c16c16c16c4bp-12,
    0x1.845c8a0ce4b07p-17, 0x1.27e4fb77915c9p-22, 0x1.522a43f59251dp-28, 0x1.2c9758e9051fap-34,
    0x1.ab81e8fcb3b02p-41, 0x1.f176b4d9aa965p-48, 0x1.e261d57cd913dp-55, 0x1.8bdfff196560bp-62,
    0x1.15d5bf3734bd1p-69, 0x1.592758b0c7e15p-77, 0x1.403e9bb440692p-85, 0x1.015ae8f065a9dp-92};

// sqrt(x) e^-x I(x) as polynomials in 1 / x, x >= 8; relative errors 2^-53.
inline constexpr double kI0Large[] = {
    0x1.9884533d43651p-2,  0x1.9884533d410c0p-5,   0x1.cb94ddc01fd24p-6,  0x1.debad2eee7a91p-6,
    0x1.6ead6481906d4p-5,  0x1.64dcac227b1a5p-4,   0x1.583a8559f1ca8p-1,  -0x1.3ac0b4bd3d547p+5,
    0x1.4bdf27ff36ecbp+11, -0x1.0343d4a3178fbp+17, 0x1.3869628d6b1a6p+22, -0x1.260a852a07b61p+27,
    0x1.b45ffbad8e897p+31, -0x1.00a13af85c3a3p+36, 0x1.df470251827b8p+39, -0x1.62affbcf5240ep+43,
    0x1.9dc7fd889dbefp+46, -0x1.78c15ac3aa5d1p+49, 0x1.07990dde4e9d2p+52, -0x1.14b4ea2dd8c37p+54,
    0x1.a3ab60dc4101dp+55, -0x1.afc2775f35020p+56, 0x1.0ba79eac6a63fp+57, -0x1.2a956c6931c82p+56};
inline constexpr double kI1Large[] = {
    0x1.9884533d43650p-2,   -0x1.32633e6df1ebdp-3, -0x1.7efc0e17dd566p-5,  -0x1.4f1c6b2bcc0b0p-5,
    -0x1.d7686553ba382p-5,  -0x1.b69889b7cafb7p-4, -0x1.789114bc29b72p-1,  0x1.489f810951374p+5,
    -0x1.5a3f08fe76eacp+11, 0x1.0dc550ab329aap+17, -0x1.4439cb9a68234p+22, 0x1.3059d538eacdfp+27,
    -0x1.c2709710401a5p+31, 0x1.08249331ac270p+36, -0x1.ebce861849c42p+39, 0x1.6ac2ca980fc4ep+43,
    -0x1.a5a9ea225f141p+46, 0x1.7e5dc9b935b8ep+49, -0x1.0a4543003cae7p+52, 0x1.15f8ac06c0157p+54,
    -0x1.a2c52a03e329fp+55, 0x1.ab369758dfa0ep+56, -0x1.05e6631ac8ec1p+57, 0x1.1f9b65146c066p+56};

// I of order 0 or 1 at a = |x|, times e^-a if Scaled.
template <int Order, bool Scaled>
TINYT_OUTLINE F64 bessel_i(F64 a) {
  const F64 near = clamp(a, 0.0, 8.0), z = 0.25 * near * near;
  F64 small = Order == 0 ? fma(z, poly(z, kI0Small), splat(1.0))
                         : 0.5 * near * fma(z, poly(z, kI1Small), splat(1.0));
  if (Scaled) small *= exp(-near);
  const F64 r = 1.0 / a;
  F64 large = (Order == 0 ? poly(r, kI0Large) : poly(r, kI1Large)) / sqrt(a);
  // e^(a - 8) e^8: e^a alone overflows before the product does.
  if (!Scaled) large = exp(a - 8.0) * (0x1.749ea7d470c6ep+11 * large);
  large = select(a == __builtin_inf(), Scaled ? F64{} : a, large);
  return select(a <= 8.0, small, large);
}

template <bool Scaled>
TINYT_INLINE F64 bessel_i0(F64 x) {
  return bessel_i<0, Scaled>(abs(x));
}
template <bool Scaled>
TINYT_INLINE F64 bessel_i1(F64 x) {
  return copysign(bessel_i<1, Scaled>(abs(x)), x);
}
template <bool Scaled>
TINYT_INLINE F32 bessel_i0(F32 x) {
  return through_double(x, [](F64 d) { return bessel_i0<Scaled>(d); });
}
template <bool Scaled>
TINYT_INLINE F32 bessel_i1(F32 x) {
  return through_double(x, [](F64 d) { return bessel_i1<Scaled>(d); });
}

}  // namespace
}  // namespace tinyt::cpu
