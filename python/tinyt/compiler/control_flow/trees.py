"""Nested tuples, lists and dicts of tensors, as control flow takes and gives them."""

from __future__ import annotations

from typing import Any

from tinyt._capture import describe, rebuild
from tinyt.tensor import Tensor


def _is_part(value: Any) -> bool:
    return not isinstance(value, (tuple, list, dict))


def flatten(value: Any) -> tuple[list[Any], Any]:
    """The leaves of a nested value, and a description of how they are nested."""
    leaves: list[Any] = []
    return leaves, describe(value, leaves, _is_part)


def unflatten(description: Any, leaves: list[Any]) -> Any:
    """The nested value again, of other leaves."""
    return rebuild(description, leaves)


def kind_of(x: Any) -> str:
    """What of a leaf must agree, in words."""
    if isinstance(x, Tensor):
        return f"{x.dtype.name}{list(x.shape)}"
    return "None" if x is None else type(x).__name__


def mismatch(first: list[Any], second: list[Any]) -> tuple[int, str, str] | None:
    """The first position at which leaves have not one shape and dtype, and what is there."""
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            is_same = a.dtype is b.dtype and a.shape == b.shape
        else:
            is_same = kind_of(a) == kind_of(b)
        if not is_same:
            return i, kind_of(a), kind_of(b)
    return None


def require_tensors(op: str, what: str, leaves: list[Any]) -> None:
    """RuntimeError where a leaf is no tensor."""
    for x in leaves:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{op}: {what} must consist of tensors, got {type(x).__name__}")
