"""Weight normalisation (Salimans & Kingma 2016): a length and a direction for each slice."""

from __future__ import annotations

from typing import Any

from tinyt.ops.common import in_float32, wrap_dim
from tinyt.tensor import Tensor


@in_float32
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of order ``pow`` over all dimensions but ``dim``, which are of size 1 in the
    result; over all dimensions, as a 0-d tensor, for ``dim=-1``."""
    if dim == -1:
        return v.norm(pow)
    kept = wrap_dim("norm_except_dim", dim, v.dim())
    others = tuple(d for d in range(v.dim()) if d != kept)
    return v.norm(pow, others, True) if others else v.abs()


@in_float32
def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """``v * (g / norm_except_dim(v, 2, dim))``."""
    return v * (g / norm_except_dim(v, 2, dim))


EXPORTS: dict[str, Any] = {f.__name__: f for f in (norm_except_dim, _weight_norm)}
