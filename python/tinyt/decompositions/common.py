"""What decompositions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


def zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Zeros of a shape in the dtype of ``like``."""
    return prim.fill(shape, like.dtype, 0.0, 0)


def widen(x: Tensor) -> Tensor:
    """Halves as float32, others as they are."""
    return prim.cast(x, 8) if x.dtype.itemsize == 2 else x


def transposed(x: Tensor) -> Tensor:
    """x with its last two dimensions swapped."""
    order = list(range(x.dim()))
    order[-1], order[-2] = order[-2], order[-1]
    return prim.permute(x, tuple(order))


def mean_over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean over some dimensions, kept as size 1."""
    total = prim.sum(x, axes, True)
    return total / (x.numel() / max(total.numel(), 1))
