// The modified Bessel functions I0 and I1, plain and times e^-|x|.
#pragma once

#include "cpu/math/math_exp.h"

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

// sqrt(x) e^-x I(x) as polynomials in 16 / x - 1, x >= 8; relative errors 2^-54.
inline constexpr double kI0Large[] = {
    0x1.9bd428ad249a5p-2,   0x1.b87969bb93a48p-9,  0x1.1daa72b5e2366p-13,  0x1.75e5ee7822f78p-17,
    0x1.8e513accc76a3p-20,  0x1.3f49933733f90p-22, 0x1.7d0e5f25bc841p-24,  0x1.51d5f84cd03f6p-25,
    0x1.7257db9ed6674p-26,  0x1.02cf9254e7670p-27, -0x1.d3b411548af05p-28, -0x1.c9aa2ffce2ca1p-27,
    -0x1.62c3f99ada19fp-28, 0x1.f7410b7f70fd0p-28, 0x1.d29741886cb2dp-28,  -0x1.ac9afa081a33ep-29,
    -0x1.4d2b550bd6e76p-28, 0x1.2c4a86bc0bfefp-30, 0x1.499ae7b4d59c2p-29,  -0x1.2e287745e1a2ep-32,
    -0x1.9ae1031554e04p-31, 0x1.36172c123f453p-35, 0x1.de985e80c26e1p-34};
inline constexpr double kI1Large[] = {
    0x1.8ebe783a84030p-2,   -0x1.3f796198ee5e3p-7,  -0x1.cbc54df1e8a30p-13, -0x1.f89c230c1c6c7p-17,
    -0x1.ec8e10cda9622p-20, -0x1.76136c8d9dbb3p-22, -0x1.ad8c9576be72ap-24, -0x1.7280f7124367dp-25,
    -0x1.91b62a0449ae7p-26, -0x1.20dfa102cdc55p-27, 0x1.d2f43270388f8p-28,  0x1.df68969b0012bp-27,
    0x1.89426861550d7p-28,  -0x1.fec28b5e30e16p-28, -0x1.f053fd33757dcp-28, 0x1.a62d3a5241febp-29,
    0x1.5e0ee1eae723fp-28,  -0x1.1ff732137576bp-30, -0x1.5873a50ddf275p-29, 0x1.1be99bbf474cep-32,
    0x1.ac4bf6a87bc29p-31,  -0x1.1f6f8a3689d3bp-35, -0x1.f23ff1f27dca9p-34};

// I of order 0 or 1 at a = |x|, times e^-a if Scaled.
template <int Order, bool Scaled>
TINYT_OUTLINE F64 bessel_i(F64 a) {
  const F64 near = clamp(a, 0.0, 8.0), z = 0.25 * near * near;
  F64 small = Order == 0 ? fma(z, poly<4>(z, kI0Small), splat(1.0))
                         : 0.5 * near * fma(z, poly<4>(z, kI1Small), splat(1.0));
  if (Scaled) small *= exp(-near);
  const F64 t = 16.0 / a - 1.0;
  F64 large = (Order == 0 ? poly(t, kI0Large) : poly(t, kI1Large)) / sqrt(a);
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
