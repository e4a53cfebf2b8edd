// One functor per scalar op that takes complex numbers. Arithmetic works in the dtype of its
// operands; quotients and functions of complex64 are evaluated in double and rounded once.
//
// Quotients follow Smith (Comm. ACM 5, 1962); the branch cuts are those of C99, Annex G.
#pragma once

#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "core/base/dtype.h"

namespace tinyt::cpu {

// The stored form of a complex number with parts of type T.
template <class T>
using Number = std::conditional_t<std::is_same_v<T, float>, ComplexFloat, ComplexDouble>;

namespace complex_op {

// Declared for every scalar op, so that a table can be made from ops.def.
#define SCALAR_OP(name, ...) struct name;
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP

using Wide = std::complex<double>;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;

template <class N>
Wide widen(N z) {
  return {z.re, z.im};
}
template <class N>
N narrow(Wide z) {
  using T = decltype(N::re);
  return {static_cast<T>(z.real()), static_cast<T>(z.imag())};
}
template <class N>
bool is_true(N z) {
  return z.re != 0 || z.im != 0;
}

inline Wide quotient(Wide x, Wide y) {
  const double a = x.real(), b = x.imag(), c = y.real(), d = y.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0 && d == 0) return {a / std::abs(c), b / std::abs(c)};
    const double ratio = d / c, scale = c + d * ratio;
    return {(a + b * ratio) / scale, (b - a * ratio) / scale};
  }
  const double ratio = c / d, scale = c * ratio + d;
  return {(a * ratio + b) / scale, (b * ratio - a) / scale};
}

// x^y = exp(y log x); 1 for y = 0, and 0 for x = 0 where the real part of y is positive.
inline Wide power(Wide x, Wide y) {
  if (y == 0.0) return 1.0;
  if (y == 1.0) return x;
  if (y == 2.0) return {x.real() * x.real() - x.imag() * x.imag(), 2 * x.real() * x.imag()};
  if (x == 0.0) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    return y.real() > 0 ? Wide(0.0) : Wide(kNaN, kNaN);
  }
  return std::pow(x, y);
}

// exp(z) - 1 without cancellation: its real part is expm1(x) cos y - 2 sin^2(y / 2).
inline Wide exp_minus_one(Wide z) {
  const double half = std::sin(z.imag() / 2);
  return {std::expm1(z.real()) * std::cos(z.imag()) - 2 * half * half,
          std::exp(z.real()) * std::sin(z.imag())};
}

// log(1 + z); |1 + z|^2 - 1 = x (2 + x) + y^2 keeps the digits of a small z.
inline Wide log_one_plus(Wide z) {
  const double x = z.real(), y = z.imag();
  if (std::abs(x) > 0.5 || std::abs(y) > 0.5) return std::log(1.0 + z);
  return {std::log1p(x * (2 + x) + y * y) / 2, std::atan2(y, 1 + x)};
}

// NAME(z): a complex function, evaluated wide. TEST: a bool. Both arguments are called x and y.
#define TINYT_FUNCTION(name, result)  \
  struct name {                       \
    static constexpr int kInputs = 1; \
    template <class N>                \
    static N apply(N z) {             \
      const Wide x = widen(z);        \
      return narrow<N>(Wide(result)); \
    }                                 \
  };
#define TINYT_PARTS(name, real, imag) \
  struct name {                       \
    static constexpr int kInputs = 1; \
    template <class N>                \
    static N apply(N x) {             \
      return {real, imag};            \
    }                                 \
  };
#define TINYT_TEST(name, result)      \
  struct name {                       \
    static constexpr int kInputs = 1; \
    template <class N>                \
    static bool apply(N x) {          \
      return result;                  \
    }                                 \
  };
#define TINYT_PARTS2(name, real, imag) \
  struct name {                        \
    static constexpr int kInputs = 2;  \
    template <class N>                 \
    static N apply(N x, N y) {         \
      return {real, imag};             \
    }                                  \
  };
