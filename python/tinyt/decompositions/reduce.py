"""Reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import mean_over, widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


def nansum(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The sum of what is a number."""
    return prim.sum(prim.where(prim.isnan(x), 0.0, x), dims, keepdim)


def norm(x: Tensor, dims: tuple[int, ...], keepdim: bool, p: float) -> Tensor:
    """Vector norms of order 1, 2, inf and -inf."""
    wide = widen(x)
    if p == 2:
        found = prim.sqrt(prim.sum(prim.square(wide), dims, keepdim))
    elif p == 1:
        found = prim.sum(prim.abs(wide), dims, keepdim)
    else:
        found = (prim.amax if p > 0 else prim.amin)(prim.abs(wide), dims, keepdim)
    return prim.cast(found, x.dtype)


def variance(x: Tensor, dims: tuple[int, ...], keepdim: bool, correction: float) -> Tensor:
    """Of floats or complex numbers, over some dimensions or (none) all; in two passes."""
    axes = dims or tuple(range(x.dim()))
    away = x - mean_over(x, axes)
    square = prim.square(prim.abs(away) if x.dtype.is_complex else away)
    count = math.prod(x.shape[d] for d in axes)
    # No degrees of freedom: 0/0 and x/0 as PyTorch has them (NaN and inf).
    return prim.sum(square, axes, keepdim) / max(count - correction, 0.0)


def var(
    x: Tensor, dims: tuple[int, ...], keepdim: bool, correction: float, root: bool = False
) -> Tensor:
    """The variance or its root."""
    found = variance(widen(x), dims, keepdim, correction)
    return prim.cast(prim.sqrt(found) if root else found, x.dtype)


def logsumexp(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """log(sum(exp(x))), shifted by the largest value so that nothing overflows."""
    wide = widen(x)
    if x.numel() == 0:
        return prim.cast(prim.log(prim.sum(wide, dims, keepdim)), x.dtype)
    top = prim.amax(wide.detach(), dims, True)
    top = prim.where(prim.isfinite(top), top, 0.0)
    total = prim.log(prim.sum(prim.exp(wide - top), dims, keepdim))
    return prim.cast(total + prim.reshape(top, tuple(total.shape)), x.dtype)


def sum_squares(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of squares of each tensor, side by side."""
    sums = [prim.sum(prim.square(x), tuple(range(x.dim())), False) for x in tensors]
    return prim.cat(tuple(prim.reshape(x, (1,)) for x in sums), 0)


ROWS: dict[str, Callable[..., Any]] = {
    "nansum": nansum,
    "norm": norm,
    "var": var,
    "logsumexp": logsumexp,
    "sum_squares": sum_squares,
}
