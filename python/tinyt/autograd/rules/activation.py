"""Gradient rules of activations: one kernel, or operations where these are differentiated again.

``SLOPES`` holds the derivative of each, written with primitives; :func:`backward` makes of it what
the row ``name_backward`` computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp, is_grad_enabled
from tinyt.autograd.rules.common import OUT, rule, widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor

# The linear and the cubic factor inside the hyperbolic tangent of gelu's approximation.
GELU_TANH = (math.sqrt(2 / math.pi), 0.044715)


def number(value: float, like: Tensor) -> Tensor:
    """A number in the dtype of ``like``."""
    return prim.fill((), like.dtype, value, 0)


def sigmoid_slope(y: Tensor) -> Tensor:
    """(1 - y) y, from the output."""
    return (1.0 - y) * y


def tanh_slope(y: Tensor) -> Tensor:
    """1 - y^2, from the output."""
    return 1.0 - y * y


def gelu_slope(x: Tensor) -> Tensor:
    """Phi(x) + x phi(x)."""
    bell = prim.exp(prim.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return prim.erfc(x * -math.sqrt(0.5)) * 0.5 + x * bell


def gelu_tanh_slope(x: Tensor) -> Tensor:
    """(1 + t) / 2 + x (1 - t^2) u' / 2 with t = tanh(u)."""
    linear, cubic = GELU_TANH
    z = prim.square(x)
    t = prim.tanh(x * (z * cubic + 1.0) * linear)
    inner = (z * (3 * cubic) + 1.0) * linear
    return (t + 1.0) * 0.5 + x * 0.5 * (1.0 - t * t) * inner


def silu_slope(x: Tensor) -> Tensor:
    """s (1 + x (1 - s)) with s = sigmoid(x)."""
    s = prim.sigmoid(x)
    return s * (x * (1.0 - s) + 1.0)


def mish_slope(x: Tensor) -> Tensor:
    """t + x s (1 - t^2) with s = sigmoid(x), t = tanh(log(1 + e^x))."""
    c = prim.clamp(x, -1e4, 22.0)  # beyond, t is 1 or 0
    e = prim.exp(c)
    r = 1.0 / (e * (e + 2.0) + 2.0)
    return r * (e * (e + 2.0) + c * 4.0 * (e * (e + 1.0) * r))


def logsigmoid_slope(x: Tensor) -> Tensor:
    """sigmoid(-x)."""
    return prim.sigmoid(-x)


def hardsigmoid_slope(x: Tensor) -> Tensor:
    """1/6 between -3 and 3."""
    return prim.where(prim.logical_and(x > -3.0, x < 3.0), number(1 / 6, x), 0.0)


def hardswish_slope(x: Tensor) -> Tensor:
    """x / 3 + 1/2 between -3 and 3; 0 below and 1 above."""
    return prim.where(x <= -3.0, 0.0, prim.where(x >= 3.0, 1.0, x / 3.0 + 0.5))


def relu_slope(y: Tensor) -> Tensor:
    """1 where the output is positive or a NaN."""
    return prim.where(y <= 0.0, 0.0, number(1.0, y))


def leaky_relu_slope(x: Tensor, negative_slope: Tensor) -> Tensor:
    """1 where positive, else ``negative_slope``."""
    return prim.where(x > 0.0, 1.0, negative_slope)


def elu_slope(x: Tensor, alpha: Tensor) -> Tensor:
    """1 where positive, else alpha e^x; the exponential never sees a large argument."""
    above = x > 0.0
    return prim.where(above, 1.0, prim.exp(prim.where(above, 0.0, x)) * alpha)


def softplus_slope(scaled: Tensor, threshold: Tensor) -> Tensor:
    """sigmoid(beta x), 1 where beta x is above the threshold; takes beta x."""
    return prim.where(scaled > threshold, 1.0, prim.sigmoid(scaled))


def sigmoid_nll_slope(x: Tensor, target: Tensor) -> Tensor:
    """sigmoid(x) - t; where x is positive, of the complements of both, which do not cancel."""
    return prim.where(x < 0.0, prim.sigmoid(x) - target, (1.0 - target) - prim.sigmoid(-x))


SLOPES: dict[str, Callable[..., Tensor]] = {
    "relu": relu_slope,
    "sigmoid": sigmoid_slope,
    "tanh": tanh_slope,
    "gelu": gelu_slope,
    "gelu_tanh": gelu_tanh_slope,
    "silu": silu_slope,
    "mish": mish_slope,
    "logsigmoid": logsigmoid_slope,
    "hardsigmoid": hardsigmoid_slope,
    "hardswish": hardswish_slope,
    "leaky_relu": leaky_relu_slope,
    "elu": elu_slope,
    "softplus": softplus_slope,
    "sigmoid_nll": sigmoid_nll_slope,
}


def backward(name: str) -> Callable[..., Tensor]:
    """What the row ``name_backward`` computes, in primitives: ``g`` times the slope."""
    slope = SLOPES[name]

    def composed(g: Tensor, x: Tensor, *parameters: Tensor) -> Tensor:
        return prim.cast(widen(g) * slope(widen(x), *parameters), g.dtype)

    return composed


def gradient_of(name: str) -> Callable[..., Tensor]:
    """The kernel of ``name_backward``, or its composite where that is recorded on the tape."""
    fused, composed = getattr(prim, name + "_backward"), backward(name)

    def gradient(g: Tensor, *args: Tensor) -> Tensor:
        result: Tensor = (composed if is_grad_enabled() else fused)(g, *args)
        return result

    return gradient


def from_output(name: str) -> None:
    """Registers an activation whose gradient is computed from its output."""
    gradient = gradient_of(name)
    rule(name, (compiled_vjp("from_output", lambda g, n: gradient(g, n.output())), OUT))


def from_input(name: str) -> None:
    """Registers an activation of one input."""
    gradient = gradient_of(name)
    rule(name, (compiled_vjp("from_input", lambda g, n: gradient(g, n.input(0))), 0))


for _name in ("relu", "sigmoid", "tanh"):
    from_output(_name)
for _name in ("gelu", "gelu_tanh", "silu", "mish", "logsigmoid", "hardsigmoid", "hardswish"):
    from_input(_name)

_leaky_relu, _elu, _softplus, _sigmoid_nll = (
    gradient_of(name) for name in ("leaky_relu", "elu", "softplus", "sigmoid_nll")
)


def softplus_grad(g: Tensor, n: Node) -> Tensor:
    """The slope is a function of beta x."""
    return _softplus(g, widen(n.input(0)) * n.input(1), n.input(2))


rule(
    "leaky_relu",
    (lambda g, n: _leaky_relu(g, n.input(0), n.input(1)), 0, 1),
    (lambda g, n: prim.where(n.input(0) > 0.0, 0.0, g * n.input(0)), 0),
)
rule("elu", (lambda g, n: _elu(g, n.input(0), n.input(1)), 0, 1), None)
rule("softplus", (softplus_grad, 0, 1, 2), None, None)
rule(
    "sigmoid_nll",
    (lambda g, n: _sigmoid_nll(g, n.input(0), n.input(1)), 0, 1),
    (lambda g, n: -g * n.input(0), 0),
)
