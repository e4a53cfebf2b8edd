// Double-word arithmetic in the place of F64, for definitions in float32 alone: a number is an
// unevaluated sum of two float32 values, of which the second is at most half an ulp of the first.
// It has 48 bits and the range of float32, so the algorithms of math_*.h for F64 give float32
// results with it. I64 and U64 are masks, exponents and quadrants beside it: 32 bits.
//
// Algorithms: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks
// of double-word arithmetic" (2017). Sums are the "sloppy" ones, whose error is 2^-46 of the larger
// operand: float32 results need 2^-30. Infinities and NaNs stay what they are, with 0 as second
// part; zeros keep their sign in products, not in sums.
#pragma once

#include <cmath>

#include "cpu/simd/simd_trace.h"

namespace tinyt::cpu {
namespace {

class DoubleWord {
 public:
  using Mask = I64;

  DoubleWord() = default;  // 0
  template <Number S>
  DoubleWord(S x) {  // NOLINT: a literal
    const auto d = static_cast<double>(x);
    const auto first = static_cast<float>(d);
    const double rest = d - double{first};
    hi = first;  // beyond the range an infinity
    if (rest == 0 || !std::isfinite(first)) return;
    lo = static_cast<float>(rest);
    single = false;
  }
  explicit DoubleWord(F32 x) : hi(x) {}
  DoubleWord(F32 high, F32 low) : hi(high), lo(low), single(false) {}

  F32 hi, lo;
  bool single = true;  // lo is 0: operations are shorter

  friend DoubleWord operator+(DoubleWord a, DoubleWord b) {
    if (a.is_zero()) return b;
    if (b.is_zero()) return a;
    const auto [s, e] = exact_sum(a.hi, b.hi);
    if (a.single && b.single) return finite_low(s, e);
    return normal(s, e + sum_of_low(a, b));
  }
  friend DoubleWord operator-(DoubleWord a) {
    return a.single ? DoubleWord(-a.hi) : DoubleWord(-a.hi, -a.lo);
  }
  friend DoubleWord operator-(DoubleWord a, DoubleWord b) { return a + -b; }
  friend DoubleWord operator*(DoubleWord a, DoubleWord b) {
    if (b.is_power_of_two()) return a.scaled(b.hi);
    if (a.is_power_of_two()) return b.scaled(a.hi);
    const auto [p, e] = product(a, b);
    return a.single && b.single ? finite_low(p, e) : normal(p, e);
  }
  friend DoubleWord operator/(DoubleWord a, DoubleWord b) {
    const F32 q = a.hi / b.hi;
    F32 rest = fma(-q, b.hi, a.hi);
    if (!a.single) rest += a.lo;
    if (!b.single) rest = fma(-q, b.lo, rest);
    return normal(q, rest / b.hi);
  }
  DoubleWord& operator+=(DoubleWord b) { return *this = *this + b; }
  DoubleWord& operator-=(DoubleWord b) { return *this = *this - b; }
  DoubleWord& operator*=(DoubleWord b) { return *this = *this * b; }
  DoubleWord& operator/=(DoubleWord b) { return *this = *this / b; }

  friend Mask operator==(DoubleWord a, DoubleWord b) {
    const I32 high = a.hi == b.hi;
    return as_mask(a.single && b.single ? high : high & (a.lo == b.lo));
  }
  friend Mask operator!=(DoubleWord a, DoubleWord b) {
    const I32 high = a.hi != b.hi;
    return as_mask(a.single && b.single ? high : high | (a.lo != b.lo));
  }
  friend Mask operator<(DoubleWord a, DoubleWord b) {
    const I32 high = a.hi < b.hi;
    if (a.single && b.single) return as_mask(high);
    return as_mask(high | ((a.hi == b.hi) & (a.lo < b.lo)));
  }
  friend Mask operator<=(DoubleWord a, DoubleWord b) {
    if (a.single && b.single) return as_mask(a.hi <= b.hi);
    return as_mask((a.hi < b.hi) | ((a.hi == b.hi) & (a.lo <= b.lo)));
  }
  friend Mask operator>(DoubleWord a, DoubleWord b) { return b < a; }
  friend Mask operator>=(DoubleWord a, DoubleWord b) { return b <= a; }

  // a b + c.
  friend DoubleWord fma(DoubleWord a, DoubleWord b, DoubleWord c) {
    const auto [s, e] = fused(a, b, c);
    return normal(s, e);
  }
  // The same where nothing is infinite.
  friend DoubleWord finite_fma(DoubleWord a, DoubleWord b, DoubleWord c) {
    const auto [s, e] = fused(a, b, c);
    const F32 high = s + e;
    return {high, e - (high - s)};
  }