#define TINYT_TEST2(name, result)     \
  struct name {                       \
    static constexpr int kInputs = 2; \
    template <class N>                \
    static bool apply(N x, N y) {     \
      return result;                  \
    }                                 \
  };

TINYT_PARTS(neg, -x.re, -x.im)
TINYT_PARTS(conj_physical, x.re, -x.im)
TINYT_PARTS(square, x.re* x.re - x.im * x.im, x.re* x.im + x.im * x.re)
TINYT_FUNCTION(exp, std::exp(x))
TINYT_FUNCTION(exp2, std::exp(x* kLn2))
TINYT_FUNCTION(expm1, exp_minus_one(x))
TINYT_FUNCTION(log, std::log(x))
TINYT_FUNCTION(log2, std::log(x) / kLn2)
TINYT_FUNCTION(log10, std::log10(x))
TINYT_FUNCTION(log1p, log_one_plus(x))
TINYT_FUNCTION(sqrt, std::sqrt(x))
TINYT_FUNCTION(rsqrt, quotient(1.0, std::sqrt(x)))
TINYT_FUNCTION(reciprocal, quotient(1.0, x))
TINYT_FUNCTION(sin, std::sin(x))
TINYT_FUNCTION(cos, std::cos(x))
TINYT_FUNCTION(tan, std::tan(x))
TINYT_FUNCTION(asin, std::asin(x))
TINYT_FUNCTION(acos, std::acos(x))
TINYT_FUNCTION(atan, std::atan(x))
TINYT_FUNCTION(sinh, std::sinh(x))
TINYT_FUNCTION(cosh, std::cosh(x))
TINYT_FUNCTION(tanh, std::tanh(x))
TINYT_FUNCTION(asinh, std::asinh(x))
TINYT_FUNCTION(acosh, std::acosh(x))
TINYT_FUNCTION(atanh, std::atanh(x))
TINYT_FUNCTION(sigmoid, quotient(1.0, 1.0 + std::exp(-x)))
TINYT_TEST(logical_not, !is_true(x))
TINYT_TEST(isnan, std::isnan(x.re) || std::isnan(x.im))
TINYT_TEST(isinf, std::isinf(x.re) || std::isinf(x.im))
TINYT_TEST(isfinite, std::isfinite(x.re) && std::isfinite(x.im))

TINYT_PARTS2(add, x.re + y.re, x.im + y.im)
TINYT_PARTS2(sub, x.re - y.re, x.im - y.im)
TINYT_PARTS2(mul, x.re* y.re - x.im * y.im, x.re* y.im + x.im * y.re)
TINYT_TEST2(eq, x.re == y.re && x.im == y.im)
TINYT_TEST2(ne, x.re != y.re || x.im != y.im)
TINYT_TEST2(logical_and, is_true(x) && is_true(y))
TINYT_TEST2(logical_or, is_true(x) || is_true(y))
TINYT_TEST2(logical_xor, is_true(x) != is_true(y))

struct abs {
  static constexpr int kInputs = 1;
  template <class N>
  static decltype(N::re) apply(N z) {
    return static_cast<decltype(N::re)>(std::abs(widen(z)));
  }
};
struct angle {
  static constexpr int kInputs = 1;
  template <class N>
  static decltype(N::re) apply(N z) {
    return static_cast<decltype(N::re)>(std::arg(widen(z)));
  }
};
struct div {
  static constexpr int kInputs = 2;
  template <class N>
  static N apply(N x, N y) {
    return narrow<N>(quotient(widen(x), widen(y)));
  }
};
struct pow {
  static constexpr int kInputs = 2;
  template <class N>
  static N apply(N x, N y) {
    return narrow<N>(power(widen(x), widen(y)));
  }
};

#undef TINYT_FUNCTION
#undef TINYT_PARTS
#undef TINYT_TEST
#undef TINYT_PARTS2
#undef TINYT_TEST2

}  // namespace complex_op
}  // namespace tinyt::cpu
