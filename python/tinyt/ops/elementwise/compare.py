"""Tests and choices: where, closeness, equality, signs and infinities."""

from __future__ import annotations

import math
from typing import Any, overload

from tinyt.ops.common import Scalar, float_or_default, need_tensor, to_dtype
from tinyt.tensor import Tensor, attach, method, prim


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
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """``|input - other| <= atol + rtol * |other|``, elementwise; equal infinities are close."""
    input, other = (need_tensor("isclose", x) for x in (input, other))
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"isclose: both tensors must have one dtype, got {input.dtype.name} and "
            f"{other.dtype.name}"
        )
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got {rtol} and {atol}")
    close = prim.eq(input, other)
    if equal_nan:
        close = prim.logical_or(close, prim.logical_and(prim.isnan(input), prim.isnan(other)))
    if rtol == 0 and atol == 0:
        return close
    input, other = (to_dtype(x, float_or_default(x)) for x in (input, other))
    error, allowed = prim.abs(input - other), prim.abs(other * rtol) + atol
    near = prim.logical_and(prim.isfinite(error), prim.le(error, allowed))
    return prim.logical_or(close, near)


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


@method
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit is set: also of -0.0 and of a NaN."""
    sign = (
        prim.copysign(1.0, input)
        if need_tensor("signbit", input).dtype.is_floating_point
        else input
    )
    return prim.lt(sign, 0, out=out)


@method
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the value is positive infinity."""
    return prim.eq(input, math.inf, out=out)


@method
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the value is negative infinity."""
    return prim.eq(input, -math.inf, out=out)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (where, isclose, allclose, equal, signbit, isposinf, isneginf)
}
