"""Elementwise functions. Those of the op table are primitives; the rest are composites of them.

All broadcast their operands and promote dtypes as PyTorch does.
"""

from __future__ import annotations

import math
from typing import Any

from tinyt import _tensor
from tinyt._autograd import zero_gradient
from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import Size
from tinyt._tensor import dtype as DType
from tinyt.dtypes import bool as bool_
from tinyt.dtypes import complex128, float32, float64, get_default_dtype, result_type
from tinyt.ops.common import (
    Number,
    Scalar,
    attach_primitives,
    is_half,
    is_recorded,
    need_tensor,
    overwrite,
    to_dtype,
    wide,
    write_out,
)
from tinyt.tensor import Tensor, attach, method, prim

PRIMITIVES: dict[str, Any] = attach_primitives("scalar")
for _name in (  # PyTorch has them in `special` alone, or as parts of a distribution
    "i0e", "i1", "i1e", "xlog1py", "zeta", "erfcx", "log_ndtr", "ndtri", "gammainc", "gammaincc",
    "standard_gamma_grad", "dirichlet_grad",
):  # fmt: skip
    del PRIMITIVES[_name]
    delattr(Tensor, _name)

_ALIASES = {
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "negative": "neg",
    "absolute": "abs",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "fix": "trunc",
}
for _alias, _name in _ALIASES.items():
    PRIMITIVES[_alias] = getattr(prim, _name)
    for _suffix in ("", "_"):
        setattr(Tensor, _alias + _suffix, getattr(Tensor, _name + _suffix))


def _scaled_type(op: str, input: Any, other: Any, alpha: Scalar) -> DType:
    """The dtype of ``input + alpha * other``, to which ``alpha`` does not add: DTypeError where
    the two are integers or bools and it is a float. Complex where it is."""
    kind = result_type(input, other)
    if isinstance(alpha, float) and not (kind.is_floating_point or kind.is_complex):
        raise DTypeError(
            f"{op}: for integers and bools alpha must be an integer, got {alpha} and {kind.name}"
        )
    return result_type(input, other, alpha) if isinstance(alpha, complex) else kind


def _refuse_bools(op: str, *operands: Any) -> None:
    """DTypeError where an operand of a difference is bool."""
    for x in operands:
        if isinstance(x, bool) or (isinstance(x, Tensor) and x.dtype is bool_):
            raise DTypeError(f"{op}: not defined for bool tensors; use ^ or logical_xor")


_add_product_ = _tensor.primitive_method("addcmul", True)


@method
def add(
    input: Tensor | Scalar, other: Tensor | Scalar, *, alpha: Scalar = 1, out: Tensor | None = None
) -> Tensor:
    """``input + alpha * other``."""
    if alpha == 1:
        return prim.add(input, other, out=out)
    kind = _scaled_type("add", input, other, alpha)
    if kind is bool_:
        return prim.add(input, prim.logical_and(other, alpha), out=out)
    if kind.is_complex:
        return prim.add(input, prim.mul(other, alpha), out=out)
    return prim.addcmul(input, other, alpha, 1, out=out)


