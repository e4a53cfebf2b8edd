// Shared by the functions of math_*.h: polynomials, powers of two, error-free arithmetic.
//
// Coefficients are minimax fits computed for the stated interval with the Remez exchange in
// multiple precision. Argument reductions follow Cody & Waite, "Software Manual for the Elementary
// Functions" (1980); sums and products of two parts follow Dekker (Numer. Math. 18, 1971).
#pragma once

#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

// c[0] + c[1] x + c[2] x^2 + ... as two Horner chains, of the even and the odd powers: half the
// latency of one. |x| <= 2^Reach; of interest to double words alone, see math_double_word.h.
template <int Reach = 0, class V, int N>
TINYT_INLINE V poly(V x, const Element<V> (&c)[N]) {
  const V z = x * x;
  V last = splat(c[N - 1]), other = splat(c[N - 2]);
#pragma GCC unroll 16
  for (int i = N - 3; i >= 0; --i) {
    const V next = fma(last, z, splat(c[i]));
    last = other;
    other = next;
  }
  return fma(last, x, other);
}

// The same as one chain: fewer instructions, where neighbouring registers fill the latency.
template <class V, int N>
TINYT_INLINE V horner(V x, const Element<V> (&c)[N]) {
  V y = splat(c[N - 1]);
#pragma GCC unroll 16
  for (int i = N - 2; i >= 0; --i) y = fma(y, x, splat(c[i]));
  return y;
}

#if TINYT_VECTOR_BYTES == 64
// A polynomial in d of each lane's own: x = k step + d, |d| <= step / 2, for k = 0 to 31. Two
// registers hold a coefficient of all 32.
template <int N>
TINYT_INLINE F32 piecewise(F32 x, float step, const float (&c)[N][32]) {
  // The integer lies in the lowest bits of `shifted`, as in nearest(); pick looks at 5 of them.
  const F32 shifted = fma(x, splat(1 / step), splat(0x1.8p23f));
  const F32 d = fma(shifted - 0x1.8p23f, splat(-step), x);
  F32 y = {};
#pragma GCC unroll 16
  for (int i = N - 1; i >= 0; --i) {
    const F32 own = pick(load<float>(c[i]), load<float>(c[i] + 16), bit_cast<I32>(shifted));
    y = i == N - 1 ? own : fma(y, d, own);
  }
  return y;
}
#endif

template <class V>
TINYT_INLINE V clamp(V x, Element<V> low, Element<V> high) {  // a NaN stays
  return at_most(at_least(x, splat(low)), splat(high));
}

// Integers as lanes in which arithmetic wraps (a NaN makes any exponent); others as they are.
template <class V>
TINYT_INLINE V wrap(V x) {
  return x;
}
TINYT_INLINE U32 wrap(I32 x) { return (U32)x; }
TINYT_INLINE U64 wrap(I64 x) { return (U64)x; }

// 2^k for k in the range of normal numbers.
TINYT_INLINE F32 pow2(I32 k) { return bit_cast<F32>((wrap(k) + 127) << 23); }

// k / 2 rounded down, |k| < 2^12 (64-bit arithmetic shifts are missing before AVX-512).
TINYT_INLINE I32 half(I32 k) { return k >> 1; }
TINYT_INLINE I64 half(I64 k) { return (I64)((wrap(k) + 4096) >> 1) - 2048; }

// An unevaluated sum, |lo| <= ulp(hi) / 2.
template <class V>
struct Two {
  V hi, lo;
};

// a + b exactly, |a| >= |b| or a == 0.
template <class V>
TINYT_INLINE Two<V> fast_two_sum(V a, V b) {
  const V s = a + b;
  return {s, b - (s - a)};
}

// a + b exactly (Knuth).
template <class V>
TINYT_INLINE Two<V> two_sum(V a, V b) {
  const V s = a + b;
  const V bb = s - a;
  return {s, (a - (s - bb)) + (b - bb)};
}

// x = 2^k m with m in [sqrt(1/2), sqrt(2)), for positive finite x.
template <class V>
struct Parts {
  V m, k;
};

