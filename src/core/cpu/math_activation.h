// Activation functions and their gradients: `name_backward(g, x)` is g times the slope at x.
#pragma once

#include "math_erf.h"

namespace tinyt::cpu {
namespace {

// ---- gelu: x Phi(x), Phi the normal distribution function

// Phi(-a) e^(a^2/2) / (1 - u) as a polynomial in u = (a - 2.875) / (a + 2.875), a in [0, 14.5];
// relative error 2^-24.5. The sum stays below 16, above which it would lose a bit more, until the
// results are subnormal.
inline constexpr float kNormalTail32[] = {
    0x1.01f838p-3f,  -0x1.5ed44ep-4f, 0x1.264782p-5f,   -0x1.66355cp-8f,  -0x1.43764ap-9f,
    0x1.e24b24p-11f, 0x1.58eb5ap-12f, -0x1.dde206p-14f, -0x1.eb7182p-15f, -0x1.7e9e14p-20f};

// The tail Phi(-|x|) is ratio bell: a factor of its own for what would underflow in it.
template <class V>
struct Normal {
  V size;  // |x|, limited to where the tail is not 0, so that infinities give the limits
  V ratio;
  V bell;  // e^(-x^2/2)
};

// e^(-a^2/2), a <= 14.5, from the exact square: in the tail, its rounding would be the error of the
// result.
TINYT_INLINE F32 bell_of(F32 a) {
  const F32 h = -0.5f * a;
  I32 k;
  const F32 n = nearest_product(h * a, kLog2E32, k);
  if constexpr (kHasFma) {
    const F32 r = fma(n, splat(-kLn2Lo32), fma(h, a, n * -kLn2Hi32));
    return scale(exp_reduced(r), n, k);
  }
  // a^2 = upper^2 + (a - upper) (a + upper), of which the first is exact.
  const F32 upper = bit_cast<F32>(bit_cast<I32>(a) & ~0xFFF), g = -0.5f * upper;
  const F32 rest = (a - upper) * (h + g) - n * kLn2Lo32;
  return scale(exp_reduced((g * upper - n * kLn2Hi32) + rest), n, k);
}
TINYT_INLINE Normal<F32> normal(F32 x) {
  const F32 a = at_most(abs(x), splat(14.5f));
  const F32 u = (a - 2.875f) / (a + 2.875f);
  return {a, horner(u, kNormalTail32) * (1.0f - u), bell_of(a)};
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
TINYT_INLINE V gelu(V x) {
  const auto n = normal(x);
  return fma(-(n.size * n.ratio), n.bell, at_least(x, splat(static_cast<Element<V>>(-0.0))));
}
template <class V>
TINYT_INLINE V gelu_backward(V g, V x) {
  const auto n = normal(x);
  const V height = splat(static_cast<Element<V>>(0.39894228040143267794));  // 1 / sqrt(2 pi)
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
  return g * (r * (p.n + 4 * p.x * (p.e * (p.e + 1) * r)));
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
  return select(x <= 0, g * (alpha * exp(x)), g);
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
  return select(x <= -3, V{}, select(x < 3, g * slope, g));
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