@method
def add_(self: Tensor, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """Adds ``alpha * other`` in place."""
    if alpha == 1:
        self += other
        return self
    kind = _scaled_type("add_", self, other, alpha)
    if kind is bool_:
        self += prim.logical_and(other, alpha)
    elif kind.is_complex:
        self += prim.mul(other, alpha)
    else:
        _add_product_(self, other, alpha, 1)
    return self


@method
def sub(
    input: Tensor | Scalar, other: Tensor | Scalar, *, alpha: Scalar = 1, out: Tensor | None = None
) -> Tensor:
    """``input - alpha * other``."""
    if alpha == 1:
        return prim.sub(input, other, out=out)
    _refuse_bools("sub", input, other)
    return add(input, other, alpha=-alpha, out=out)


@method
def sub_(self: Tensor, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """Subtracts ``alpha * other`` in place."""
    if alpha == 1:
        self -= other
        return self
    _refuse_bools("sub_", self, other)
    return add_(self, other, alpha=-alpha)


def rsub(input: Tensor, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """``other - alpha * input``."""
    return sub(other, input, alpha=alpha)


@method
def div(
    input: Tensor | Scalar,
    other: Tensor | Scalar,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Quotient; ``rounding_mode`` "floor" or "trunc" rounds it and keeps integers integers."""
    if rounding_mode is None:
        return prim.div(input, other, out=out)
    if rounding_mode == "floor":
        return prim.floor_divide(input, other, out=out)
    if rounding_mode == "trunc":
        dtype = result_type(input, other)
        if dtype.is_floating_point:
            return _truncated(input, other, dtype, out)
        floored = prim.floor_divide(input, other)
        # floor and trunc differ by one where the signs differ and a remainder is left.
        inexact = prim.ne(prim.fmod(input, other), 0)
        fix = prim.logical_and(inexact, prim.lt(floored, 0))
        return write_out(out, prim.add(floored, prim.cast(fix, floored.dtype)))
    raise RuntimeError(
        f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}"
    )


def _truncated(
    input: Tensor | Scalar, other: Tensor | Scalar, dtype: DType, out: Tensor | None
) -> Tensor:
    """The whole part of a quotient, of halves that of float32's; its gradient is zero."""
    pair = [wide(x.detach()) if isinstance(x, Tensor) else x for x in (input, other)]
    quotient = to_dtype(prim.trunc(prim.div(*pair)), dtype)
    for x in (input, other):
        quotient = zero_gradient(quotient, x) if isinstance(x, Tensor) else quotient
    return write_out(out, quotient)


@method
def div_(self: Tensor, other: Tensor | Scalar, *, rounding_mode: str | None = None) -> Tensor:
    """Divides in place."""
    if rounding_mode is None:
        self /= other
        return self
    return overwrite(self, div, other, rounding_mode=rounding_mode)


@method
def pow(input: Tensor | Scalar, exponent: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``; RuntimeError for integers with a negative integer exponent."""
    _check_power("pow", input, exponent)
    return prim.pow(input, exponent, out=out)


def _check_power(op: str, input: Tensor | Scalar, exponent: Tensor | Scalar) -> None:
    if (
        isinstance(exponent, int)
        and exponent < 0
        and isinstance(input, Tensor)
        and not (input.dtype.is_floating_point or input.dtype.is_complex)
    ):
        raise RuntimeError(
            f"{op}: integers to negative integer powers are not allowed, got exponent {exponent}"
        )


@method
def pow_(self: Tensor, exponent: Tensor | Scalar) -> Tensor:
    """Raises to a power in place."""
    _check_power("pow_", self, exponent)
    self **= exponent
    return self


attach(__pow__=pow)


def _divmod(self: Tensor, other: Tensor | Number) -> tuple[Tensor, Tensor]:
    """``(self // other, self % other)``."""
    return prim.floor_divide(self, other), prim.remainder(self, other)


def _rdivmod(self: Tensor, other: Number) -> tuple[Tensor, Tensor]:
    """``(other // self, other % self)``."""
    return prim.floor_divide(other, self), prim.remainder(other, self)


def _rdiv(self: Tensor, other: Number) -> Tensor:
    """``other / self``."""
    return prim.div(other, self)


attach(__divmod__=_divmod, __rdivmod__=_rdivmod, __rdiv__=_rdiv)


@method
def float_power(
    input: Tensor | Scalar, exponent: Tensor | Scalar, *, out: Tensor | None = None
) -> Tensor:
    """``input ** exponent`` in float64 (complex128 for complex operands)."""
    wide = complex128 if result_type(input, exponent).is_complex else float64
    operands = [prim.cast(x, wide) if isinstance(x, Tensor) else x for x in (input, exponent)]
    return prim.pow(*operands, out=out)


@method
def float_power_(self: Tensor, exponent: Tensor | Scalar) -> Tensor:
    """Raises to a power in place; RuntimeError unless the tensor is float64 (or complex128)."""
    if self.dtype not in (float64, complex128):
        raise DTypeError(f"float_power_: the result is float64, the tensor {self.dtype.name}")
    return overwrite(self, float_power, exponent)


@method
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 2 ** other``, also where ``2 ** other`` alone leaves the range; in the dtype of
    input and other, the default float for integers."""
    kind = result_type(input, other)
    if kind.is_complex:
        return prim.mul(input, prim.exp2(other), out=out)
    kind = kind if kind.is_floating_point else get_default_dtype()
    wide = float32 if kind.itemsize == 2 else kind
    x, power = (
        to_dtype(v, wide) if isinstance(v, Tensor) else prim.fill((), wide, float(v), 0)
        for v in (input, other)
    )
    low, high = (-1022, 1023) if wide is float64 else (-126, 127)
    # The factors are normal numbers; the last takes all that it can: the others round nothing.
    whole = power.detach()
    last = prim.clamp(whole, low, high)
    rest = prim.sub(whole, last)
    middle = prim.clamp(rest, low, high)
    first = prim.clamp(prim.sub(rest, middle), low, high)
    if is_recorded(power):  # a zero with all of its gradient
        last = prim.add(last, prim.sub(power, whole))
    last = prim.where(prim.isinf(whole), power, last)
    for part in (first, middle, last):
        x = prim.mul(x, prim.exp2(part))
    return write_out(out, to_dtype(x, kind))


@method
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """Multiplies by ``2 ** other`` in place."""
    return overwrite(input, ldexp, other)


@method
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below zero, 1 above it, ``values`` at it. Both tensors must have one dtype."""
    input, values = (need_tensor("heaviside", x) for x in (input, values))
    if input.dtype is not values.dtype:
        raise DTypeError(
            f"heaviside: input and values must have one dtype, got {input.dtype.name} and "
            f"{values.dtype.name}"
        )
    return prim.heaviside(input, values, out=out)


@method
def heaviside_(self: Tensor, values: Tensor) -> Tensor:
    """The step function in place."""
    return overwrite(self, heaviside, values)


@method
def positive(input: Tensor) -> Tensor:
    """The tensor itself; RuntimeError for bool."""
    if need_tensor("positive", input).dtype.name == "bool":
        raise DTypeError("positive: not defined for dtype bool")
    return input


attach(__pos__=positive)


@method
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input - trunc(input)``, with the sign of the input; floats only."""
    if not need_tensor("frac", input).dtype.is_floating_point:
        raise DTypeError(f"frac: not defined for dtype {input.dtype.name}")
    return prim.sub(input, prim.trunc(input), out=out)


@method
def frac_(input: Tensor) -> Tensor:
    """Takes the whole part away in place."""
    return overwrite(input, frac)


@method
def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, halves to even; or the nearest multiple of ``10 ** -decimals``."""
    if decimals == 0:
        return prim.round(input, out=out)
    if not need_tensor("round", input).dtype.is_floating_point:
        raise DTypeError(f"round: decimals are for floats only, got {input.dtype.name}")
    scale = 10.0 ** min(abs(decimals), 308)
    if is_half(input):
        return write_out(out, to_dtype(round(wide(input), decimals=decimals), input.dtype))
    if decimals > 0:
        return prim.div(prim.round(input * scale), scale, out=out)
    return prim.mul(prim.round(input / scale), scale, out=out)


@method
def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Rounds in place."""
    return overwrite(input, round, decimals=decimals)


@method
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * pi / 180``; integers become the default float."""
    return prim.mul(input, math.pi / 180, out=out)


@method
def deg2rad_(input: Tensor) -> Tensor:
    """Degrees to radians in place."""
    return overwrite(input, deg2rad)


@method
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input * 180 / pi``; integers become the default float."""
    return prim.mul(input, 180 / math.pi, out=out)


@method
def rad2deg_(input: Tensor) -> Tensor:
    """Radians to degrees in place."""
    return overwrite(input, rad2deg)


def broadcast_shapes(*shapes: tuple[int, ...] | int) -> Size:
    """The shape that the shapes broadcast to; ShapeError where they do not."""
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in sizes), default=0)
    result = [1] * rank
    for size in sizes:
        for d, n in enumerate(size, rank - len(size)):
            if n < 0:
                raise ShapeError(f"broadcast_shapes: sizes must not be negative, got {sizes}")
            if n != 1 and result[d] not in (1, n):
                raise ShapeError(f"broadcast_shapes: {sizes} do not broadcast at dimension {d}")
            result[d] = n if n != 1 else result[d]
    return Size(result)


# What the family exports: the composites above over the primitives.
EXPORTS: dict[str, Any] = {
    **PRIMITIVES,
    "multiply": prim.mul,
    "true_divide": prim.div,
    **{
        f.__name__: f
        for f in (
            add, sub, rsub, div, pow, float_power, ldexp, heaviside, positive, frac, round,
            deg2rad, rad2deg, broadcast_shapes,
        )
    },
    "subtract": sub,
    "divide": div,
}  # fmt: skip
for _alias in ("multiply", "true_divide"):
    _name = "mul" if _alias == "multiply" else "div"
    setattr(Tensor, _alias, getattr(Tensor, _name))
    setattr(Tensor, _alias + "_", getattr(Tensor, _name + "_"))
attach(subtract=sub, subtract_=sub_, divide=div, divide_=div_)
