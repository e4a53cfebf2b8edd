"""Elementwise operations: exact ones, elementary functions, conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyt.dtypes import ALL
from tinyt.testing.reference.form import Array, Formula, Row, Sized, sized

sign: Formula = lambda x: x if x.dtype == bool else 1 * (x > 0) - 1 * (x < 0)
relu: Formula = lambda x: np.where(x < 0, np.zeros((), x.dtype), x)


def nan_to_num(x: Array, nan: float = 0.0, **infinities: float) -> Array:
    """With infinities only where a value for them is given: the default depends on the dtype."""
    if x.dtype.kind != "f":
        return x
    x = np.where(np.isnan(x), nan, x)
    for name, infinity in (("posinf", np.inf), ("neginf", -np.inf)):
        x = np.where(x == infinity, infinities.get(name, infinity), x)
    return x


def heaviside(x: Array, values: Array) -> Array:
    """The step function; 0 of NaN, unlike NumPy's."""
    return np.where(x == 0, values, x > 0)


def clamp(x: Array, min: Array = None, max: Array = None) -> Array:
    x = x if min is None else np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


add: Formula = lambda x, y, *, alpha=1: np.add(x, y if alpha == 1 else alpha * y)


def floor_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        return np.floor_divide(x, np.where(y == 0, 1, y)).astype(x.dtype)
    return np.where(y == 0, x / y, np.floor_divide(x, y))


def div(x: Array, y: Array, *, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor":
        return floor_divide(x, y)
    return x / y if rounding_mode is None else np.trunc(x / y).astype(x.dtype)


def pow(x: Array, y: Array) -> Array:
    """A power; of integers a negative one is 0, but of 1 and -1."""
    if x.dtype.kind in "fc":
        return np.power(x, y)
    of_ones = np.where(abs(x) == 1, np.where(y % 2 == 0, 1, x), 0)
    return np.where(y >= 0, np.power(x, np.maximum(y, 0)), of_ones).astype(x.dtype)


def _log_of_power(want: Array, x: Array, y: Array) -> Array:
    """Of complex numbers, which errors grow with: they are made of logarithms."""
    if np.asarray(want).dtype.kind != "c":
        return 0.0
    return abs(want) * np.where(np.asarray(x) == 0, 0.0, abs(y * np.log(x)))


def angle(x: Array) -> Array:
    """Of a real -0 it is 0, as of what is not below 0."""
    return np.angle(x) if x.dtype.kind == "c" else np.angle(x + 0.0)


def _shift(function: Callable[..., Array], x: Array, by: Array, beyond: Array) -> Array:
    inside = (by >= 0) & (by < 8 * x.dtype.itemsize)
    found = function(x, np.asarray(by * inside, x.dtype))
    return np.asarray(np.where(inside, found, beyond), x.dtype)


bitwise_left_shift: Formula = lambda x, by: _shift(np.left_shift, x, by, 0)
bitwise_right_shift: Formula = lambda x, by: _shift(np.right_shift, x, by, np.where(x < 0, -1, 0))
lerp: Formula = lambda x, y, weight: x + weight * (y - x)
addcmul: Formula = lambda x, a, b, value: x + value * a * b
addcdiv: Formula = lambda x, a, b, value: x + value * a / b
rsqrt: Formula = lambda x: 1 / np.sqrt(x)
reciprocal: Formula = lambda x: 1 / x
sigmoid: Formula = lambda x: 1 / (1 + np.exp(-x))
xlogy: Formula = lambda x, y: np.where((np.asarray(x) == 0) & ~np.isnan(y), 0.0, x * np.log(y))
xlog1py: Formula = lambda x, y: np.where((np.asarray(x) == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))
view_as_complex: Formula = lambda x: x[..., 0] + 1j * x[..., 1]
view_as_real: Formula = lambda x: np.stack([x.real, x.imag], -1)


def _cast(x: Array, number: int) -> Array:
    """Converted, but for the rounding of floats."""
    dtype = ALL[number]
    if dtype.is_complex:
        return x.astype(np.complex128)
    x = x.real if x.dtype.kind == "c" else x
    return x.astype(np.float64 if dtype.is_floating_point else dtype.name)


def _of_numpy(names: str, ulp: float) -> dict[str, Row]:
    """Rows of NumPy's functions: their names, with tinyt's before where it is another."""
    pairs = (name.partition("=") for name in names.split())
    return {own: Row(getattr(np, theirs or own), ulp) for own, _, theirs in pairs}


ROWS = {
    **_of_numpy(
        "abs neg=negative conj_physical=conj square floor ceil trunc round sqrt bitwise_not=invert "
        "logical_not isnan isinf isfinite copysign maximum minimum fmax fmin fmod "
        "clamp_min=maximum clamp_max=minimum eq=equal ne=not_equal lt=less le=less_equal "
        "gt=greater ge=greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or "
        "bitwise_xor gcd lcm where sub=subtract",
        0,
    ),
    "sign": Row(sign, 0),
    "heaviside": Row(heaviside, 0),
    "relu": Row(relu, 0),
    "bitwise_left_shift": Row(bitwise_left_shift, 0),
    "bitwise_right_shift": Row(bitwise_right_shift, 0),
    "add": Row(add, 0),
    "mul": Row(sized(np.multiply, lambda _, x, y: abs(x) * abs(y)), 0),
    "div": Row(div, 0),
    "remainder": Row(np.remainder, 1),
    "floor_divide": Row(floor_divide, 1),
    "clamp": Row(clamp, 0),
    "lerp": Row(sized(lerp, lambda _, x, y, w: abs(w * (y - x)) + abs(x)), 2),
    "addcmul": Row(sized(addcmul, lambda _, x, a, b, v: abs(v * a * b)), 2),
    "addcdiv": Row(sized(addcdiv, lambda _, x, a, b, v: abs(v * a / b)), 2),
    "cast": Row(_cast, 0),
    "copy": Row(lambda x: x, 0),
    "to_device": Row(lambda x, device: x, 0),
    "view_as_real": Row(view_as_real, 0),
    "view_as_complex": Row(view_as_complex, 0),
    **_of_numpy(
        "exp exp2 expm1 log log2 log10 log1p sin cos tan asin=arcsin acos=arccos atan=arctan sinh "
        "cosh tanh asinh=arcsinh acosh=arccosh atanh=arctanh atan2=arctan2 hypot",
        Row._field_defaults["ulp"],
    ),
    "angle": Row(angle),
    "logaddexp": Row(sized(np.logaddexp, lambda _, x, y: abs(np.fmax(x, y)) + 1)),
    "logaddexp2": Row(sized(np.logaddexp2, lambda _, x, y: abs(np.fmax(x, y)) + 1)),
    "pow": Row(sized(pow, _log_of_power)),
    "log1p": Row(lambda x: Sized(np.log1p(x), 1.0 if x.dtype.kind == "c" else 0.0)),
    "reciprocal": Row(reciprocal),
    "rsqrt": Row(rsqrt),
    "sigmoid": Row(sigmoid),
    "xlogy": Row(xlogy),
    "xlog1py": Row(xlog1py),
}
