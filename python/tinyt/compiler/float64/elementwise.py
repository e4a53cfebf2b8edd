"""Elementwise operations: exact ones, functions, activations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized
from tinyt.dtypes import ALL


def _exact() -> dict[str, Row]:
    """Operations whose result is the rounded one, and those on integers and bool."""
    import numpy as np

    def divide_floor(x: Array, y: Array) -> Array:
        if x.dtype.kind != "f":
            return np.floor_divide(x, np.where(y == 0, 1, y)).astype(x.dtype)
        return np.where(y == 0, x / y, np.floor_divide(x, y))

    def shifted(x: Array, by: Array, left: bool) -> Array:
        bits = 8 * x.dtype.itemsize
        inside = (by >= 0) & (by < bits)
        n = np.where(inside, by, 0).astype(x.dtype)
        beyond = np.zeros_like(x) if left else np.where(x < 0, -1, 0).astype(x.dtype)
        return np.where(inside, np.left_shift(x, n) if left else np.right_shift(x, n), beyond)

    def clamp(x: Array, low: Array, high: Array) -> Array:
        return np.minimum(np.maximum(x, low), high)

    names = (
        "abs conj_physical=conj square floor ceil trunc sqrt bitwise_not=invert "
        "logical_not isnan isinf isfinite copysign maximum minimum fmax fmin "
        "clamp_min=maximum clamp_max=minimum eq=equal ne=not_equal lt=less le=less_equal "
        "gt=greater ge=greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or "
        "bitwise_xor gcd lcm where"
    )
    rows = {}
    for name in names.split():
        own, _, theirs = name.partition("=")
        rows[own] = Row(getattr(np, theirs or own), 0)
    return rows | {
        "neg": Row(lambda x: -x, 0),
        "sign": Row(lambda x: x if x.dtype == bool else 1 * (x > 0) - 1 * (x < 0), 0),
        "round": Row(np.rint, 0),
        "heaviside": Row(lambda x, y: np.where(x == 0, y, x > 0), 0),  # 0 of NaN, unlike NumPy's
        "relu": Row(lambda x: np.maximum(x, 0), 0),
        "bitwise_left_shift": Row(lambda x, y: shifted(x, y, True), 0),
        "bitwise_right_shift": Row(lambda x, y: shifted(x, y, False), 0),
        "add": Row(lambda x, y: x | y if x.dtype == bool else x + y, 0),
        "sub": Row(lambda x, y: x - y, 0),
        "mul": Row(lambda x, y: x & y if x.dtype == bool else Sized(x * y, abs(x) * abs(y)), 0),
        "div": Row(lambda x, y: x / y, 0),
        "fmod": Row(np.fmod, 0),
        "remainder": Row(np.remainder, 1),
        "floor_divide": Row(divide_floor, 1),
        "clamp": Row(clamp, 0),
        "lerp": Row(lambda x, y, w: Sized(x + w * (y - x), abs(w * (y - x)) + abs(x)), 2),
        "addcmul": Row(lambda x, a, b, v: Sized(x + v * a * b, abs(v * a * b)), 2),
        "addcdiv": Row(lambda x, a, b, v: Sized(x + v * a / b, abs(v * a / b)), 2),
        "cast": Row(_cast, 0),
        "copy": Row(lambda x: x, 0),
        "to_device": Row(lambda x, device: x, 0),
    }


def _cast(x: Array, number: int) -> Array:
    """Converted, but for the rounding of floats."""
    import numpy as np

    dtype = ALL[number]
    if dtype.is_complex:
        return x.astype(np.complex128)
    x = x.real if x.dtype.kind == "c" else x
    if dtype.is_floating_point:
        return x.astype(np.float64)
    return x.astype(dtype.name)


def _functions() -> dict[str, Row]:
    """Elementary and special functions."""
    import numpy as np

    def of_numbers(function: Callable[[float], float]) -> Callable[[Array], Array]:
        def value(x: float) -> float:
            try:
                return function(x)
            except (ValueError, OverflowError):
                return math.nan if x != x or x == -math.inf else math.inf

        return lambda x: np.asarray(np.frompyfunc(value, 1, 1)(x), np.float64)

    def xlogy(x: Array, y: Array, log: Any) -> Array:
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * log(y))

    names = (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin=arcsin acos=arccos atan=arctan sinh "
        "cosh tanh asinh=arcsinh acosh=arccosh atanh=arctanh atan2=arctan2 hypot logaddexp "
        "logaddexp2 angle reciprocal"
    )
    rows = {}
    for name in names.split():
        own, _, theirs = name.partition("=")
        rows[own] = Row(getattr(np, theirs or own))
    return rows | {
        "logaddexp": Row(lambda x, y: Sized(np.logaddexp(x, y), abs(np.fmax(x, y)) + 1)),
        "logaddexp2": Row(lambda x, y: Sized(np.logaddexp2(x, y), abs(np.fmax(x, y)) + 1)),
        "pow": Row(lambda x, y: np.power(x, y) if x.dtype.kind in "fc" else _int_power(x, y)),
        "log1p": Row(lambda x: Sized(np.log1p(x), 1.0 if x.dtype.kind == "c" else 0.0)),
        "rsqrt": Row(lambda x: 1 / np.sqrt(x)),
        "sigmoid": Row(_sigmoid),
        "erf": Row(of_numbers(math.erf)),
        "erfc": Row(of_numbers(math.erfc)),
        "lgamma": Row(lambda x: Sized(of_numbers(math.lgamma)(x), 1.0)),
        "xlogy": Row(lambda x, y: xlogy(x, y, np.log)),
        "xlog1py": Row(lambda x, y: xlogy(x, y, np.log1p)),
    }


def _int_power(x: Array, y: Array) -> Array:
    """Of integers: a negative power is 0, but of 1 and -1."""
    import numpy as np

    found = np.power(x, np.maximum(y, 0))
    ones = np.where(y % 2 == 0, 1, x)
    return np.where(y >= 0, found, np.where(abs(x) == 1, ones, 0)).astype(x.dtype)


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """x y, and what rounding it left out (Dekker 1971)."""

    def halves(a: Array) -> tuple[Array, Array]:
        high = a * 134217729.0  # 2^27 + 1
        high = high - (high - a)
        return high, a - high

    p, (a, b), (c, d) = x * y, halves(x), halves(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


_FAR = 40.0  # where the normal distribution has no more in float64


def _phi(x: Array) -> Array:
    """With the rounding of x / sqrt(2), which the far tail multiplies."""
    import numpy as np

    x = np.clip(x, -_FAR, _FAR)
    z, error = _product(x, np.float64(math.sqrt(0.5)))
    error = error - 4.833646656726457e-17 * x  # sqrt(0.5) rounded
    tail = np.asarray(np.frompyfunc(math.erfc, 1, 1)(-z), np.float64)
    return 0.5 * tail + error * np.exp(-z * z) / math.sqrt(math.pi)


def _bell(x: Array) -> Array:
    """e^(-x^2 / 2)."""
    import numpy as np

    square, error = _product(*[np.clip(x, -_FAR, _FAR)] * 2)
    return np.exp(-square / 2) * (1 - error / 2)


def _sigmoid(x: Array) -> Array:
    import numpy as np

    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    import numpy as np

    return np.maximum(x, 0) + np.log1p(np.exp(-abs(x)))


def _tanh_of(x: Array) -> Array:
    import numpy as np

    return np.tanh(math.sqrt(2 / math.pi) * x * (1 + 0.044715 * x * x))


def _gelu(x: Array) -> Sized:
    """Where its factor is subnormal, that multiplies its error."""
    import numpy as np

    least = np.finfo(np.float64).tiny * np.minimum(abs(x), _FAR)
    return Sized(np.where(np.isinf(x) & (x < 0), -0.0, x * _phi(x)), least)


def _gelu_slope(x: Array) -> Array:
    return _phi(x) + x * _bell(x) / math.sqrt(2 * math.pi)


def _gelu_tanh_slope(x: Array) -> Array:

    t, inner = _tanh_of(x), math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x * x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner


def _mish_slope(x: Array) -> Array:
    import numpy as np

    t = np.tanh(_softplus(x))
    return t + x * (1 - t * t) * _sigmoid(x)


def _silu_slope(x: Array) -> Array:

    return _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))


def _activations() -> dict[str, Row]:
    import numpy as np

    def sloped(slope: Callable[..., Array]) -> Callable[..., Sized]:
        return lambda g, x, *more: Sized(g * slope(x, *more), abs(g))

    def sized(function: Callable[..., Array], size: Any = lambda x: abs(x)) -> Callable[..., Sized]:
        return lambda x, *more: Sized(function(x, *more), size(x))

    def inside(x: Array) -> Array:
        return (x > -3) & (x < 3)

    return {
        "relu_backward": Row(lambda g, y: np.where(y <= 0, 0.0, g), 0),
        "sigmoid_backward": Row(sloped(lambda y: y * (1 - y))),
        "tanh_backward": Row(sloped(lambda y: 1 - y * y)),
        "gelu": Row(_gelu, 8),
        "gelu_backward": Row(sloped(_gelu_slope)),
        "gelu_tanh": Row(sized(lambda x: 0.5 * x * (1 + _tanh_of(x)))),
        "gelu_tanh_backward": Row(sloped(_gelu_tanh_slope), 8),
        "silu": Row(lambda x: Sized(x * _sigmoid(x), 1e-30)),
        "silu_backward": Row(sloped(_silu_slope)),
        "mish": Row(lambda x: Sized(x * np.tanh(_softplus(x)), 1e-30), 8),
        "mish_backward": Row(sloped(_mish_slope), 8),
        "logsigmoid": Row(lambda x: -_softplus(-x)),
        "logsigmoid_backward": Row(sloped(lambda x: _sigmoid(-x))),
        "hardsigmoid": Row(sized(lambda x: np.clip(x / 6 + 0.5, 0, 1), lambda x: 1.0)),
        "hardsigmoid_backward": Row(lambda g, x: np.where(inside(x), g / 6, 0.0)),
        "hardswish": Row(sized(lambda x: x * np.clip(x / 6 + 0.5, 0, 1))),
        "hardswish_backward": Row(
            sloped(lambda x: np.where(x <= -3, 0.0, np.where(x >= 3, 1.0, x / 3 + 0.5)))
        ),
        "leaky_relu": Row(lambda x, slope: np.where(x > 0, x, x * slope), 1),
        "leaky_relu_backward": Row(lambda g, x, slope: np.where(x > 0, g, g * slope), 1),
        "elu": Row(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))),
        "elu_backward": Row(
            lambda g, x, alpha: np.where(x > 0, g, g * alpha * np.exp(np.minimum(x, 0)))
        ),
        "softplus": Row(lambda x, b, limit: np.where(x * b > limit, x, _softplus(x * b) / b)),
        "sigmoid_nll": Row(
            lambda x, t: Sized(
                np.where(x < 0, -t, 1 - t) * x + _softplus(-abs(x)), abs(x) * (1 + abs(t))
            )
        ),
        "sigmoid_nll_backward": Row(
            lambda g, x, t: Sized(
                g * np.where(x < 0, _sigmoid(x) - t, 1 - t - _sigmoid(-x)),
                abs(g) * np.maximum(abs(t), abs(1 - t)),
            )
        ),
        "softplus_backward": Row(lambda g, x, limit: np.where(x > limit, g, g * _sigmoid(x))),
    }


def _bessel(order: int, scaled: bool) -> Callable[[Array], Array]:
    """I0 and I1 by their integral over a quarter of a period, which the midpoint rule gives
    exactly; from 100 on by Hankel's expansion (DLMF 10.40.1)."""
    import numpy as np

    angle = (np.arange(24) + 0.5) * (math.pi / 48)
    c, below = np.cos(angle), 2 * np.sin(angle / 2) ** 2  # what it is below 1

    def integral(a: Array) -> Array:
        twice = np.expm1(-2 * a[..., None] * c)  # e^-a c times 2 sinh(a c), or 2 cosh
        lines = -twice * c if order else 2 + twice
        return (lines * np.exp(-a[..., None] * below)).mean(-1) / 2

    def expansion(a: Array) -> Array:
        term = found = np.ones_like(a)
        for k in range(1, 12):
            term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * a)
            found = found + term
        return found / np.sqrt(2 * math.pi * a)

    def value(x: Array) -> Array:
        a = abs(x)
        found = np.where(a < 100, integral(np.minimum(a, 100)), expansion(np.maximum(a, 100)))
        if not scaled:
            half = np.exp(a / 2)  # the whole is finite where e^a is not any more
            found = np.where(np.isinf(a), a, found * half * half)
        return Sized(np.copysign(found, x) if order else found, 0.0)

    return value