  friend DoubleWord sqrt(DoubleWord x) {
    const F32 root = sqrt(x.hi);
    F32 rest = fma(-root, root, x.hi);
    if (!x.single) rest += x.lo;
    return normal(root, rest / (root + root));
  }

 private:
  struct Sum {
    F32 s, e;
  };
  static Mask as_mask(I32 x) { return Mask::of(x.raw()); }
  bool is_zero() const { return single && hi.node() == F32(0).node(); }
  bool is_power_of_two() const {
    constexpr uint64_t kMantissa = 0x7FFFFF;
    const auto& node = builder->node(hi.node());
    return single && node.op == MachineOp::constant && (node.bits & kMantissa) == 0 &&
           node.bits >> 23 != 0 && (node.bits >> 23 & 0xFF) != 0xFF;
  }
  DoubleWord scaled(F32 power) const {
    return single ? DoubleWord(hi * power) : DoubleWord(hi * power, lo * power);
  }

  static F32 sum_of_low(DoubleWord a, DoubleWord b) {
    if (a.single) return b.lo;
    return b.single ? a.lo : a.lo + b.lo;
  }
  static Sum exact_sum(F32 a, F32 b) {
    const F32 s = a + b, bb = s - a;
    return {s, (a - (s - bb)) + (b - bb)};
  }
  static Sum product(DoubleWord a, DoubleWord b) {
    const F32 p = a.hi * b.hi;
    F32 e = fma(a.hi, b.hi, -p);
    if (!a.single) e = fma(a.lo, b.hi, e);
    if (!b.single) e = fma(a.hi, b.lo, e);
    return {p, e};
  }
  static Sum fused(DoubleWord a, DoubleWord b, DoubleWord c) {
    const auto [p, rest] = product(a, b);
    const auto [s, e] = exact_sum(p, c.hi);
    return {s, e + (c.single ? rest : rest + c.lo)};
  }
  // s + e for |e| well below |s|; s alone where the error of an infinity or of 0 / 0 is a NaN.
  static DoubleWord normal(F32 s, F32 e) {
    const F32 high = s + e, low = e - (high - s);
    const I32 is_number = low == low;
    return {select(is_number, high, s), select(is_number, low, F32())};
  }
  static DoubleWord finite_low(F32 s, F32 e) { return {s, select(e == e, e, F32())}; }
};

using F64 = DoubleWord;

template <>
struct VecTraits<DoubleWord> {
  using Element = double;
};

inline F64 splat(double x) { return x; }

template <class M>
F64 select(Traced<M> mask, F64 a, F64 b) {
  const F32 high = select(mask, a.hi, b.hi);
  return a.single && b.single ? F64(high) : F64(high, select(mask, a.lo, b.lo));
}

inline I32 as_i32(I64 x) { return I32::of(x.raw()); }
inline I64 as_i64(I32 x) { return I64::of(x.raw()); }

// Where half is in the second part alone, either neighbour.
template <Rounding R>
F64 round_to(F64 x) {
  const F32 high = round_to<R>(x.hi);
  if (x.single) return F64(high);
  const F32 low = select(high == x.hi, round_to<R>(x.lo), F32());
  return F64(high) + F64(low);
}
// As those of simd_values.h; |x| < 2^22.
inline F64 nearest(F64 x, I64& k) {
  const F32 shifted = x.hi + 0x1.8p23f;
  k = as_i64((I32)(bit_cast<U32>(shifted) - 0x4B400000));
  return F64(shifted - 0x1.8p23f);
}
inline F64 to_float(I64 k) { return F64(converted<F32>(as_i32(k))); }

// x with its sign turned where the highest bit is set.
inline F64 turned(F64 x, I32 bit) {
  const auto turn = [&](F32 part) { return bit_cast<F32>(bit_cast<I32>(part) ^ bit); };
  return x.single ? F64(turn(x.hi)) : F64(turn(x.hi), turn(x.lo));
}
inline I64 sign_bit(F64 x) { return as_i64(bit_cast<I32>(x.hi) & INT32_MIN); }
inline F64 abs(F64 x) { return turned(x, as_i32(sign_bit(x))); }
inline F64 copysign(F64 x, F64 s) { return turned(x, as_i32(sign_bit(x) ^ sign_bit(s))); }

// Of NaNs one; of zeros either.
inline F64 maximum(F64 a, F64 b) { return select((a != a) | (a > b), a, b); }
inline F64 minimum(F64 a, F64 b) { return select((a != a) | (a < b), a, b); }

template <class F>
void each_value(F64& x, const F& f) {
  f(x.hi);
  f(x.lo);
  x.single = false;
}

// Two registers of four lanes: one element each.
struct F64Pair {
  F64 lo, hi;
};
inline F64Pair widen(F32 x) { return {F64(x), F64(x)}; }
inline F32 narrow(F64 lo, F64) { return lo.hi; }

}  // namespace
}  // namespace tinyt::cpu
