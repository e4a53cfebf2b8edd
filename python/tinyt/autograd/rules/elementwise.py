"""Gradient rules of the scalar ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp, is_grad_enabled
from tinyt.autograd.rules.common import NEGATIVE, OUT, SAME, rule, wide_rule
from tinyt.decompositions.common import zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def expm1_slope(n: Node) -> Tensor:
    """e^x: y + 1, of which far below 0 nothing is left."""
    x = n.input(0)
    below = x < -1.0
    return prim.where(below, prim.exp(x), n.output() + 1.0)


def far_inverse(x: Tensor, one: float) -> Tensor:
    """1 / sqrt(x^2 + one), one being 1 or -1, also where squares overflow."""
    if x.dtype.is_complex:
        return prim.rsqrt(prim.square(x) + one)
    far = prim.abs(x) > (2.0**60 if x.dtype.itemsize == 4 else 2.0**500)
    near = prim.rsqrt(prim.square(prim.where(far, 2.0, x)) + one)
    return prim.where(far, 1.0 / prim.abs(prim.where(far, x, 1.0)), near)


rule("neg", (NEGATIVE,))
rule("conj_physical", (SAME,))
rule("abs", (lambda g, n: g * prim.sign(n.input(0)), 0))
rule("square", (compiled_vjp("square"), 0))
for _flat in ("sign", "angle", "floor", "ceil", "round", "trunc"):
    rule(_flat, (lambda g, n: zeros(tuple(g.shape), g),))
for _flat in ("floor_divide", "heaviside"):
    rule(_flat, *[(lambda g, n: zeros(tuple(g.shape), g),)] * 2)
rule(
    "nextafter",  # the neighbour moves with its input; PyTorch has zero where both are equal
    (lambda g, n: prim.where(prim.eq(n.input(0), n.input(1)), 0.0, g), 0, 1),
    (lambda g, n: zeros(tuple(g.shape), g),),
)
rule("exp", (lambda g, n: g * n.output(), OUT))
wide_rule("exp2", (lambda g, n: g * (n.output() * math.log(2)), OUT))
wide_rule("expm1", (lambda g, n: g * expm1_slope(n), 0, OUT))
rule("log", (lambda g, n: g / n.input(0), 0))
wide_rule("log2", (lambda g, n: g / (n.input(0) * math.log(2)), 0))
wide_rule("log10", (lambda g, n: g / (n.input(0) * math.log(10)), 0))
wide_rule("log1p", (lambda g, n: g / (n.input(0) + 1.0), 0))
wide_rule("sqrt", (lambda g, n: g / (n.output() * 2.0), OUT))
wide_rule("rsqrt", (lambda g, n: g * -0.5 * n.output() * n.output() * n.output(), OUT))
wide_rule("reciprocal", (lambda g, n: -g * n.output() * n.output(), OUT))
rule("sin", (lambda g, n: g * prim.cos(n.input(0)), 0))
rule("cos", (lambda g, n: -g * prim.sin(n.input(0)), 0))
wide_rule("tan", (lambda g, n: g * (prim.square(n.output()) + 1.0), OUT))
wide_rule("asin", (lambda g, n: g * prim.rsqrt(1.0 - prim.square(n.input(0))), 0))
wide_rule("acos", (lambda g, n: -g * prim.rsqrt(1.0 - prim.square(n.input(0))), 0))
wide_rule("atan", (lambda g, n: g / (prim.square(n.input(0)) + 1.0), 0))
rule("sinh", (lambda g, n: g * prim.cosh(n.input(0)), 0))
rule("cosh", (lambda g, n: g * prim.sinh(n.input(0)), 0))
wide_rule("asinh", (lambda g, n: g * far_inverse(n.input(0), 1.0), 0))
wide_rule("acosh", (lambda g, n: g * far_inverse(n.input(0), -1.0), 0))
wide_rule("atanh", (lambda g, n: g / (1.0 - prim.square(n.input(0))), 0))
SQRT_PI = math.sqrt(math.pi)
wide_rule("erf", (lambda g, n: g * (prim.exp(-prim.square(n.input(0))) * (2 / SQRT_PI)), 0))
wide_rule("erfc", (lambda g, n: g * (prim.exp(-prim.square(n.input(0))) * (-2 / SQRT_PI)), 0))
wide_rule("erfinv", (lambda g, n: g * (prim.exp(prim.square(n.output())) * (SQRT_PI / 2)), OUT))
wide_rule("lgamma", (lambda g, n: g * prim.digamma(n.input(0)), 0))


def erfcx_grad(g: Tensor, n: Node) -> Tensor:
    """2 x erfcx(x) - 2 / sqrt(pi); far out, where these are nearly equal, the series of that (DLMF
    7.12.1)."""
    x = n.input(0)
    far = prim.gt(x, 60.0 if x.dtype.itemsize == 8 else 8.0)
    half = 0.5 / prim.square(prim.where(far, x, 60.0))
    series = prim.where(far, 1.0, half)
    for k in (11.0, 9.0, 7.0, 5.0, 3.0):
        series = 1.0 - k * half * series
    near = 2.0 * prim.where(far, 0.0, x) * prim.erfcx(x) - 2 / math.sqrt(math.pi)
    return g * prim.where(far, half * series * (-2 / math.sqrt(math.pi)), near)


wide_rule("erfcx", (erfcx_grad, 0))
wide_rule(
    "log_ndtr",
    (lambda g, n: g * (math.sqrt(2 / math.pi) / prim.erfcx(n.input(0) * -math.sqrt(0.5))), 0),
)
wide_rule(
    "ndtri",
    (
        lambda g, n: (
            g * (prim.exp(prim.square(prim.ndtri(n.input(0))) * 0.5) * math.sqrt(2 * math.pi))
        ),
        0,
    ),
)
wide_rule("digamma", (lambda g, n: g * prim.zeta(2.0, n.input(0)), 0))

# Abramowitz & Stegun 9.6.27 and 9.6.28; I1(x) / x is 1/2 at 0.


def bessel_ratio(x: Tensor, i1: Tensor) -> Tensor:
    """I1(x) / x (or the scaled form), with its limit 1/2 at x = 0."""
    zero = prim.abs(x) < 1e-9
    return prim.where(zero, 0.5, i1 / prim.where(zero, 1.0, x))


def i1_grad(g: Tensor, n: Node) -> Tensor:
    """I1' = I0 - I1 / x."""
    x = n.input(0)
    size = prim.i0(x)
    return g * prim.where(prim.isinf(size), size, size - bessel_ratio(x, n.output()))