TINYT_INLINE Parts<F32> split(F32 x) {
  const I32 tiny = (I32)(x < 0x1p-126f);
  const U32 bits = bit_cast<U32>(select(tiny, x * 0x1p24f, x));
  const I32 k = (I32)(bits - 0x3F3504F3) >> 23;
  return {bit_cast<F32>(bits - wrap(k << 23)), to_float(k + (tiny & -24))};
}

// ---- what looks at the bits of an F64

#if defined(TINYT_TRACE_SINGLE)
}  // namespace
}  // namespace tinyt::cpu
#include "cpu/math/math_double_word.h"
namespace tinyt::cpu {
namespace {
#else
TINYT_INLINE F64 pow2(I64 k) { return bit_cast<F64>((wrap(k) + 1023) << 52); }

TINYT_INLINE Parts<F64> split(F64 x) {
  const I64 tiny = (I64)(x < 0x1p-1022);
  const U64 bits = bit_cast<U64>(select(tiny, x * 0x1p54, x));
  constexpr uint64_t kBias = 2048;  // a logical shift stands for the arithmetic one
  const I64 k = (I64)((bits - 0x3FE6A09E667F3BCD + (kBias << 52)) >> 52) - kBias;
  return {bit_cast<F64>(bits - wrap(k << 52)), to_float(k + (tiny & -54))};
}

// y with its sign turned where bit 1 of q is set.
TINYT_INLINE F64 turn_sign(F64 y, I64 q) {
  return bit_cast<F64>(bit_cast<I64>(y) ^ ((q & 2) << 62));
}

// The upper 26 bits of x, rounded to nearest through the integer so that it cannot overflow early.
TINYT_INLINE F64 upper(F64 x) {
  return bit_cast<F64>((bit_cast<U64>(x) + (uint64_t{1} << 26)) & -(uint64_t{1} << 27));
}

// a * b exactly, away from the ends of the exponent range.
TINYT_INLINE Two<F64> two_prod(F64 a, F64 b) {
  const F64 p = a * b;
  if constexpr (kHasFma) return {p, fma(a, b, -p)};
  const F64 ah = upper(a), al = a - ah, bh = upper(b), bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}
#endif

#if TINYT_VECTOR_BYTES != 64  // AVX-512 has an instruction
// x * 2^k, rounded once; in two steps, so that results may be subnormal or overflow.
template <class V>
TINYT_INLINE V scale(V x, Mask<V> k) {
  const Mask<V> h = half(k), rest = (Mask<V>)(wrap(k) - wrap(h));
  return x * pow2(h) * pow2(rest);
}
// The same; `n` is k as a float, which AVX-512 takes.
template <class V>
TINYT_INLINE V scale(V x, V, Mask<V> k) {
  return scale(x, k);
}
#endif

// f on float32 lanes, computed in float64 and rounded once more.
template <class F>
TINYT_INLINE F32 through_double(F32 x, F f) {
  const F64Pair d = widen(x);
  return narrow(f(d.lo), f(d.hi));
}
template <class F>
TINYT_INLINE F32 through_double(F32 x, F32 y, F f) {
  const F64Pair a = widen(x), b = widen(y);
  return narrow(f(a.lo, b.lo), f(a.hi, b.hi));
}

// ---- double words at the lower end of float32's range, where second parts are subnormal: results
// are computed 2^64 times as large. With float64 there is nothing to do.

TINYT_INLINE F64 lifted(F64 x) {
  if constexpr (kDoubleWords) return x * 0x1p64;
  return x;
}
TINYT_INLINE F64 lowered(F64 x) {
  if constexpr (kDoubleWords) return scale(x, I64{} - 64);
  return x;
}
// y = f(x), or x where that is f(x) to all digits.
TINYT_INLINE F32 identity_near_zero(F32 x, F32 y) {
  if constexpr (kDoubleWords) return select(abs(x) < 0x1p-60f, x, y);
  return y;
}

}  // namespace
}  // namespace tinyt::cpu
