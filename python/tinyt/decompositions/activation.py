"""Activations and their gradients.

``SLOPES`` holds the derivative of each; :func:`backward` makes of it what the row
``name_backward`` computes. Halves are computed in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import widen
from tinyt.tensor import prim

if TYPE_CHECKING:
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
    x = prim.clamp(x, -40.0, 40.0)  # beyond, it is 0 or 1
    bell = prim.exp(prim.square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    return prim.erfc(x * -math.sqrt(0.5)) * 0.5 + x * bell


def gelu_tanh_slope(x: Tensor) -> Tensor:
    """(1 + t) / 2 + x (1 - t^2) u' / 2 with t = tanh(u)."""
    linear, cubic = GELU_TANH
    x = prim.clamp(x, -40.0, 40.0)  # beyond, it is 0 or 1
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


def gelu(x: Tensor) -> Tensor:
    """x Phi(x)."""
    x = prim.clamp_min(x, -40.0)  # below, it is 0
    return x * 0.5 * prim.erfc(x * -math.sqrt(0.5))


def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    linear, cubic = GELU_TANH
    return x * 0.5 * (prim.tanh(x * (prim.square(x) * cubic + 1.0) * linear) + 1.0)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * prim.sigmoid(x)


def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x))."""
    return x * prim.tanh(softplus(x, 1.0, 20.0))


def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return prim.clamp_max(x, 0.0) - prim.log1p(prim.exp(-prim.abs(x)))


def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return prim.clamp(x + 3.0, 0.0, 6.0) / 6.0


def hardswish(x: Tensor) -> Tensor:
    """x min(max(x + 3, 0), 6) / 6."""
    return x * hardsigmoid(x)


def leaky_relu(x: Tensor, negative_slope: Tensor | float) -> Tensor:
    """x where positive, else ``negative_slope`` x."""
    return prim.where(x > 0.0, x, x * negative_slope)


def elu(x: Tensor, alpha: Tensor | float) -> Tensor:
    """x where positive, else alpha (e^x - 1); the exponential never sees a large argument."""
    positive = x > 0.0
    return prim.where(positive, x, prim.expm1(prim.where(positive, 0.0, x)) * alpha)


def softplus(x: Tensor, beta: Tensor | float, threshold: Tensor | float) -> Tensor:
    """log(1 + e^(beta x)) / beta; x where beta x is above the threshold."""
    scaled = x * beta
    linear = scaled > threshold
    return prim.where(linear, x, prim.log1p(prim.exp(prim.where(linear, 0.0, scaled))) / beta)


def sigmoid_nll(x: Tensor, target: Tensor) -> Tensor:
    """(1 - t) x - log(sigmoid(x)), which is -t x - log(sigmoid(-x)) where x is negative."""
    slope = prim.where(x < 0.0, -target, 1.0 - target)
    return slope * x + prim.log1p(prim.exp(-prim.abs(x)))


def _rounded_once(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Halves are computed in float32."""

    def call(x: Tensor, *parameters: Tensor | float) -> Tensor:
        return prim.cast(function(widen(x), *parameters), x.dtype)

    return call


_ACTIVATIONS = (
    gelu, gelu_tanh, silu, mish, logsigmoid, hardsigmoid, hardswish, leaky_relu, elu, softplus,
    sigmoid_nll,
)  # fmt: skip

ROWS: dict[str, Callable[..., Any]] = {
    **{f.__name__: _rounded_once(f) for f in _ACTIVATIONS},
    **{f"{name}_backward": backward(name) for name in SLOPES},
}