# Hankel's expansion (DLMF 10.40.1) of sqrt(2 pi x) e^-x (I0(x) - I1(x)) in powers of 1 / x.
def _hankel(order: int, count: int) -> list[float]:
    terms = [1.0]
    for k in range(1, count):
        terms.append(terms[-1] * ((2 * k - 1) ** 2 - 4 * order) / (8 * k))
    return terms


HANKEL = [a - b for a, b in zip(_hankel(0, 12), _hankel(1, 12), strict=True)]


def bessel_difference(x: Tensor) -> Tensor:
    """e^-|x| (I0(x) - I1(|x|)), far out without the difference of nearly equal numbers."""
    size = prim.abs(x)
    far = size > 50.0
    inverse = 1.0 / prim.where(far, size, 50.0)
    total = inverse * HANKEL[-1]
    for coefficient in reversed(HANKEL[1:-1]):
        total = (total + coefficient) * inverse
    total = total * prim.sqrt(inverse * (0.5 / math.pi))
    return prim.where(far, total, prim.i0e(x) - prim.sign(x) * prim.i1e(x))


def i1e_grad(g: Tensor, n: Node) -> Tensor:
    """(e^-|x| I1)' = e^-|x| (I0 - I1 / x - sign(x) I1)."""
    x = n.input(0)
    return g * (bessel_difference(x) - bessel_ratio(x, prim.i1e(x)))


wide_rule("i0", (lambda g, n: g * prim.i1(n.input(0)), 0))
wide_rule("i0e", (lambda g, n: -g * prim.sign(n.input(0)) * bessel_difference(n.input(0)), 0))
wide_rule("i1", (i1_grad, 0, OUT))
wide_rule("i1e", (i1e_grad, 0))

# ---- binary and ternary


