"""Gradient rules of the scalar ops."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt.autograd.rules.common import OUT, rule, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._tensor import Node
    from tinyt.tensor import Tensor

rule("neg", (lambda g, n: -g,))
rule("conj_physical", (lambda g, n: g,))
rule("abs", (lambda g, n: g * prim.sign(n.input(0)), 0))
rule("square", (lambda g, n: g * (n.input(0) * 2.0), 0))
rule("relu", (lambda g, n: prim.where(n.output() > 0.0, g, 0.0), OUT))
for _flat in ("sign", "angle", "floor", "ceil", "round", "trunc"):
    rule(_flat, (lambda g, n: zeros(tuple(g.shape), g),))
rule("exp", (lambda g, n: g * n.output(), OUT))
rule("expm1", (lambda g, n: g * (n.output() + 1.0), OUT))
rule("log", (lambda g, n: g / n.input(0), 0))
rule("log1p", (lambda g, n: g / (n.input(0) + 1.0), 0))
rule("sqrt", (lambda g, n: g / (n.output() * 2.0), OUT))
rule("rsqrt", (lambda g, n: g * -0.5 * n.output() * n.output() * n.output(), OUT))
rule("reciprocal", (lambda g, n: -g * n.output() * n.output(), OUT))
rule("sin", (lambda g, n: g * prim.cos(n.input(0)), 0))
rule("cos", (lambda g, n: -g * prim.sin(n.input(0)), 0))
rule("tanh", (lambda g, n: g * (1.0 - n.output() * n.output()), OUT))
rule("sigmoid", (lambda g, n: g * (1.0 - n.output()) * n.output(), OUT))
rule("erf", (lambda g, n: g * (prim.exp(-prim.square(n.input(0))) * (2 / math.sqrt(math.pi))), 0))

# ---- binary and ternary


def pow_base(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/dx = e x**(e-1); zero where e is zero, also at x = 0."""
    x, e = n.input(0), n.input(1)
    return prim.where(e == 0.0, 0.0, g * (e * prim.pow(x, e - 1.0)))


def pow_exponent(g: Tensor, n: Node) -> Tensor:
    """d(x**e)/de = x**e log x; zero at x = 0 for e >= 0, where the limit is zero."""
    x, e, out = n.input(0), n.input(1), n.output()
    limit = prim.logical_and(x == 0.0, e >= 0.0)
    return g * prim.where(limit, 0.0, out * prim.log(x))


def larger(g: Tensor, n: Node, a: int, b: int) -> Tensor:
    """Share of input ``a`` in max(a, b): all, half at a tie, or none."""
    x, y = n.input(a), n.input(b)
    return prim.where(x < y, 0.0, prim.where(x == y, g * 0.5, g))


rule("add", (lambda g, n: g,), (lambda g, n: g,))
rule("sub", (lambda g, n: g,), (lambda g, n: -g,))
rule("mul", (lambda g, n: g * n.input(1), 1), (lambda g, n: g * n.input(0), 0))
rule(
    "div",
    (lambda g, n: g / n.input(1), 1),
    (lambda g, n: -g * ((n.input(0) / n.input(1)) / n.input(1)), 0, 1),
)
rule(
    "remainder",
    (lambda g, n: g,),
    (lambda g, n: -g * prim.floor(n.input(0) / n.input(1)), 0, 1),
)
rule("pow", (pow_base, 0, 1), (pow_exponent, 0, 1, OUT))
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
