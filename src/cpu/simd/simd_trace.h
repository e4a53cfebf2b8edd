// The values of simd.h as nodes of a scalar definition: a function of math*.h, called with them
// once, leaves the list of its machine operations. Of the fma form, as with registers of 32 bytes.
//
// A question whether any lane is set is answered yes, so that what is computed for rare lanes is
// part of the list; selects, which stand behind such questions anyway, choose. The list says of
// which conditions that was asked.
//
// With TINYT_TRACE_SINGLE, F64 is double-word arithmetic of float32 (simd_double_word.h).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "core/ops/definition_builder.h"

#define TINYT_VECTOR_BYTES 32
#define TINYT_INLINE inline
#define TINYT_OUTLINE [[maybe_unused]]

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

// Whether F64 is made of two float32 values, and nothing has 64 bits.
#if defined(TINYT_TRACE_SINGLE)
inline constexpr bool kDoubleWords = true;
#else
inline constexpr bool kDoubleWords = false;
#endif

inline thread_local DefinitionBuilder* builder = nullptr;  // of the trace under way

template <class T>
concept Number = std::is_arithmetic_v<T>;

template <Number T>
constexpr ScalarType type_of() {
  static_assert(!kDoubleWords || !std::is_same_v<T, double>);
  constexpr bool kSigned = std::is_signed_v<T>;
  if constexpr (std::is_same_v<T, bool>) return ScalarType::Bool;
  if constexpr (std::is_floating_point_v<T>)
    return sizeof(T) == 4 ? ScalarType::F32 : ScalarType::F64;
  if constexpr (sizeof(T) == 1) return kSigned ? ScalarType::I8 : ScalarType::U8;
  if constexpr (sizeof(T) == 4 || kDoubleWords) return kSigned ? ScalarType::I32 : ScalarType::U32;
  return kSigned ? ScalarType::I64 : ScalarType::U64;
}
template <Number T>
uint64_t bits_of(T x) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(x);
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(x);
  if constexpr (std::is_integral_v<T>) return static_cast<uint64_t>(x);
}

// One element. Of a comparison the node is a Bool, for as long as it is used as one: as lanes, of
// which all bits are set or none, in arithmetic alone.
template <Number T>
class Traced {
 public:
  static constexpr ScalarType kType = type_of<T>();

  Traced() = default;  // 0
  template <Number S>
  Traced(S x) : node_(builder->constant(kType, bits_of(static_cast<T>(x)))) {}  // NOLINT: a literal
  // The same bits, as a cast of vectors.
  template <Number S>
    requires(sizeof(S) == sizeof(T) && !std::is_same_v<S, T>)
  explicit Traced(Traced<S> x)
      : node_(x.is_bool() ? x.raw() : builder->value(MachineOp::bit_cast, kType, x.node())) {}
  static Traced of(int node) {
    Traced x;
    x.node_ = node;
    return x;
  }

  int raw() const { return node_ < 0 ? builder->constant(kType, 0) : node_; }
  bool is_bool() const { return node_ >= 0 && builder->type(node_) == ScalarType::Bool; }
  int node() const { return is_bool() ? builder->value(MachineOp::mask, kType, node_) : raw(); }
  // Whether any bit is set.
  int truth() const {
    if (is_bool()) return node_;
    return builder->value(MachineOp::not_equal, ScalarType::Bool, node(), Traced(0).node());
  }

  using Signed =
      std::conditional_t<sizeof(T) == 1, int8_t,
                         std::conditional_t<sizeof(T) == 2, int16_t,
                                            std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>>;
  using Mask = Traced<Signed>;

