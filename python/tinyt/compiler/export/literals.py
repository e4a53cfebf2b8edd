"""Tensors as initialisers of C, and as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tinyt import dtypes

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


def whole(x: Tensor) -> Tensor:
    """The memory of a tensor from its first element to its last, 1-d."""
    if x.numel() == 0:
        return x.reshape(-1)
    last = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    return x.as_strided((last + 1,), (1,))


def bytes_of(x: Tensor) -> bytes:
    """The elements as they lie in memory, row-major."""
    flat = x.detach().contiguous().view(-1)
    return flat.view(dtypes.uint8).numpy().tobytes() if x.numel() else b""


def rows_of(x: Tensor) -> Iterator[str]:
    """The elements as lines of an initialiser."""
    values = values_of(x) or ["0"]
    per_line = 8
    for i in range(0, len(values), per_line):
        yield "  " + " ".join(f"{v}," for v in values[i : i + per_line])


def values_of(x: Tensor) -> list[str]:
    """The elements as literals, row-major."""
    if x.numel() == 0:
        return []
    flat = x.detach().contiguous().view(-1)
    if x.dtype in (dtypes.bool, dtypes.float16, dtypes.bfloat16):
        flat = flat.view({1: dtypes.uint8, 2: dtypes.int16}[x.dtype.itemsize])
    suffix = "f" if x.dtype is dtypes.float32 else ""
    mask = 0xFFFF if x.dtype in (dtypes.float16, dtypes.bfloat16) else None
    return [_literal(v, suffix, mask) for v in flat.tolist()]


def _literal(value: Any, suffix: str, mask: int | None) -> str:
    if isinstance(value, float):
        if value != value:
            return "NAN"
        if value in (float("inf"), float("-inf")):
            return "INFINITY" if value > 0 else "-INFINITY"
        return value.hex() + suffix
    if mask is not None:
        value &= mask
    return "(-0x7fffffffffffffff - 1)" if value == -(2**63) else str(value)
