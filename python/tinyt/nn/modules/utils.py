"""One number or one per axis, as PyTorch's layers take them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def _repeated(value: Any, n: int) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


def _single(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 1)


def _pair(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 2)


def _triple(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 3)


def _quadruple(value: Any) -> tuple[Any, ...]:
    return _repeated(value, 4)