  friend Traced operator+(Traced a, Traced b) { return binary(MachineOp::add, a, b); }
  friend Traced operator-(Traced a, Traced b) { return binary(MachineOp::sub, a, b); }
  friend Traced operator*(Traced a, Traced b) { return binary(MachineOp::mul, a, b); }
  friend Traced operator/(Traced a, Traced b) {
    static_assert(std::is_floating_point_v<T>);
    return binary(MachineOp::div, a, b);
  }
  friend Traced operator<<(Traced a, Traced b) { return binary(MachineOp::shift_left, a, b); }
  friend Traced operator>>(Traced a, Traced b) { return binary(MachineOp::shift_right, a, b); }
  friend Traced operator&(Traced a, Traced b) { return logical(MachineOp::bit_and, a, b); }
  friend Traced operator|(Traced a, Traced b) { return logical(MachineOp::bit_or, a, b); }
  friend Traced operator^(Traced a, Traced b) { return logical(MachineOp::bit_xor, a, b); }
  friend Traced operator~(Traced a) {
    return of(builder->value(MachineOp::bit_not, a.is_bool() ? ScalarType::Bool : kType, a.raw()));
  }
  friend Traced operator-(Traced a) {
    if constexpr (std::is_floating_point_v<T>)
      return of(builder->value(MachineOp::neg, kType, a.node()));
    return Traced() - a;
  }
  Traced& operator+=(Traced b) { return *this = *this + b; }
  Traced& operator-=(Traced b) { return *this = *this - b; }
  Traced& operator*=(Traced b) { return *this = *this * b; }
  Traced& operator/=(Traced b) { return *this = *this / b; }
  Traced& operator>>=(Traced b) { return *this = *this >> b; }

  friend Mask operator==(Traced a, Traced b) {
    if (a.is_bool() && b.is_bool()) return Mask::of((~(a ^ b)).raw());
    return compare(MachineOp::equal, a, b);
  }
  friend Mask operator!=(Traced a, Traced b) {
    if (a.is_bool() && b.is_bool()) return Mask::of((a ^ b).raw());
    return compare(MachineOp::not_equal, a, b);
  }
  friend Mask operator<(Traced a, Traced b) { return compare(MachineOp::less, a, b); }
  friend Mask operator<=(Traced a, Traced b) { return compare(MachineOp::less_equal, a, b); }
  friend Mask operator>(Traced a, Traced b) { return b < a; }
  friend Mask operator>=(Traced a, Traced b) { return b <= a; }

 private:
  static Traced binary(MachineOp op, Traced a, Traced b) {
    const int x = a.node();
    return of(builder->value(op, kType, x, b.node()));
  }
  static Traced logical(MachineOp op, Traced a, Traced b) {
    if (a.is_bool() && b.is_bool())
      return of(builder->value(op, ScalarType::Bool, a.raw(), b.raw()));
    return binary(op, a, b);
  }
  static Mask compare(MachineOp op, Traced a, Traced b) {
    const int x = a.node();
    return Mask::of(builder->value(op, ScalarType::Bool, x, b.node()));
  }

  int node_ = -1;
};

template <class T>
using Vec = Traced<T>;
using F32 = Traced<float>;
using I32 = Traced<int32_t>;
using I64 = Traced<int64_t>;
using U32 = Traced<uint32_t>;
using U64 = Traced<uint64_t>;
using B8 = Traced<uint8_t>;

template <class V>
struct VecTraits;
template <class T>
struct VecTraits<Traced<T>> {
  using Element = T;
};
template <class V>
using Element = typename VecTraits<V>::Element;
template <class V>
using Mask = typename V::Mask;
template <class V>
inline constexpr bool kIsFloat = std::is_floating_point_v<Element<V>>;

inline constexpr bool kHasFma = true;

template <Number T>
Traced<T> splat(T x) {
  return x;
}
template <class To, class T>
To bit_cast(Traced<T> x) {
  return To(x);
}
template <class M, class T>
Traced<T> select(Traced<M> mask, Traced<T> a, Traced<T> b) {
  const int m = mask.truth(), x = a.node();
  return Traced<T>::of(builder->value(MachineOp::select, Traced<T>::kType, m, x, b.node()));
}
// Of two masks, which stay such.
template <class M, class T>
  requires std::is_integral_v<T>
Traced<T> select(Traced<M> mask, Traced<T> a, Traced<T> b) {
  const bool truths = a.is_bool() && b.is_bool();
  const int m = mask.truth(), x = truths ? a.raw() : a.node(), y = truths ? b.raw() : b.node();
  return Traced<T>::of(
      builder->value(MachineOp::select, truths ? ScalarType::Bool : Traced<T>::kType, m, x, y));
}

template <class T>
Traced<T> unary(MachineOp op, Traced<T> x) {
  return Traced<T>::of(builder->value(op, Traced<T>::kType, x.node()));
}
template <class T>
  requires std::is_floating_point_v<T>
