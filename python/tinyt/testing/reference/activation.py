"""Activation functions, and their gradients."""

from __future__ import annotations

import math

import numpy as np

from tinyt.testing.reference.elementwise import sigmoid
from tinyt.testing.reference.form import Array, Formula, Row, Sized, sized
from tinyt.testing.reference.special import erfc

_FAR = 40.0  # where the normal distribution has no more in float64


def rectified(x: Array, negative: Array) -> Array:
    """x where positive, else `negative`; a NaN stays."""
    return np.where(x > 0, x, negative)


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """x y, and what rounding it left out (Dekker 1971)."""

    def halves(a: Array) -> tuple[Array, Array]:
        high = a * 134217729.0  # 2^27 + 1
        high = high - (high - a)
        return high, a - high

    p, (a, b), (c, d) = x * y, halves(x), halves(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


def _phi(x: Array) -> Array:
    """The normal distribution, with the rounding of x / sqrt(2), which the far tail multiplies."""
    x = np.clip(x, -_FAR, _FAR)
    z, error = _product(x, np.float64(math.sqrt(0.5)))
    error = error - 4.833646656726457e-17 * x  # sqrt(0.5) rounded
    return 0.5 * erfc(-z) + error * np.exp(-z * z) / math.sqrt(math.pi)


def _bell(x: Array) -> Array:
    """e^(-x^2 / 2)."""
    square, error = _product(*[np.clip(x, -_FAR, _FAR)] * 2)
    return np.exp(-square / 2) * (1 - error / 2)


_tanh_of: Formula = lambda x: np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x))


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + _tanh_of(x))
    return np.where(np.isinf(x) & (x < 0), -0.0, x * _phi(x))


silu: Formula = lambda x: x * sigmoid(x)
mish: Formula = lambda x: x * np.tanh(np.logaddexp(0, x))
elu: Formula = lambda x, alpha=1.0: rectified(x, alpha * np.expm1(np.minimum(x, 0)))
celu: Formula = lambda x, alpha=1.0: rectified(x, alpha * np.expm1(x / alpha))
selu: Formula = lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)
leaky_relu: Formula = lambda x, negative_slope=0.01: rectified(x, x * negative_slope)


def prelu(x: Array, weight: Array) -> Array:
    shape = () if weight.size == 1 else [-1 if d == 1 else 1 for d in range(x.ndim)]
    return rectified(x, x * weight.reshape(shape))


rrelu: Formula = lambda x, lower=1 / 8, upper=1 / 3: rectified(x, x * (lower + upper) / 2)
threshold: Formula = lambda x, threshold, value: np.where(
    x <= threshold, np.asarray(value, x.dtype), x
)
hardtanh: Formula = lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val).astype(
    x.dtype
)
relu6: Formula = lambda x: hardtanh(x, 0, 6)
hardsigmoid: Formula = lambda x: np.clip(x / 6 + 0.5, 0, 1)
hardswish: Formula = lambda x: x * hardsigmoid(x)
hardshrink: Formula = lambda x, lambd=0.5: np.where((x >= -lambd) & (x <= lambd), 0.0, x)
softshrink: Formula = lambda x, lambd=0.5: np.sign(x) * np.maximum(np.abs(x) - lambd, 0)


def softplus(x: Array, beta: Array = 1.0, threshold: Array = 20.0) -> Array:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


logsigmoid: Formula = lambda x: -np.logaddexp(0, -x)
softsign: Formula = lambda x: x / (1 + np.abs(x))
tanhshrink: Formula = lambda x: x - np.tanh(x)


def glu(x: Array, dim: int = -1) -> Array:
    a, b = np.split(x, 2, axis=dim)
    return a * sigmoid(b)


_gelu_slope: Formula = lambda x: _phi(x) + x * _bell(x) / math.sqrt(2 * math.pi)


def _gelu_tanh_slope(x: Array) -> Array:
    t, inner = _tanh_of(x), math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner


def _mish_slope(x: Array) -> Array:
    t = np.tanh(np.logaddexp(0, x))
    return t + x * (1 - t * t) * sigmoid(x)


_hardswish_slope: Formula = lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5))
_sloped: Formula = lambda slope, ulp=4: Row(lambda g, x: Sized(g * slope(x), abs(g)), ulp)


# The factor of gelu, where that is subnormal, multiplies its error.
_TINY = float(np.finfo(np.float64).tiny)

ROWS = {
    "relu_backward": Row(lambda g, y: np.where(y <= 0, 0.0, g), 0),
    "sigmoid_backward": _sloped(lambda y: y * (1 - y)),
    "tanh_backward": _sloped(lambda y: 1 - y * y),
    "gelu": Row(sized(gelu, lambda _, x: _TINY * np.minimum(abs(x), _FAR)), 8),
    "gelu_backward": _sloped(_gelu_slope),
    "gelu_tanh": Row(lambda x: Sized(gelu(x, "tanh"), abs(x))),
    "gelu_tanh_backward": _sloped(_gelu_tanh_slope, 8),
    "silu": Row(sized(silu, lambda _, x: 1e-30)),
    "silu_backward": _sloped(lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x)))),
    "mish": Row(sized(mish, lambda _, x: 1e-30), 8),
    "mish_backward": _sloped(_mish_slope, 8),
    "logsigmoid": Row(logsigmoid),
    "logsigmoid_backward": _sloped(lambda x: sigmoid(-x)),
    "hardsigmoid": Row(sized(hardsigmoid, lambda _, x: 1.0)),
    "hardsigmoid_backward": Row(lambda g, x: np.where((x > -3) & (x < 3), g / 6, 0.0)),
    "hardswish": Row(sized(hardswish, lambda _, x: abs(x))),
    "hardswish_backward": _sloped(_hardswish_slope),
    "leaky_relu": Row(leaky_relu, 1),
    "leaky_relu_backward": Row(lambda g, x, slope: np.where(x > 0, g, g * slope), 1),
    "elu": Row(elu),
    "elu_backward": Row(
        lambda g, x, alpha: np.where(x > 0, g, g * alpha * np.exp(np.minimum(x, 0)))
    ),
    "softplus": Row(softplus),
    "softplus_backward": Row(lambda g, x, limit: np.where(x > limit, g, g * sigmoid(x))),
}
