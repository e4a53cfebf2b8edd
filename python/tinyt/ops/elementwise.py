"""Elementwise functions. Those of the op table are primitives; the rest are composites of them.

All broadcast their operands and promote dtypes as PyTorch does.
"""

from __future__ import annotations

from typing import Any, overload

from tinyt._core import ShapeError
from tinyt.ops.common import Number, Scalar, attach_primitives, write_out
from tinyt.tensor import Tensor, attach, method, prim

PRIMITIVES: dict[str, Any] = attach_primitives("scalar")
delattr(Tensor, "where")  # the method has another order of arguments

_ALIASES = {
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


@method
def add(
    input: Tensor | Scalar, other: Tensor | Scalar, *, alpha: Scalar = 1, out: Tensor | None = None
) -> Tensor:
    """``input + alpha * other``."""
    if alpha != 1:
        other = prim.mul(other, alpha)
    return prim.add(input, other, out=out)


@method
def add_(self: Tensor, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """Adds ``alpha * other`` in place."""
    self += other if alpha == 1 else prim.mul(other, alpha)
    return self


@method
def sub(
    input: Tensor | Scalar, other: Tensor | Scalar, *, alpha: Scalar = 1, out: Tensor | None = None
) -> Tensor:
    """``input - alpha * other``."""
    if alpha != 1:
        other = prim.mul(other, alpha)
    return prim.sub(input, other, out=out)


@method
def sub_(self: Tensor, other: Tensor | Scalar, *, alpha: Scalar = 1) -> Tensor:
    """Subtracts ``alpha * other`` in place."""
    self -= other if alpha == 1 else prim.mul(other, alpha)
    return self


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
        floored = prim.floor_divide(input, other)
        if floored.dtype.is_floating_point:
            return write_out(out, prim.trunc(prim.div(input, other)))
        # floor and trunc differ by one where the signs differ and a remainder is left.
        inexact = prim.ne(prim.remainder(input, other), 0)
        fix = prim.logical_and(inexact, prim.lt(floored, 0))
        return write_out(out, prim.add(floored, prim.cast(fix, floored.dtype)))
    raise RuntimeError(
        f"div: rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}"
    )


@method
def div_(self: Tensor, other: Tensor | Scalar, *, rounding_mode: str | None = None) -> Tensor:
    """Divides in place."""
    if rounding_mode is None:
        self /= other
        return self
    return self._assign(div(self, other, rounding_mode=rounding_mode))


@method
def pow(input: Tensor | Scalar, exponent: Tensor | Scalar, *, out: Tensor | None = None) -> Tensor:
    """``input ** exponent``; RuntimeError for integers with a negative integer exponent."""
    if (
        isinstance(exponent, int)
        and exponent < 0
        and isinstance(input, Tensor)
        and not (input.dtype.is_floating_point or input.dtype.is_complex)
    ):
        raise RuntimeError(
            f"pow: integers to negative integer powers are not allowed, got exponent {exponent}"
        )
    return prim.pow(input, exponent, out=out)


attach(__pow__=pow)


@overload
def where(condition: Tensor, input: None = None, other: None = None) -> tuple[Tensor, ...]: ...
@overload
def where(
    condition: Tensor,
    input: Tensor | Scalar,
    other: Tensor | Scalar,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def where(
    condition: Tensor,
    input: Tensor | Scalar | None = None,
    other: Tensor | Scalar | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """``input`` where ``condition`` (bool) is true, else ``other``; alone: the true positions."""
    if input is None or other is None:
        if input is not other:
            raise TypeError("where: needs both input and other, or neither")
        places = prim.nonzero(condition)
        return tuple(
            prim.reshape(prim.slice(places, 1, d, d + 1), (places.shape[0],))
            for d in range(places.shape[1])
        )
    return prim.where(condition, input, other, out=out)


def _tensor_where(self: Tensor, condition: Tensor, other: Tensor | Scalar) -> Tensor:
    """``self`` where ``condition`` is true, else ``other``."""
    return prim.where(condition, self, other)


attach(where=_tensor_where)


@method
def clamp(
    input: Tensor,
    min: Tensor | Number | None = None,
    max: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Limits values to [min, max]; NaN stays; ``max`` wins where ``min > max``."""
    if min is None and max is None:
        raise RuntimeError("clamp: at least one of min and max must not be None")
    result = input
    if min is not None:
        result = prim.where(prim.lt(result, min), min, result)
    if max is not None:
        result = prim.where(prim.gt(result, max), max, result)
    return write_out(out, result)


@method
def clamp_(
    self: Tensor, min: Tensor | Number | None = None, max: Tensor | Number | None = None
) -> Tensor:
    """Limits values in place."""
    return self._assign(clamp(self, min, max))


@method
def clip(
    input: Tensor,
    min: Tensor | Number | None = None,
    max: Tensor | Number | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Alias of :func:`clamp`."""
    return clamp(input, min, max, out=out)


@method
def clamp_min(input: Tensor, min: Tensor | Number) -> Tensor:
    """Limits values from below."""
    return clamp(input, min=min)


@method
def clamp_max(input: Tensor, max: Tensor | Number) -> Tensor:
    """Limits values from above."""
    return clamp(input, max=max)


@method
def clamp_min_(self: Tensor, min: Tensor | Number) -> Tensor:
    """Limits values from below in place."""
    return self._assign(clamp(self, min=min))


@method
def clamp_max_(self: Tensor, max: Tensor | Number) -> Tensor:
    """Limits values from above in place."""
    return self._assign(clamp(self, max=max))


@method
def addcmul(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Scalar = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input + value * tensor1 * tensor2``."""
    product = tensor1 * tensor2
    return prim.add(input, product if value == 1 else product * value, out=out)


@method
def addcmul_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """Adds ``value * tensor1 * tensor2`` in place."""
    product = tensor1 * tensor2
    self += product if value == 1 else product * value
    return self


@method
def addcdiv(
    input: Tensor,
    tensor1: Tensor,
    tensor2: Tensor,
    *,
    value: Scalar = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``input + value * tensor1 / tensor2``."""
    quotient = tensor1 / tensor2
    return prim.add(input, quotient if value == 1 else quotient * value, out=out)


@method
def addcdiv_(self: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """Adds ``value * tensor1 / tensor2`` in place."""
    quotient = tensor1 / tensor2
    self += quotient if value == 1 else quotient * value
    return self


@method
def lerp(
    input: Tensor, end: Tensor, weight: Tensor | Number, *, out: Tensor | None = None
) -> Tensor:
    """``input + weight * (end - input)``; PyTorch's form that is exact at both ends."""
    if not isinstance(weight, Tensor):
        if abs(weight) < 0.5:
            return prim.add(input, (end - input) * weight, out=out)
        return prim.sub(end, (end - input) * (1 - weight), out=out)
    low, high = input + (end - input) * weight, end - (end - input) * (1 - weight)
    return prim.where(prim.lt(prim.abs(weight), 0.5), low, high, out=out)


@method
def lerp_(self: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """Moves towards ``end`` by ``weight`` in place."""
    return self._assign(lerp(self, end, weight))


@method
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, elementwise; equal infinities are close."""
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"isclose: both tensors must have one dtype, got {input.dtype.name} and "
            f"{other.dtype.name}"
        )
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    close = prim.eq(input, other)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        if rtol == 0 and atol == 0:
            return close
        input, other = input * 1.0, other * 1.0
    near = prim.le(prim.abs(input - other), prim.abs(other * rtol) + atol)
    close = prim.logical_or(close, prim.logical_and(near, prim.isfinite(other)))
    if equal_nan:
        close = prim.logical_or(close, prim.logical_and(prim.isnan(input), prim.isnan(other)))
    return close


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see :func:`isclose`)."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


@method
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements."""
    if tuple(input.shape) != tuple(other.shape):
        return False
    return bool(prim.eq(input, other).all().item())


def broadcast_shapes(*shapes: tuple[int, ...] | int) -> tuple[int, ...]:
    """The shape that the shapes broadcast to; ShapeError where they do not."""
    sizes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in sizes), default=0)
    result = [1] * rank
    for size in sizes:
        for d, n in enumerate(size, rank - len(size)):
            if n != 1 and result[d] not in (1, n):
                raise ShapeError(f"broadcast_shapes: {sizes} do not broadcast at dimension {d}")
            result[d] = n if n != 1 else result[d]
    return tuple(result)


# What the family exports: the composites above over the primitives.
EXPORTS: dict[str, Any] = {
    **PRIMITIVES,
    "multiply": prim.mul,
    "true_divide": prim.div,
    **{
        f.__name__: f
        for f in (
            add, sub, rsub, div, pow, where, clamp, clip, clamp_min, clamp_max, addcmul, addcdiv,
            lerp, isclose, allclose, equal, broadcast_shapes,
        )
    },
    "subtract": sub,
    "divide": div,
}  # fmt: skip
for _alias in ("multiply", "true_divide"):
    _name = "mul" if _alias == "multiply" else "div"
    setattr(Tensor, _alias, getattr(Tensor, _name))
    setattr(Tensor, _alias + "_", getattr(Tensor, _name + "_"))
attach(subtract=sub, divide=div)