Traced<T> fma(Traced<T> a, Traced<T> b, Traced<T> c) {
  const int x = a.node(), y = b.node();
  return Traced<T>::of(builder->value(MachineOp::fma, Traced<T>::kType, x, y, c.node()));
}
inline F32 sqrt(F32 x) { return unary(MachineOp::sqrt, x); }

enum Rounding { kToNearestEven = 0, kDown = 1, kUp = 2, kToZero = 3 };
template <Rounding R, class V>
V round_to(V x) {
  constexpr MachineOp kOp[] = {MachineOp::round_even, MachineOp::floor, MachineOp::ceil,
                               MachineOp::trunc};
  return unary(kOp[R], x);
}

// A NaN stays.
template <class V>
V at_least(V x, V low) {
  return select(low > x, low, x);
}
template <class V>
V at_most(V x, V high) {
  return select(high < x, high, x);
}

template <class To, class T>
To converted(Traced<T> x) {
  return To::of(builder->value(MachineOp::convert, To::kType, x.raw()));
}
inline F32 to_float(I32 k) { return converted<F32>(k); }

template <class T>
bool any(Traced<T> mask) {
  builder->mark_rare(mask.truth());
  return true;
}
inline bool any_above(F32 x, float bound) { return any(F32(bound) < x); }

inline U64 high_product(U64 a, U64 b) {
  const int x = a.node();
  return U64::of(builder->value(MachineOp::high_product, ScalarType::U64, x, b.node()));
}
inline U64 leading_zeros(U64 x) { return unary(MachineOp::leading_zeros, x); }
template <class T>
Traced<T> quotient(Traced<T> a, Traced<T> b) {
  const int x = a.node();
  return Traced<T>::of(builder->value(MachineOp::quotient, Traced<T>::kType, x, b.node()));
}
template <class T>
Traced<T> rest(Traced<T> a, Traced<T> b) {
  const int x = a.node();
  return Traced<T>::of(builder->value(MachineOp::rest, Traced<T>::kType, x, b.node()));
}
template <size_t N>
U64 lookup(const uint64_t (&table)[N], U64 index) {
  return U64::of(builder->lookup(table, index.node()));
}

// ---- turns and lanes, as in simd.h

// Calls f with each of the values that something consists of.
template <class T, class F>
void each_value(Traced<T>& x, const F& f) {
  f(x);
}
template <class... V>
std::tuple<V&...> carried(V&... x) {
  return {x...};
}
template <class... V, class More, class Turn>
void repeat(int most, std::tuple<V&...> state, const More& more, const Turn& turn) {
  const auto each = [&](const auto& f) {
    std::apply([&](auto&... x) { (each_value(x, f), ...); }, state);
  };
  const auto held = [&] {
    std::vector<int> nodes;
    each([&](const auto& x) { nodes.push_back(x.is_bool() ? x.raw() : x.node()); });
    return nodes;
  };
  const std::vector<int> in = builder->begin_loop(held(), static_cast<uint64_t>(most));
  const auto carry = [&] {
    size_t i = 0;
    each([&]<class T>(Traced<T>& x) { x = Traced<T>::of(in[i++]); });
  };
  carry();
  const auto lanes = more();
  builder->leave_unless(lanes.truth());
  turn(std::remove_const_t<decltype(lanes)>::of(builder->constant(ScalarType::Bool, 1)));
  builder->end_loop(in, held());
  carry();
}
template <class F, class... V>
auto each_lane(const F& f, V... x) {
  return f(x...);
}

#if !defined(TINYT_TRACE_SINGLE)
using F64 = Traced<double>;

inline F64 sqrt(F64 x) { return unary(MachineOp::sqrt, x); }
// Two registers of four lanes: one element each.
struct F64Pair {
  F64 lo, hi;
};
inline F64Pair widen(F32 x) {
  const auto d = converted<F64>(x);
  return {d, d};
}
inline F32 narrow(F64 lo, F64) { return converted<F32>(lo); }
inline F64 to_double(U64 x) { return converted<F64>(x); }
#endif

}  // namespace
}  // namespace tinyt::cpu

#if defined(TINYT_TRACE_SINGLE)
#include "cpu/simd/simd_double_word.h"
#endif
#include "cpu/simd/simd_values.h"