def pow_base(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/dx = e x**(e-1); zero where e is zero, also at x = 0."""
    x, e = n.input(0), n.input(1)
    flat = e == 0.0
    less = e - 1.0
    if is_grad_enabled():  # x**(-1) is infinite at 0: its slope times the zero would be NaN
        less = prim.where(flat, 0.0, less)
    return prim.where(flat, 0.0, g * (e * prim.pow(x, less)))


def pow_exponent(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/de = x**e log x; zero at x = 0 for e >= 0, where the limit is zero."""
    x, e, out = n.input(0), n.input(1), n.output()
    limit = prim.logical_and(x == 0.0, e >= 0.0)
    return g * prim.where(limit, 0.0, out * prim.log(x))


def larger(g: Tensor, n: Node, a: int, b: int) -> Tensor:
    """Share of input ``a`` in max(a, b): all, half at a tie, or none."""
    x, y = n.input(a), n.input(b)
    return prim.where(x < y, 0.0, prim.where(x == y, g * 0.5, g))


rule("add", (SAME,), (SAME,))
rule("sub", (SAME,), (NEGATIVE,))
rule("mul", (compiled_vjp("times_right"), 1), (compiled_vjp("times_left"), 0))
wide_rule(
    "div",
    (compiled_vjp("over_right"), 1),
    (lambda g, n: -g * ((n.input(0) / n.input(1)) / n.input(1)), 0, 1),
)
wide_rule(
    "remainder",
    (lambda g, n: g,),
    (lambda g, n: -g * prim.floor_divide(n.input(0), n.input(1)), 0, 1),
)
wide_rule("pow", (pow_base, 0, 1), (pow_exponent, 0, 1, OUT))
rule(
    "maximum",
    (lambda g, n: larger(g, n, 0, 1), 0, 1),
    (lambda g, n: larger(g, n, 1, 0), 0, 1),
)
rule(
    "minimum",
    (lambda g, n: larger(g, n, 1, 0), 0, 1),
    (lambda g, n: larger(g, n, 0, 1), 0, 1),
)
# With a and b swapped, "larger" asks who is smaller; the gradient goes to that one.
rule(
    "where",
    None,
    (lambda g, n: prim.where(n.input(0), g, 0.0), 0),
    (lambda g, n: prim.where(n.input(0), 0.0, g), 0),
)


def copysign_grad(g: Tensor, n: Node) -> Tensor:
    """The gradient keeps or changes its sign with the value; zero at x = 0, as in PyTorch."""
    x = n.input(0)
    sign = prim.where(prim.isnan(x), x, prim.sign(x))
    return prim.where(x == 0.0, 0.0, g * sign * prim.sign(n.output()))


def xlogy_grad(g: Tensor, n: Node) -> Tensor:
    """log y; zero where x is zero and y not positive."""
    x, y = n.input(0), n.input(1)
    return prim.where(prim.logical_and(x == 0.0, y <= 0.0), 0.0, g * prim.log(y))


def xlog1py_grad(g: Tensor, n: Node) -> Tensor:
    """log(1 + y); zero where x is zero and y not above -1."""
    x, y = n.input(0), n.input(1)
    return prim.where(prim.logical_and(x == 0.0, y <= -1.0), 0.0, g * prim.log1p(y))


def first_wins(n: Node, order: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Where fmax or fmin took its first input: at ties and where the second is a NaN, too."""
    x, y = n.input(0), n.input(1)
    return prim.logical_or(order(x, y), prim.isnan(y))


# Below and above, squares lose digits: they are subnormal, or infinite.
SQUARES = {4: (2.0**-100, 2.0**126), 8: (2.0**-960, 2.0**1022)}


def over_squares(x: Tensor, n: Node) -> Tensor:
    """x / (a^2 + b^2), for x one of the inputs a and b; 0 where both are 0, as in PyTorch."""
    a, b = n.input(0), n.input(1)
    total = prim.square(a) + prim.square(b)
    low, high = SQUARES[total.dtype.itemsize]
    inside = prim.logical_and(total >= low, total <= high)
    size = prim.hypot(a, b)
    zero = size == 0.0
    size = prim.where(prim.logical_or(zero, inside), 1.0, size)
    return prim.where(inside, x / prim.where(inside, total, 1.0), (x / size) / size)


wide_rule(
    "fmod",
    (lambda g, n: g,),
    (lambda g, n: -g * prim.trunc(n.input(0) / n.input(1)), 0, 1),
)
wide_rule(
    "atan2",
    (lambda g, n: g * over_squares(n.input(1), n), 0, 1),
    (lambda g, n: -g * over_squares(n.input(0), n), 0, 1),
)
wide_rule(
    "hypot",
    (lambda g, n: g * (n.input(0) / n.output()), 0, OUT),
    (lambda g, n: g * (n.input(1) / n.output()), 1, OUT),
)
rule("copysign", (copysign_grad, 0, OUT), (lambda g, n: zeros(tuple(g.shape), g),))
wide_rule(
    "xlog1py", (xlog1py_grad, 0, 1), (lambda g, n: g * (n.input(0) / (n.input(1) + 1.0)), 0, 1)
)
wide_rule("xlogy", (xlogy_grad, 0, 1), (lambda g, n: g * (n.input(0) / n.input(1)), 0, 1))
wide_rule(
    "logaddexp",
    (lambda g, n: g / (prim.exp(n.input(1) - n.input(0)) + 1.0), 0, 1),
    (lambda g, n: g / (prim.exp(n.input(0) - n.input(1)) + 1.0), 0, 1),
)
wide_rule(
    "logaddexp2",
    (lambda g, n: g / (prim.exp2(n.input(1) - n.input(0)) + 1.0), 0, 1),
    (lambda g, n: g / (prim.exp2(n.input(0) - n.input(1)) + 1.0), 0, 1),
)


def gamma_density(n: Node) -> Tensor:
    """x^(a - 1) e^-x / Gamma(a), in float64: its terms are large and cancel."""
    a, x = (prim.cast(n.input(i), 9) for i in (0, 1))
    return prim.exp(prim.xlogy(a - 1.0, x) - x - prim.lgamma(a))


def gamma_shift(g: Tensor, n: Node) -> Tensor:
    """The derivative of the lower function to a: less density where values grow with a."""
    return -g * gamma_density(n) * prim.standard_gamma_grad(n.input(0), n.input(1))


wide_rule("gammainc", (gamma_shift, 0, 1), (lambda g, n: g * gamma_density(n), 0, 1))
wide_rule(
    "gammaincc",
    (lambda g, n: -gamma_shift(g, n), 0, 1),
    (lambda g, n: -g * gamma_density(n), 0, 1),
)
# No gradient to the order, as in PyTorch.
wide_rule(
    "zeta", None, (lambda g, n: -g * n.input(0) * prim.zeta(n.input(0) + 1.0, n.input(1)), 0, 1)
)
rule(
    "fmax",
    (lambda g, n: prim.where(first_wins(n, prim.ge), g, 0.0), 0, 1),
    (lambda g, n: prim.where(first_wins(n, prim.ge), 0.0, g), 0, 1),
)
rule(
    "fmin",
    (lambda g, n: prim.where(first_wins(n, prim.le), g, 0.0), 0, 1),
    (lambda g, n: prim.where(first_wins(n, prim.le), 0.0, g), 0, 1),
)

# Inside the bounds, the ends included, the gradient is the value's; beyond, the bound's. Where the
# bounds cross, the upper one holds.


def inside(g: Tensor, n: Node) -> Tensor:
    """The value's share of clamp."""
    x = n.input(0)
    return prim.where(prim.logical_and(x >= n.input(1), x <= n.input(2)), g, 0.0)


def below(g: Tensor, n: Node) -> Tensor:
    """The lower bound's share."""
    low = n.input(1)
    return prim.where(prim.logical_and(n.input(0) < low, low < n.input(2)), g, 0.0)


def above(g: Tensor, n: Node) -> Tensor:
    """The upper bound's share."""
    high = n.input(2)
    return prim.where(prim.logical_or(n.input(0) > high, high < n.input(1)), g, 0.0)


rule(
    "clamp_min",
    (lambda g, n: prim.where(n.input(0) >= n.input(1), g, 0.0), 0, 1),
    (lambda g, n: prim.where(n.input(0) < n.input(1), g, 0.0), 0, 1),
)
rule(
    "clamp_max",
    (lambda g, n: prim.where(n.input(0) <= n.input(1), g, 0.0), 0, 1),
    (lambda g, n: prim.where(n.input(0) > n.input(1), g, 0.0), 0, 1),
)
rule("clamp", (inside, 0, 1, 2), (below, 0, 1, 2), (above, 0, 1, 2))
wide_rule(
    "lerp",
    (lambda g, n: g * (1.0 - n.input(2)), 2),
    (lambda g, n: g * n.input(2), 2),
    (lambda g, n: g * (n.input(1) - n.input(0)), 0, 1),
)
wide_rule(
    "addcmul",
    (lambda g, n: g,),
    (lambda g, n: g * (n.input(3) * n.input(2)), 2, 3),
    (lambda g, n: g * (n.input(3) * n.input(1)), 1, 3),
    (lambda g, n: g * (n.input(1) * n.input(2)), 1, 2),
)
wide_rule(
    "addcdiv",
    (lambda g, n: g,),
    (lambda g, n: g * (n.input(3) / n.input(2)), 2, 3),
    (lambda g, n: -g * ((n.input(3) * n.input(1) / n.input(2)) / n.input(2)), 1, 2, 3),
    (lambda g, n: g * (n.input(1) / n.input(2)), 1, 2),
)
