// sin, cos, tan.
#pragma once

#include "cpu/math/math_basic.h"

namespace tinyt::cpu {
namespace {

// x = quadrant pi/2 + hi + lo, |hi| <= pi/4.
struct Angle {
  F64 hi, lo;
  I64 quadrant;
};

// pi/2 in parts of 33 bits, so that a multiple up to 2^20 of each is exact; the last is rounded.
inline constexpr double kHalfPi[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2ep-69,
                                     0x1.b839a252049c1p-104};
inline constexpr double kHalfPiHi = 0x1.921fb54442d18p+0, kHalfPiLo = 0x1.1a62633145c07p-54;
inline constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
inline constexpr double kSmallAngle = 0x1p20;

// The bits of 2/pi after the point, behind 64 zeros.
inline constexpr uint64_t kTwoOverPiBits[] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
};

// 64 bits of the table from bit `at` on.
template <class U>
TINYT_INLINE U bits_from(U at) {
  const U word = at >> 6, shift = at & 63;
  const U next = lookup(kTwoOverPiBits, word + 1);
  return lookup(kTwoOverPiBits, word) << shift | next >> 1 >> (63 - shift);
}

// x 2/pi = quadrant + (hi + lo) mod 4, |hi + lo| <= 1/2, for finite |x| >= kSmallAngle, by Payne
// and Hanek ("Radian reduction for trigonometric functions", 1983): of the product of the mantissa
// with 2/pi only the 192 bits that matter modulo 4 are computed. Of one lane: a double and 64-bit
// integers, or their traces.
template <class U, class D, class I>
TINYT_INLINE void large_angle(D x, D& hi, D& lo, I& quadrant) {
  const U none = 0, one = 1, bits = bit_cast<U>(x);
  const U at = (bits >> 52 & 0x7FF) - (1075 - 62);
  const U mantissa = (bits & 0xFFFFFFFFFFFFF) | 0x10000000000000;
  const U first = bits_from<U>(at), second = bits_from<U>(at + 64), third = bits_from<U>(at + 128);
  const U low = mantissa * third, part = mantissa * second;
  const U middle = part + high_product(mantissa, third);
  const U carry = select(middle < part, one, none);
  const U high = mantissa * first + high_product(mantissa, second) + carry;
  // Two bits of quadrant, then the fraction; above a half it counts down from the next quadrant.
  const U up_top = high << 2 | middle >> 62, up_bottom = middle << 2 | low >> 62;
  const auto down = up_top >> 63 != 0, negative = x < 0;
  const U top = select(down, ~up_top + select(up_bottom == 0, one, none), up_top);
  const U bottom = select(down, none - up_bottom, up_bottom);
  // Without the zeros that it begins with; of its upper half alone, if there are more.
  const auto low_alone = top == 0;
  const U zeros =
      leading_zeros(top | select(low_alone, one, none)) & select(low_alone, none, ~none);
  const U shifted = top << zeros | bottom >> 1 >> (63 - zeros);
  const U upper = select(low_alone, bottom, shifted);
  const U lower = select(low_alone, none, bottom << zeros);
  const U exponent = 1023 - 64 - select(low_alone, none + 64, zeros);
  const D size = bit_cast<D>(exponent << 52), unit = select(down != negative, -size, size);
  hi = to_double(upper >> 11 << 11) * unit;
  lo = to_double(upper << 53 | lower >> 11) * unit * 0x1p-53;
  const I count = (I)(high >> 62) + (I)select(down, one, none);
  quadrant = select(negative, -count, count);
}

// Lane by lane, where |x| is large; not inlined: rare. Of other lanes, anything.
#if defined(TINYT_TRACE_SINGLE)  // of float32: reduce_large_single
inline void large_angles(F64, I64, Two<F64>&, I64&) {}
#elif defined(TINYT_TRACE)
inline void large_angles(F64 x, I64 large, Two<F64>& y, I64& quadrant) {
  large_angle<U64>(select(large, x, splat(kSmallAngle)), y.hi, y.lo, quadrant);
}
#else
TINYT_OUTLINE void large_angles(F64 x, I64 large, Two<F64>& y, I64& quadrant) {
  for (int i = 0; i < kLanes<F64>; ++i) {
    if (large[i] == 0) continue;
    double hi, lo;
    int64_t turn;
    large_angle<uint64_t>(double{x[i]}, hi, lo, turn);
    y.hi[i] = hi;
    y.lo[i] = lo;
    quadrant[i] = turn;
  }
}
#endif

// Replaces the lanes of `angle` where |x| is large.
TINYT_INLINE void reduce_large_lanes(F64 x, Angle& angle) {
  const I64 large = (I64)(abs(x) > kSmallAngle) & (I64)(abs(x) < __builtin_inf());
  if (kDoubleWords || !any(large)) return;
  Two<F64> turn = {};
  I64 quadrant = {};
  large_angles(x, large, turn, quadrant);
  Two<F64> y = two_prod(turn.hi, splat(kHalfPiHi));
  y.lo += turn.hi * kHalfPiLo + turn.lo * kHalfPiHi;
  y = fast_two_sum(y.hi, y.lo);
  angle.hi = select(large, y.hi, angle.hi);
  angle.lo = select(large, y.lo, angle.lo);
  angle.quadrant = select(large, quadrant, angle.quadrant);
}

TINYT_INLINE Angle reduce_angle(F64 x) {
  Angle a;
  const F64 n = nearest(x * kTwoOverPi, a.quadrant);
  const Two<F64> r = two_sum(x - n * kHalfPi[0], -(n * kHalfPi[1]));
  const Two<F64> s = two_sum(r.hi, -(n * kHalfPi[2]));
  const Two<F64> y = fast_two_sum(s.hi, (s.lo + r.lo) - n * kHalfPi[3]);
  a.hi = y.hi;
  a.lo = y.lo;
  reduce_large_lanes(x, a);
  return a;
}

// One part is enough for the 24 bits of a float32.
TINYT_INLINE Angle reduce_single_angle(F64 x) {
  Angle a;
  const F64 n = nearest(x * kTwoOverPi, a.quadrant);
  a.hi = (x - n * kHalfPi[0]) - n * 0x1.0b4611a626331p-34;
  a.lo = F64{};
  reduce_large_lanes(x, a);
  return a;
}

// (sin(y) / y - 1) / y^2 and (cos(y) - 1 + y^2 / 2) / y^4 as polynomials in y^2, |y| <= pi/4;
// relative errors of sin and cos 2^-58, 2^-64, and 2^-37, 2^-43 for float32.
inline constexpr double kSin[] = {-0x1.5555555555549p-3,  0x1.111111110f898p-7,
                                  -0x1.a01a019c13f10p-13, 0x1.71de3578e9de6p-19,
                                  -0x1.ae5e66ad1bc03p-26, 0x1.5d93051048110p-33};
inline constexpr double kCos[] = {0x1.555555555554cp-5,  -0x1.6c16c16c1523ep-10,
                                  0x1.a01a019cc1923p-16, -0x1.27e4f813c8644p-22,
                                  0x1.1ee9f1c39f762p-29, -0x1.8fb14b7be50d7p-37};
inline constexpr double kSinSingle[] = {-0x1.5555554cbefc0p-3, 0x1.1111089728608p-7,
                                        -0x1.a00f9d0f2b841p-13, 0x1.6cd801a98bdfbp-19};
inline constexpr double kCosSingle[] = {0x1.5555554f5b9b3p-5, -0x1.6c16b8a33655ep-10,
                                        0x1.a01125403babbp-16, -0x1.242b9f4b54b3bp-22};

// sin(hi + lo), cos(hi + lo) from their first terms and polynomials of hi^2.
TINYT_INLINE F64 sin_near_zero(const Angle& a, F64 z, F64 p) {
  const F64 cube = z * a.hi;
  return a.hi + (fma(cube, p, a.lo) - 0.5 * z * a.lo);
}
TINYT_INLINE F64 cos_near_zero(const Angle& a, F64 z, F64 p) {
  const F64 half_square = 0.5 * z, w = 1.0 - half_square;
  return w + (((1.0 - w) - half_square) + fma(z * z, p, -(a.hi * a.lo)));
}

// sin of the angle, turned by `shift` quadrants.
template <int N>
TINYT_INLINE F64 turned_sin(const Angle& a, int64_t shift, const double (&sin_c)[N],
                            const double (&cos_c)[N]) {
  const F64 z = a.hi * a.hi;
  const I64 q = a.quadrant + shift;
  const F64 s = sin_near_zero(a, z, poly(z, sin_c)), c = cos_near_zero(a, z, poly(z, cos_c));
  const F64 y = select((q & 1) != 0, c, s);
  return turn_sign(y, q);
}

// tan of the angle: sin / cos, or -cos / sin in odd quadrants.
template <int N>
TINYT_INLINE F64 tan_of(const Angle& a, const double (&sin_c)[N], const double (&cos_c)[N]) {
  const F64 z = a.hi * a.hi;
  const F64 s = sin_near_zero(a, z, poly(z, sin_c)), c = cos_near_zero(a, z, poly(z, cos_c));
  const I64 odd = (I64)((a.quadrant & 1) != 0);
  return select(odd, -c, s) / select(odd, s, c);
}

TINYT_INLINE F64 cos(F64 x) { return turned_sin(reduce_angle(x), 1, kSin, kCos); }
TINYT_INLINE F64 sin(F64 x) {
  return select(x == 0.0, x, turned_sin(reduce_angle(x), 0, kSin, kCos));
}
TINYT_INLINE F64 tan(F64 x) { return select(x == 0.0, x, tan_of(reduce_angle(x), kSin, kCos)); }

// ---- float32

// In float64, whatever the size.
template <int Shift>
TINYT_OUTLINE F32 turned_sin_through_double(F32 x) {
  const F32 y = through_double(
      x, [](F64 d) { return turned_sin(reduce_single_angle(d), Shift, kSinSingle, kCosSingle); });
  if constexpr (Shift == 0) return select(x == 0.0f, x, y);
  return y;
}
TINYT_OUTLINE F32 tan_through_double(F32 x) {
  const F32 y = through_double(
      x, [](F64 d) { return tan_of(reduce_single_angle(d), kSinSingle, kCosSingle); });
  return select(x == 0.0f, x, y);
}

// x = quadrant pi/2 + y + low, |y| <= pi/4, for |x| <= 2^17 and with a fused multiply-add: the
// difference of x from a multiple of the first part of pi/2 is exact, and so is that of it from y.
// Next to a few multiples of pi/2, low is more than half an ulp of y. With a second part above 0, a
// zero keeps its sign.
inline constexpr float kSmallAngle32 = 0x1p17f;
inline constexpr float kHalfPi32[] = {0x1.921fb4p+0f, 0x1.4442d2p-24f, -0x1.ee59dap-50f};

struct SmallAngle {
  F32 y, low;
  I32 quadrant;  // its lowest two bits
};
TINYT_INLINE SmallAngle reduce_small_angle(F32 x) {
  // The integer lies in the lowest bits of `shifted`, as in nearest().
  const F32 shifted = fma(x, splat(static_cast<float>(kTwoOverPi)), splat(0x1.8p23f));
  const F32 n = shifted - 0x1.8p23f;
  const F32 first = fma(n, splat(-kHalfPi32[0]), x), y = first - n * kHalfPi32[1];
  const F32 rest = fma(n, splat(-kHalfPi32[1]), first - y);
  return {y, fma(n, splat(-kHalfPi32[2]), rest), bit_cast<I32>(shifted)};
}
// The words of 2/pi after the point, behind 32 zeros.
inline constexpr uint32_t kTwoOverPiWords[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                               0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

// The upper half of a product of integers, by halves of both.
TINYT_INLINE U32 upper_product(U32 a, U32 b) {
  const U32 a_low = a & 0xFFFF, a_high = a >> 16, b_low = b & 0xFFFF, b_high = b >> 16;
  const U32 cross = a_high * b_low + (a_low * b_low >> 16);
  const U32 other = a_low * b_high + (cross & 0xFFFF);
  return a_high * b_high + (cross >> 16) + (other >> 16);
}

// As reduce_small_angle, of any finite |x| >= 2^6, in 32-bit integers, for machines without
// float64: Payne and Hanek's method as in large_angle, but of a mantissa of 24 bits. Of 2/pi, 96
// bits matter: below those that count whole turns, down to 2^-70, where x 2/pi is no nearer to a
// whole number than 2^-34. |low| <= ulp(y) / 2.
TINYT_INLINE SmallAngle reduce_large_single(F32 x) {
  const U32 bits = bit_cast<U32>(abs(x)), at = (bits >> 23) - 120, shift = at & 31;
  const U32 mantissa = (bits & 0x7FFFFF) | 0x800000;
  // The words from at / 32 on, which is at most 4: by selects, as a table would have to be in
  // memory.
  U32 word[8];
  for (int i = 0; i < 8; ++i) word[i] = U32{} + kTwoOverPiWords[i];
  for (int step = 4; step > 0; step /= 2) {
    const I32 far = (I32)((at & (32u * step)) != 0);
    for (int i = 0; i + step < 8; ++i) word[i] = select(far, word[i + step], word[i]);
  }
  for (int i = 0; i < 3; ++i) word[i] = word[i] << shift | word[i + 1] >> 1 >> (31 - shift);
  // The product modulo 4: two bits of quadrant, then the fraction.
  const U32 low = mantissa * word[2], part = mantissa * word[1];
  const U32 middle = part + upper_product(mantissa, word[2]);
  const U32 carry = select((I32)(middle < part), U32{} + 1, U32{});
  const U32 high = mantissa * word[0] + upper_product(mantissa, word[1]) + carry;
  const U32 top = high << 2 | middle >> 30, bottom = middle << 2 | low >> 30, up = top >> 31;
  // Three exact floats; above a half without 1, from the next quadrant.
  const auto exact = [](U32 k) { return to_float((I32)k); };
  const F32 first = exact(top >> 8) * 0x1p-24f - exact(up);
  const F32 second = exact((top & 0xFF) << 16 | bottom >> 16) * 0x1p-48f;
  const Two<F32> sum = fast_two_sum(first, second);
  const Two<F32> turn = fast_two_sum(sum.hi, fma(exact(bottom & 0xFFFF), splat(0x1p-64f), sum.lo));
  const F32 y = turn.hi * 0x1.921fb6p+0f;
  const F32 rest = fma(turn.hi, splat(0x1.921fb6p+0f), -y);
  const F32 more = fma(turn.lo, splat(0x1.921fb6p+0f), turn.hi * -0x1.777a5cp-25f);
  const Two<F32> angle = fast_two_sum(y, rest + more);
  const I32 sign = sign_bit(x);
  const auto with_sign = [&](F32 z) { return bit_cast<F32>(bit_cast<I32>(z) ^ sign); };
  const F32 nan_of_infinity = x - x;
  return {with_sign(angle.hi) + nan_of_infinity, with_sign(angle.lo), (I32)((high >> 30) + up)};
}
// By the first up to `most`, else by the second; with float64, functions above have those lanes.
TINYT_INLINE SmallAngle reduce_angle(F32 x, float most) {
  const SmallAngle small = reduce_small_angle(x);
  if constexpr (!kDoubleWords) return small;
  const SmallAngle large = reduce_large_single(x);
  const I32 far = (I32)(abs(x) > most);
  return {select(far, large.y, small.y), select(far, large.low, small.low),
          select(far, large.quadrant, small.quadrant)};
}
// (y + low)^2.
TINYT_INLINE F32 square_of(const SmallAngle& a) { return fma(a.y, a.y, (a.y + a.y) * a.low); }

// (sin(y) / y - 1) / y^2, (cos(y) - 1) / y^2 and (y / tan(y) - 1) / y^2 as polynomials in y^2;
// relative errors of sin, cos and tan 2^-27.9, 2^-33, 2^-27.3.
inline constexpr float kSin32[] = {-0x1.555546p-3f, 0x1.110778p-7f, -0x1.9953fep-13f};
inline constexpr float kCos32[] = {-0.5f, 0x1.55554ap-5f, -0x1.6c0c28p-10f, 0x1.99e80cp-16f};
inline constexpr float kCot32[] = {-0x1.555542p-2f, -0x1.6c28dap-6f, -0x1.12c37cp-9f,
                                   -0x1.04401ep-12f};

// sin(x + Shift pi/2).
template <int Shift>
TINYT_INLINE F32 turned_sin(F32 x) {
  if constexpr (!kHasFma) return turned_sin_through_double<Shift>(x);
  const F32 size = abs(x);
  const SmallAngle a = reduce_angle(size, kSmallAngle32);
  const F32 z = square_of(a);
  const F32 s = a.y + fma(z * a.y, horner(z, kSin32), a.low);
  const F32 c = fma(z, horner(z, kCos32), splat(1.0f));
  const I32 q = (I32)(wrap(a.quadrant) + Shift);
  const I32 sign = Shift == 0 ? (q << 30) ^ bit_cast<I32>(x) : q << 30;  // sin is odd, cos even
  const F32 y = select((q & 1) != 0, c, s);
  const F32 signed_y = bit_cast<F32>(bit_cast<I32>(y) ^ (sign & INT32_MIN));
  if (kDoubleWords || !any_above(size, kSmallAngle32)) return signed_y;
  return select(size > kSmallAngle32, turned_sin_through_double<Shift>(x), signed_y);
}
TINYT_INLINE F32 cos(F32 x) { return turned_sin<1>(x); }
TINYT_INLINE F32 sin(F32 x) { return turned_sin<0>(x); }

// y / c or, in odd quadrants, -c / y, for c = y / tan(y): a quotient, and what is left of it and of
// the lower parts. Beyond this size the lower part of y may be too large for that.
inline constexpr float kSmallTangent32 = 0x1p8f;

TINYT_INLINE F32 tan(F32 x) {
  if constexpr (!kHasFma) return tan_through_double(x);
  const SmallAngle a = reduce_angle(x, kSmallTangent32);
  const F32 z = square_of(a), p = horner(z, kCot32);
  const F32 c = fma(z, p, splat(1.0f)), c_low = fma(z, p, 1.0f - c);
  const I32 parity = a.quadrant << 31, odd = (I32)(parity < 0);
  const F32 above = select(odd, c, a.y), above_low = select(odd, c_low, a.low);
  const F32 below = select(odd, a.y, c), below_low = select(odd, a.low, c_low);
  // With the other sign, as fma has a negative factor then for nothing.
  const F32 inverse = -1.0f / below, t = above * inverse;
  const F32 rest = fma(t, below_low, fma(t, below, above) + above_low);
  const F32 y = fma(rest, inverse, t);
  const F32 signed_y = bit_cast<F32>(bit_cast<I32>(y) ^ (parity ^ INT32_MIN)), size = abs(x);
  if (kDoubleWords || !any_above(size, kSmallTangent32)) return signed_y;
  return select(size > kSmallTangent32, tan_through_double(x), signed_y);
}

}  // namespace
}  // namespace tinyt::cpu
