// Activation functions and their gradients: `name_backward(g, x)` is g times the slope at x.
#pragma once

#include "cpu/math/math_erf.h"

namespace tinyt::cpu {
namespace {

// ---- gelu: x Phi(x), Phi the normal distribution function

// Phi(-a) e^(a^2/2) = P(a) / Q(a) for a in [0, 14.6], beyond which float32 results are 0; relative
// error 2^-26.3. P is as small as ratio, see below. All coefficients are positive: nothing cancels.
inline constexpr float kTailAbove32[] = {0x1.0423e2p-65f, 0x1.c848aep-66f, 0x1.7da5f2p-67f,
                                         0x1.52ac94p-69f, 0x1.12a21p-72f};
inline constexpr float kTailBelow32[] = {0x1.0423e2p+0f, 0x1.b3b432p+0f, 0x1.38fb6cp+0f,
                                         0x1.e8ed4p-2f,  0x1.a87ddap-4f, 0x1.583294p-7f};
inline constexpr double kTailBelow64[] = {kTailBelow32[0], kTailBelow32[1], kTailBelow32[2],
                                          kTailBelow32[3], kTailBelow32[4], kTailBelow32[5]};

// The tail Phi(-|x|) is ratio bell: two factors, as it may be subnormal. Of float32, bell is
// e^(-x^2/2) times kBellScale, so that it is not, and ratio as much smaller.
template <class V>
inline constexpr Element<V> kBellScale = sizeof(Element<V>) == 4 ? 0x1p64f : 1;
template <class V>
struct Normal {
  V size;  // |x|, limited to where the tail is not 0, so that infinities give the limits
  V ratio;
  V bell;
};

// (e^(-r/2) - 1 + r/2) / r^2.
inline constexpr float kBell32[] = {kExp32[0] / 4, kExp32[1] / -8, kExp32[2] / 16, kExp32[3] / -32,
                                    kExp32[4] / 64};

// e^(-a^2/2) kBellScale, a <= 14.75, from the exact square: in the tail, its rounding would be the
// error of the result.
TINYT_INLINE F32 bell_of(F32 a) {
  // a^2 = r - 2 n ln 2; the lowest bits of `shifted` are the exponent of 2^n kBellScale.
  constexpr float kRound = 0x1.8p23f + 127.0f + 64.0f;
  const F32 shifted = fma(a * a, splat(-0.5f * kLog2E32), splat(kRound)), n = shifted - kRound;
  F32 r;
  if constexpr (kHasFma) {
    r = fma(n, splat(2 * kLn2Lo32), fma(a, a, n * (2 * kLn2Hi32)));
  } else {  // a^2 = upper^2 + (a - upper) (a + upper), of which the first is exact
    const F32 upper = bit_cast<F32>(bit_cast<I32>(a) & ~0xFFF);
    r = (upper * upper + n * (2 * kLn2Hi32)) + ((a - upper) * (a + upper) + n * (2 * kLn2Lo32));
  }
  const F32 e = fma(fma(horner(r, kBell32), r, splat(-0.5f)), r, splat(1.0f));
  return e * bit_cast<F32>(bit_cast<U32>(shifted) << 23);
}
// Q in float64 where products are rounded before they are added: it has the most of them.
TINYT_INLINE F32 tail_below(F32 a) {
  if constexpr (kHasFma) return poly(a, kTailBelow32);
  return through_double(a, [](F64 d) { return horner(d, kTailBelow64); });
}
TINYT_INLINE Normal<F32> normal(F32 x) {
  const F32 a = at_most(abs(x), splat(14.75f));
  return {a, poly(a, kTailAbove32) / tail_below(a), bell_of(a)};
}
// erfc(b) / 2 for b = a / sqrt(2), with the exponential of a itself.
TINYT_INLINE Normal<F64> normal(F64 x) {
  const F64 a = clamp(abs(x), 0.0, 38.7), b = a * 0x1.6a09e667f3bcdp-1;
  const Two<F64> square = two_prod(a, a);
  const F64 bell = exp(-0.5 * square.hi, -0.5 * square.lo);
  const F64 r = 1.0 / (b + 3.0), far = 0.5 * (poly((b - 3.0) * r, kErfc) * r);
  const F64 near = (0.5 - 0.5 * fma(b, poly(b * b, kErfSmall64), b)) / bell;
  return {a, select(b < 0.5, near, far), bell};
}

// max(x, -0) - |x| Phi(-|x|); the sign of a zero is that of x.
template <class V>
TINYT_INLINE V gelu_of_any(V x) {
  const auto n = normal(x);
  return fma(-(n.size * n.bell), n.ratio, at_least(x, splat(static_cast<Element<V>>(-0.0))));
}
#if TINYT_VECTOR_BYTES == 64
// Phi(-k w - d) as polynomials in d, |d| <= w / 2, for k = 0 to 31; relative error 2^-23.4.
inline constexpr float kTailStep = 0x1.a7p-3f, kNearTail = 6.5f;
alignas(64) inline constexpr float kTailPieces[][32] = {
    {0x1p-1f,         0x1.ac3846p-2f,  0x1.5bed26p-2f,  0x1.122d56p-2f,  0x1.a283fcp-3f,
     0x1.34faa4p-3f,  0x1.b8d502p-4f,  0x1.2f94d4p-4f,  0x1.934f82p-5f,  0x1.023996p-5f,
     0x1.3e863ap-6f,  0x1.7a46c6p-7f,  0x1.b04f3p-8f,   0x1.db3f7ep-9f,  0x1.f660aap-10f,
     0x1.fe7d68p-11f, 0x1.f2816p-12f,  0x1.d3b448p-13f, 0x1.a57fcp-14f,  0x1.6cce28p-15f,
     0x1.2f2c2p-16f,  0x1.e3c6b8p-18f, 0x1.7283c2p-19f, 0x1.105cdcp-20f, 0x1.8048b2p-22f,
     0x1.0424fep-23f, 0x1.51f39ep-25f, 0x1.a53764p-27f, 0x1.f7a7bap-29f, 0x1.20da9cp-30f,
     0x1.3dd03ap-32f, 0x1.4f65acp-34f},
    {-0x1.988454p-2f,  -0x1.8fe54p-2f,   -0x1.771b96p-2f,  -0x1.512974p-2f,  -0x1.2265f4p-2f,
     -0x1.df5988p-3f,  -0x1.7b19a4p-3f,  -0x1.1f4b96p-3f,  -0x1.a1425ep-4f,  -0x1.225a64p-4f,
     -0x1.833688p-5f,  -0x1.eed1aep-6f,  -0x1.2ef5dep-6f,  -0x1.637da4p-7f,  -0x1.8fb57cp-8f,
     -0x1.aea864p-9f,  -0x1.bc9ffap-10f, -0x1.b7dfbap-11f, -0x1.a0ffeap-12f, -0x1.7ace3p-13f,
     -0x1.49bd0cp-14f, -0x1.130a46p-15f, -0x1.b7ab3p-17f,  -0x1.50be18p-18f, -0x1.ee47dp-20f,
     -0x1.5b9c16p-21f, -0x1.d48112p-23f, -0x1.2e895ep-24f, -0x1.766884p-26f, -0x1.bc00c4p-28f,
     -0x1.f88b66p-30f, -0x1.12b2c4p-31f},
    {0x1.9dc74p-20f,  0x1.4a328p-5f,   0x1.35d524p-4f,  0x1.a1d0f6p-4f,  0x1.dfd1fcp-4f,
     0x1.ef0564p-4f,  0x1.d5d2dcp-4f,  0x1.9f5ff8p-4f,  0x1.58b97ep-4f,  0x1.0ddbe8p-4f,
     0x1.8fdefp-5f,   0x1.190c74p-5f,  0x1.7770fcp-6f,  0x1.dd416ap-7f,  0x1.20f324p-7f,
     0x1.4d8f78p-8f,  0x1.6f55c4p-9f,  0x1.82208ap-10f, 0x1.83939ap-11f, 0x1.73a332p-12f,
     0x1.5486b8p-13f, 0x1.2a3d8ap-14f, 0x1.f3746p-16f,  0x1.8fec8p-17f,  0x1.32453cp-18f,
     0x1.c0ba3p-20f,  0x1.3a7d58p-21f, 0x1.a5c8e2p-23f, 0x1.0ea8c6p-24f, 0x1.4c6e7cp-26f,
     0x1.86c93ap-28f, 0x1.b7b592p-30f},
    {0x1.1010a6p-4f,   0x1.fe8642p-5f,   0x1.9ef14cp-5f,   0x1.14feeep-5f,   0x1.eba498p-7f,
     -0x1.541d4ep-9f,  -0x1.0eedfep-6f,  -0x1.a1b82p-6f,   -0x1.e146fap-6f,  -0x1.db44c6p-6f,
     -0x1.a58346p-6f,  -0x1.573556p-6f,  -0x1.03ae88p-6f,  -0x1.6fe8a6p-7f,  -0x1.ea6542p-8f,
     -0x1.34961ep-8f,  -0x1.6f9602p-9f,  -0x1.9f461ep-10f, -0x1.bd8e66p-11f, -0x1.c691d4p-12f,
     -0x1.b96944p-13f, -0x1.9846bcp-14f, -0x1.67ed4ap-15f, -0x1.2e9ac6p-16f, -0x1.e574c6p-18f,
     -0x1.73ae32p-19f, -0x1.0fb374p-20f, -0x1.7b666ap-22f, -0x1.fa1fdcp-24f, -0x1.4296bp-25f,
     -0x1.8904bap-27f, -0x1.c9bb68p-29f},
    {0x1.5a6efap-10f, -0x1.256dd8p-8f, -0x1.c198f2p-7f, -0x1.5ef624p-6f,  -0x1.61bf06p-6f,
     -0x1.34d678p-6f, -0x1.f14bdcp-7f, -0x1.016ddcp-7f, -0x1.c05ef4p-10f, 0x1.81261ep-9f,
     0x1.633e3ap-8f,  0x1.9e6918p-8f,  0x1.8d95eap-8f,  0x1.4f75e6p-8f,   0x1.022bb2p-8f,
     0x1.6ea882p-9f,  0x1.e59986p-10f, 0x1.2ba748p-10f, 0x1.5dc09p-11f,   0x1.8029aep-12f,
     0x1.8f078ep-13f, 0x1.88f12ep-14f, 0x1.6f9f56p-15f, 0x1.45fcb2p-16f,  0x1.134d9ap-17f,
     0x1.ba70ap-19f,  0x1.52a4a4p-20f, 0x1.edf36p-22f,  0x1.576b2ep-23f,  0x1.c78c82p-25f,
     0x1.203fep-26f,  0x1.5c3322p-28f},
    {-0x1.621d9ap-6f,  -0x1.4e05fap-7f,  -0x1.07b91ap-7f,  -0x1.7bf072p-9f,  0x1.69b014p-10f,
     0x1.1fc7dep-8f,   0x1.ba8666p-8f,   0x1.9f2c9ep-8f,   0x1.3dc21p-8f,    0x1.9fc958p-9f,
     0x1.8ae9d4p-10f,  0x1.ac2834p-13f,  -0x1.550fc4p-11f, -0x1.13a81ap-10f, -0x1.301204p-10f,
     -0x1.0c8358p-10f, -0x1.a6d18ap-11f, -0x1.27dc2ap-11f, -0x1.82f54cp-12f, -0x1.d3f546p-13f,
     -0x1.07e156p-13f, -0x1.1844ap-14f,  -0x1.1901fep-15f, -0x1.0975e2p-16f, -0x1.dbe566p-18f,
     -0x1.93a246p-19f, -0x1.458f44p-20f, -0x1.f2467cp-22f, -0x1.6acfdp-23f,  -0x1.f6a86ap-25f,
     -0x1.4bc17ap-26f, -0x1.a0f57p-28f},
    {0x1.39f164p-5f,  -0x1.515138p-2f, -0x1.f23f94p-3f, -0x1.7062e6p-5f,  -0x1.e97498p-5f,
     -0x1.26cca2p-5f, 0x1.1d358cp-4f,  0x1.268c62p-7f,  -0x1.7a4b72p-7f,  -0x1.b85466p-6f,
     -0x1.12f01cp-6f, -0x1.28697ap-7f, -0x1.147f94p-8f, -0x1.9a244ap-11f, 0x1.d2321ap-15f,
     0x1.e09d04p-13f, 0x1.f61cfcp-15f, 0x1.2c7f78p-12f, 0x1.e0896ap-14f,  0x1.78f6p-14f,
     0x1.060e4cp-14f, 0x1.30c2dp-15f,  0x1.1a3acep-16f, 0x1.517a74p-17f,  0x1.3b9042p-18f,
     0x1.1c57f2p-19f, 0x1.e1579ap-21f, 0x1.832e6cp-22f, 0x1.290496p-23f,  0x1.ac4054p-25f,
     0x1.27d762p-26f, 0x1.82c64p-28f}};

TINYT_OUTLINE F32 gelu_of_any_size(F32 x) { return gelu_of_any(x); }

TINYT_INLINE F32 gelu(F32 x) {
  const F32 a = at_most(abs(x), splat(kNearTail));
  const F32 tail = piecewise(a, kTailStep, kTailPieces);
  const F32 y = fma(-a, tail, at_least(x, splat(-0.0f)));
  const F32 far = -x;
  if (!any_above(far, kNearTail)) return y;
  return select(far > kNearTail, gelu_of_any_size(x), y);
}
TINYT_INLINE F64 gelu(F64 x) { return gelu_of_any(x); }
#else
template <class V>
TINYT_INLINE V gelu(V x) {
  return gelu_of_any(x);
}
#endif
template <class V>
TINYT_INLINE V gelu_backward(V g, V x) {
  const auto n = normal(x);
  // 1 / sqrt(2 pi), as small as ratio.
  const V height = splat(static_cast<Element<V>>(0.39894228040143267794) / kBellScale<V>);
  // The slope of what is subtracted has the sign of -x.
  const V falling = fma(n.size, -height, n.ratio) * n.bell;
  return g * select(x > 0, 1 - falling, falling);
}

// ---- x sigmoid(u): silu, and gelu's approximation

// sigmoid(u) and its derivative, which does not cancel.
template <class V>
struct SigmoidParts {
  V value, slope;
};
template <class V>
TINYT_INLINE SigmoidParts<V> sigmoid_parts(V u) {
  const V e = exp(-abs(u)), r = 1 / (1 + e), er = e * r;
  return {select(u < 0, er, r), er * r};
}

template <class V>
TINYT_INLINE V silu(V x) {
  return x / (1 + exp(-x));
}
template <class V>
TINYT_INLINE V silu_backward(V g, V x) {
  const auto s = sigmoid_parts(x);
  return g * fma(x, s.slope, s.value);
}

// 0.5 x (1 + tanh(u)) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline constexpr double kGeluLinear = 1.5957691216057307118;  // of 2 u
inline constexpr double kGeluCubic = kGeluLinear * 0.044715;

template <class V>
TINYT_INLINE V gelu_tanh(V x) {
  using T = Element<V>;
  const V slope = fma(x * x, splat(static_cast<T>(kGeluCubic)), splat(static_cast<T>(kGeluLinear)));
  return x / (1 + exp(-(x * slope)));
}
template <class V>
TINYT_INLINE V gelu_tanh_backward(V g, V x) {
  using T = Element<V>;
  const V c = clamp(x, -100, 100), z = c * c;  // beyond, the slope is 0 or 1
  const V linear = splat(static_cast<T>(kGeluLinear));
  const auto s = sigmoid_parts(c * fma(z, splat(static_cast<T>(kGeluCubic)), linear));
  const V inner = c * fma(z, splat(static_cast<T>(3 * kGeluCubic)), linear);
  return g * fma(inner, s.slope, s.value);
}

// ---- mish

// tanh(log(1 + e)) = n / (n + 2) with e = e^x, n = e^2 + 2 e; 1 to all digits from x = 22 on.
template <class V>
struct MishParts {
  V x, e, n;
};
template <class V>
TINYT_INLINE MishParts<V> mish_parts(V x) {
  const V c = select(x > 22, splat(static_cast<Element<V>>(22)), x), e = exp(c);
  return {c, e, fma(e, e, 2 * e)};
}
template <class V>
TINYT_INLINE V mish(V x) {
  const auto p = mish_parts(x);
  return x * (p.n / (p.n + 2));
}
template <class V>
TINYT_INLINE V mish_backward(V g, V x) {
  const auto p = mish_parts(x);
  const V r = 1 / (p.n + 2);
  return g * (r * (p.n + p.x * (4 * (p.e * (p.e + 1) * r))));  // 4 x may overflow
}

// ---- elu

// e^x - 1 for x <= 0; 0 above.
TINYT_INLINE F32 expm1_below(F32 x) {
  const F32 t = clamp(x, -40.0f, 0.0f);
  I32 k;
  const F32 n = nearest(t * kLog2E32, k);
  const F32 r = fma(n, splat(-kLn2Lo32), fma(n, splat(-kLn2Hi32), t));
  const F32 s = pow2(k);
  return copysign(fma(s, fma(r * r, poly(r, kExp32), r), s - 1.0f), t);
}
TINYT_INLINE F64 expm1_below(F64 x) { return expm1(select(x > 0.0, F64{}, x)); }

template <class V>
TINYT_INLINE V elu(V x, V alpha) {
  return select(x > 0, x, alpha * expm1_below(x));
}
template <class V>
TINYT_INLINE V elu_backward(V g, V x, V alpha) {
  return select(x > 0, g, g * (alpha * exp(x)));
}

// ---- softplus, logsigmoid

// log(1 + e) for e in [0, 1]: as log, where the power of two is 1 or 2.
TINYT_INLINE F32 log1p_unit(F32 e) {
  const I32 above = (I32)(e > 0.41421356f);
  const F32 f = select(above, 0.5f * e - 0.5f, e), ff = f * f;
  const F32 k = select(above, splat(1.0f), F32{});
  const F32 tail = fma(ff * f, poly(f, kLog32), k * kLn2Lo32) - 0.5f * ff;
  return fma(k, splat(kLn2Hi32), f + tail);
}
TINYT_INLINE F64 log1p_unit(F64 e) { return log1p(e); }

template <class V>
TINYT_INLINE V softplus(V x, V beta, V threshold) {
  const V z = x * beta;
  const V soft = select(z > 0, z, V{}) + log1p_unit(exp(-abs(z)));
  return select(z > threshold, x, soft / beta);
}
// z is beta x.
template <class V>
TINYT_INLINE V softplus_backward(V g, V z, V threshold) {
  return select(z > threshold, g, g * sigmoid(z));
}
template <class V>
TINYT_INLINE V logsigmoid(V x) {
  return select(x < 0, x, V{}) - log1p_unit(exp(-abs(x)));
}

// (1 - t) x - log(sigmoid(x)); on neither side of 0 anything cancels.
template <class V>
TINYT_INLINE V sigmoid_nll(V x, V t) {
  const V slope = select(x < 0, -t, 1 - t);
  return slope * x + log1p_unit(exp(-abs(x)));
}
// sigmoid(x) - t; where x is positive, of the complements of both.
template <class V>
TINYT_INLINE V sigmoid_nll_backward(V g, V x, V t) {
  const V tail = sigmoid(-abs(x));
  return g * select(x < 0, tail - t, (1 - t) - tail);
}

// ---- piecewise

// x / 6 of a small x; rounded once, as the quotient is: Markstein, "Computation of elementary
// functions on the IBM RISC System/6000 processor" (1990).
template <class V>
TINYT_INLINE V sixth(V x) {
  if constexpr (!kHasFma) return x / 6;
  const V c = splat(static_cast<Element<V>>(1.0 / 6)), q = x * c;
  return fma(fma(q, splat(static_cast<Element<V>>(-6)), x), c, q);
}

template <class V>
TINYT_INLINE V hardsigmoid(V x) {
  return sixth(clamp(x + 3, 0, 6));
}
template <class V>
TINYT_INLINE V hardsigmoid_backward(V g, V x) {
  return select((x > -3) & (x < 3), sixth(g), V{});
}
template <class V>
TINYT_INLINE V hardswish(V x) {
  return x * hardsigmoid(x);
}
template <class V>
TINYT_INLINE V hardswish_backward(V g, V x) {
  using T = Element<V>;
  const V slope = fma(x, splat(static_cast<T>(1.0 / 3)), splat(static_cast<T>(0.5)));
  return select(x <= -3, V{}, select(x >= 3, g, g * slope));
}

template <class V>
TINYT_INLINE V leaky_relu(V x, V slope) {
  return select(x > 0, x, x * slope);
}
template <class V>
TINYT_INLINE V leaky_relu_backward(V g, V x, V slope) {
  return select(x > 0, g, g * slope);
}

}  // namespace
}  // namespace tinyt::cpu