def _special() -> dict[str, Row]:
    """Functions that NumPy has not."""
    import numpy as np

    def erfinv(x: Array) -> Array:
        """Newton's method, from Winitzki's approximation; with erfc where x is near one."""
        a = np.minimum(abs(x), 1.0)
        log = np.log1p(-a * a)
        half = 2 / (math.pi * 0.147) + log / 2
        y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
        y = np.where(np.isfinite(y), y, 0.0)
        for _ in range(5):
            below = np.asarray(np.frompyfunc(math.erf, 1, 1)(y), np.float64) - a
            above = (1 - a) - np.asarray(np.frompyfunc(math.erfc, 1, 1)(y), np.float64)
            y = y - np.where(a < 0.5, below, above) * np.exp(y * y) * (math.sqrt(math.pi) / 2)
        y = np.where(a == 1, np.inf, y)
        return np.where(abs(x) > 1, np.nan, np.copysign(y, x))

    def digamma(x: Array) -> Array:
        """By reflection, recurrence, and the asymptotic series from 16 on."""
        y = np.where(x < 0.5, 1 - x, x)
        found = np.zeros_like(y)
        for _ in range(16):
            small = y < 16
            found = np.where(small, found - 1 / y, found)
            y = np.where(small, y + 1, y)
        r = 1 / (y * y)
        series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r / 132))))
        found = found + np.log(y) - 0.5 / y - series
        found = np.where(x < 0.5, found - math.pi / np.tan(math.pi * (x - np.rint(x))), found)
        return Sized(found, 1.0 + 1.0 / np.maximum(abs(x - np.rint(x)), 1e-8))  # beside a pole

    return {
        "i0": Row(_bessel(0, False), 8),
        "i0e": Row(_bessel(0, True), 8),
        "i1": Row(_bessel(1, False), 16),
        "i1e": Row(_bessel(1, True), 16),
        "erfinv": Row(lambda x: erfinv(x.reshape(-1)).reshape(x.shape), 8),
        "digamma": Row(digamma, 16),
    }


def rows() -> dict[str, Row]:
    """Their rows."""
    return _exact() | _functions() | _activations() | _special()
