"""Matrix products."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import widen
from tinyt.dtypes import int32
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


def int_mm(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in int32."""
    return prim.matmul(prim.cast(a, int32), prim.cast(b, int32))


def matmul_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a @ b + c; halves are rounded once."""
    if a.dtype.is_floating_point:
        return prim.cast(prim.matmul(widen(a), widen(b)) + widen(c), a.dtype)
    return prim.matmul(a, b) + c


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A product with the transposed weight; a 0-d bias is none."""
    columns = prim.permute(weight, (1, 0))
    return matmul_add(x, columns, bias) if bias.dim() else prim.matmul(x, columns)


ROWS: dict[str, Callable[..., Any]] = {
    "int_mm": int_mm,
    "matmul_add": matmul_add,
    "linear": linear,
}
