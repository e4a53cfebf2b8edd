// One functor per scalar op of ops.def: Name::apply on SIMD values of the compute dtypes F32, F64,
// I64 and B8 (bool), as far as the op takes them. Tests and comparisons return a lane mask.
#pragma once

#include "cpu/math/math_activation.h"
#include "cpu/math/math_arc.h"
#include "cpu/math/math_basic.h"
#include "cpu/math/math_bessel.h"
#include "cpu/math/math_divide.h"
#include "cpu/math/math_erf.h"
#include "cpu/math/math_exp.h"
#include "cpu/math/math_float.h"
#include "cpu/math/math_gamma.h"
#include "cpu/math/math_hyperbolic.h"
#include "cpu/math/math_incomplete.h"
#include "cpu/math/math_integer.h"
#include "cpu/math/math_log.h"
#include "cpu/math/math_normal.h"
#include "cpu/math/math_root.h"
#include "cpu/math/math_tanh.h"
#include "cpu/math/math_trig.h"

namespace tinyt::cpu {
namespace {

template <class V>
inline constexpr bool kIsBool = sizeof(Element<V>) == 1;

// 1 where the mask is set, else 0.
template <class V>
TINYT_INLINE V one_where(Mask<V> mask) {
  if constexpr (kIsFloat<V>) return select(mask, V{} + 1, V{});
  if constexpr (!kIsFloat<V>) return (V)(mask & 1);
}

template <class V>
TINYT_INLINE Mask<V> truth(V x) {
  return (Mask<V>)(x != 0);
}

namespace op {

#define TINYT_UNARY(name, result)      \
  struct name {                        \
    template <class V>                 \
    static TINYT_INLINE V apply(V x) { \
      return result;                   \
    }                                  \
  };
#define TINYT_TEST(name, result)             \
  struct name {                              \
    template <class V>                       \
    static TINYT_INLINE Mask<V> apply(V x) { \
      return (Mask<V>)(result);              \
    }                                        \
  };
#define TINYT_BINARY(name, result)          \
  struct name {                             \
    template <class V>                      \
    static TINYT_INLINE V apply(V x, V y) { \
      return (V)(result);                   \
    }                                       \
  };
#define TINYT_COMPARISON(name, result)            \
  struct name {                                   \
    template <class V>                            \
    static TINYT_INLINE Mask<V> apply(V x, V y) { \
      return (Mask<V>)(result);                   \
    }                                             \
  };
#define TINYT_TERNARY(name, result)              \
  struct name {                                  \
    template <class V>                           \
    static TINYT_INLINE V apply(V x, V y, V z) { \
      return (V)(result);                        \
    }                                            \
  };

// ---- unary

TINYT_UNARY(conj_physical, x)
TINYT_UNARY(angle, select(x < 0, splat(static_cast<Element<V>>(3.14159265358979323846)),
                          select(x != x, x, V{})))
TINYT_UNARY(neg, (V)(-wrap(x)))
TINYT_UNARY(abs, cpu::abs(x))
// 0 for a NaN.
TINYT_UNARY(sign, one_where<V>((Mask<V>)(x > 0)) - one_where<V>((Mask<V>)(x < 0)))
TINYT_UNARY(square, (V)(wrap(x) * wrap(x)))
TINYT_UNARY(relu, select(x < 0, V{}, x))

// Integers are whole already.
template <Rounding R>
struct Round {
  template <class V>
  static TINYT_INLINE V apply(V x) {
    if constexpr (kIsFloat<V>) return round_to<R>(x);
    if constexpr (!kIsFloat<V>) return x;
  }
};
using floor = Round<kDown>;
using ceil = Round<kUp>;
using round = Round<kToNearestEven>;
using trunc = Round<kToZero>;

TINYT_UNARY(exp, cpu::exp(x))
TINYT_UNARY(exp2, cpu::exp2(x))
TINYT_UNARY(expm1, cpu::expm1(x))
TINYT_UNARY(log, cpu::log(x))
TINYT_UNARY(log2, cpu::log2(x))
TINYT_UNARY(log10, cpu::log10(x))
TINYT_UNARY(log1p, cpu::log1p(x))
TINYT_UNARY(sqrt, cpu::sqrt(x))
TINYT_UNARY(rsqrt, cpu::rsqrt(x))
TINYT_UNARY(reciprocal, 1 / x)
TINYT_UNARY(sin, cpu::sin(x))
TINYT_UNARY(cos, cpu::cos(x))
TINYT_UNARY(tan, cpu::tan(x))
TINYT_UNARY(asin, cpu::asin(x))
TINYT_UNARY(acos, cpu::acos(x))
TINYT_UNARY(atan, cpu::atan(x))
TINYT_UNARY(sinh, cpu::sinh(x))
TINYT_UNARY(cosh, cpu::cosh(x))
TINYT_UNARY(tanh, cpu::tanh(x))
TINYT_UNARY(asinh, cpu::asinh(x))
TINYT_UNARY(acosh, cpu::acosh(x))
TINYT_UNARY(atanh, cpu::atanh(x))
TINYT_UNARY(sigmoid, cpu::sigmoid(x))
TINYT_UNARY(erf, cpu::erf(x))
TINYT_UNARY(erfc, cpu::erfc(x))
TINYT_UNARY(erfinv, cpu::erfinv(x))
TINYT_UNARY(lgamma, cpu::lgamma(x))
TINYT_UNARY(digamma, cpu::digamma(x))
TINYT_UNARY(i0, bessel_i0<false>(x))
TINYT_UNARY(i0e, bessel_i0<true>(x))
TINYT_UNARY(i1, bessel_i1<false>(x))
TINYT_UNARY(i1e, bessel_i1<true>(x))
TINYT_UNARY(erfcx, cpu::erfcx(x))
TINYT_UNARY(log_ndtr, cpu::log_ndtr(x))
TINYT_UNARY(ndtri, cpu::ndtri(x))
TINYT_UNARY(gelu, cpu::gelu(x))
TINYT_UNARY(gelu_tanh, cpu::gelu_tanh(x))
TINYT_UNARY(silu, cpu::silu(x))
TINYT_UNARY(mish, cpu::mish(x))
TINYT_UNARY(logsigmoid, cpu::logsigmoid(x))
TINYT_UNARY(hardsigmoid, cpu::hardsigmoid(x))
TINYT_UNARY(hardswish, cpu::hardswish(x))
TINYT_UNARY(bitwise_not, kIsBool<V> ? x ^ 1 : ~x)

TINYT_TEST(logical_not, x == 0)
TINYT_TEST(isnan, x != x)
struct isinf {
  template <class V>
  static TINYT_INLINE Mask<V> apply(V x) {
    if constexpr (kIsFloat<V>) return cpu::abs(x) == static_cast<Element<V>>(__builtin_inf());
    if constexpr (!kIsFloat<V>) return Mask<V>{};
  }
};
struct isfinite {
  template <class V>
  static TINYT_INLINE Mask<V> apply(V x) {
    if constexpr (kIsFloat<V>) return cpu::abs(x) < static_cast<Element<V>>(__builtin_inf());
    if constexpr (!kIsFloat<V>) return ~Mask<V>{};
  }
};

// ---- binary: on bools, add is "or" and mul is "and"

struct add {
  template <class V>
  static TINYT_INLINE V apply(V x, V y) {
    return (V)(wrap(x) + wrap(y));
  }
  static TINYT_INLINE B8 apply(B8 x, B8 y) { return x | y; }
};
TINYT_BINARY(sub, wrap(x) - wrap(y))
TINYT_BINARY(mul, wrap(x) * wrap(y))
TINYT_BINARY(div, x / y)
TINYT_BINARY(floor_divide, cpu::floor_divide(x, y))
TINYT_BINARY(remainder, cpu::remainder(x, y))
TINYT_BINARY(pow, cpu::pow(x, y))
TINYT_BINARY(maximum, cpu::maximum(x, y))
TINYT_BINARY(minimum, cpu::minimum(x, y))
TINYT_BINARY(fmod, cpu::fmod(x, y))
TINYT_BINARY(fmax, cpu::fmax(x, y))
TINYT_BINARY(fmin, cpu::fmin(x, y))
// Where no bound is a NaN or -0, a clamp's Plain form gives the same with fewer instructions.
#define TINYT_BOUND(name, any_bound, plain_bound) \
  struct name {                                   \
    template <class V>                            \
    static TINYT_INLINE V apply(V x, V y) {       \
      return any_bound;                           \
    }                                             \
    struct Plain {                                \
      template <class V>                          \
      static TINYT_INLINE V apply(V x, V y) {     \
        return plain_bound;                       \
      }                                           \
    };                                            \
  };
TINYT_BOUND(clamp_min, cpu::maximum(x, y), select(x <= y, y, x))
TINYT_BOUND(clamp_max, cpu::minimum(x, y), at_most(x, y))
#undef TINYT_BOUND
template <class T>
TINYT_INLINE bool is_plain_bound(T bound) {
  return bound == bound && !(bound == 0 && __builtin_signbit(bound));
}
TINYT_BINARY(atan2, cpu::atan2(x, y))
TINYT_BINARY(hypot, cpu::hypot(x, y))
TINYT_BINARY(copysign, cpu::copysign(x, y))
TINYT_BINARY(nextafter, cpu::nextafter(x, y))
TINYT_BINARY(xlogy, cpu::xlogy(x, y))
TINYT_BINARY(xlog1py, cpu::xlog1py(x, y))
TINYT_BINARY(logaddexp, cpu::logaddexp(x, y))
TINYT_BINARY(logaddexp2, cpu::logaddexp2(x, y))
TINYT_BINARY(zeta, cpu::zeta(x, y))
TINYT_BINARY(gammainc, cpu::gammainc(x, y))
TINYT_BINARY(gammaincc, cpu::gammaincc(x, y))
TINYT_BINARY(standard_gamma_grad, cpu::standard_gamma_grad(x, y))
// 0 for a NaN.
TINYT_BINARY(heaviside, select(x == 0, y, one_where<V>((Mask<V>)(x > 0))))
TINYT_BINARY(gcd, cpu::gcd(x, y))
TINYT_BINARY(lcm, cpu::lcm(x, y))
TINYT_BINARY(bitwise_left_shift, shift_left(x, y))
TINYT_BINARY(bitwise_right_shift, shift_right(x, y))
TINYT_BINARY(bitwise_and, wrap(x) & wrap(y))
TINYT_BINARY(bitwise_or, x | y)
TINYT_BINARY(bitwise_xor, x ^ y)
// The first input of a backward row is the gradient; relu, sigmoid and tanh need their output.
TINYT_BINARY(relu_backward, select(y <= 0, V{}, x))  // of a NaN the gradient itself
TINYT_BINARY(sigmoid_backward, x * ((1 - y) * y))
TINYT_BINARY(tanh_backward, x * (1 - y * y))
TINYT_BINARY(gelu_backward, cpu::gelu_backward(x, y))
TINYT_BINARY(gelu_tanh_backward, cpu::gelu_tanh_backward(x, y))
TINYT_BINARY(silu_backward, cpu::silu_backward(x, y))
TINYT_BINARY(mish_backward, cpu::mish_backward(x, y))
TINYT_BINARY(logsigmoid_backward, x* cpu::sigmoid(-y))
TINYT_BINARY(hardsigmoid_backward, cpu::hardsigmoid_backward(x, y))
TINYT_BINARY(hardswish_backward, cpu::hardswish_backward(x, y))
TINYT_BINARY(leaky_relu, cpu::leaky_relu(x, y))
TINYT_BINARY(elu, cpu::elu(x, y))

TINYT_COMPARISON(eq, x == y)
TINYT_COMPARISON(ne, x != y)
TINYT_COMPARISON(lt, x < y)
TINYT_COMPARISON(le, x <= y)
TINYT_COMPARISON(gt, x > y)
TINYT_COMPARISON(ge, x >= y)
TINYT_COMPARISON(logical_and, truth(x) & truth(y))
TINYT_COMPARISON(logical_or, truth(x) | truth(y))
TINYT_COMPARISON(logical_xor, truth(x) ^ truth(y))

// ---- ternary

struct where {
  template <class V>
  static TINYT_INLINE V apply(Mask<V> condition, V x, V y) {
    return select(condition, x, y);
  }
};

struct clamp {
  template <class V>
  static TINYT_INLINE V apply(V x, V low, V high) {
    return clamp_max::apply(clamp_min::apply(x, low), high);
  }
  struct Plain {
    template <class V>
    static TINYT_INLINE V apply(V x, V low, V high) {
      return clamp_max::Plain::apply(clamp_min::Plain::apply(x, low), high);
    }
  };
};
TINYT_TERNARY(lerp, cpu::lerp(x, y, z))
TINYT_TERNARY(dirichlet_grad, cpu::dirichlet_grad(x, y, z))
struct addcmul {
  template <class V>
  static TINYT_INLINE V apply(V x, V y, V z, V factor) {
    return (V)(wrap(x) + wrap(factor) * wrap(y) * wrap(z));
  }
};
struct addcdiv {
  template <class V>
  static TINYT_INLINE V apply(V x, V y, V z, V factor) {
    return x + factor * y / z;
  }
};
TINYT_TERNARY(softplus, cpu::softplus(x, y, z))
TINYT_TERNARY(softplus_backward, cpu::softplus_backward(x, y, z))
TINYT_TERNARY(leaky_relu_backward, cpu::leaky_relu_backward(x, y, z))
TINYT_TERNARY(elu_backward, cpu::elu_backward(x, y, z))
TINYT_BINARY(sigmoid_nll, cpu::sigmoid_nll(x, y))
TINYT_TERNARY(sigmoid_nll_backward, cpu::sigmoid_nll_backward(x, y, z))

#undef TINYT_UNARY
#undef TINYT_TEST
#undef TINYT_BINARY
#undef TINYT_COMPARISON
#undef TINYT_TERNARY

}  // namespace op
}  // namespace
}  // namespace tinyt::cpu
