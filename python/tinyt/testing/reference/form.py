"""Rows of the reference table, and what all families use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

Array = Any  # NumPy's, which need not be there
Sizes = int | Sequence[int]
Formula = Callable[..., Any]  # of one line


class Sized(NamedTuple):
    """A result, and the sizes that its bound depends on. ``below``: the factor of exponentials in
    float32 that are 0 where they would be subnormal; ``flushed``: that of bfloat16 numbers and of
    sums of theirs, which units that multiply them take for 0."""

    want: Any
    scale: Any = 0.0
    rounded: Any = 0.0
    below: Any = 0.0
    flushed: Any = 0.0


class Row(NamedTuple):
    """The meaning of an operation, and its bound. 0: the correctly rounded result."""

    function: Callable[..., Any]
    ulp: float = 4.0


def sized(function: Callable[..., Any], scale: Callable[..., Any]) -> Callable[..., Sized]:
    """A function whose bound has the size ``scale(result, *arguments)``."""

    def call(*args: Any) -> Sized:
        want = function(*args)
        return Sized(want, scale(want, *args))

    return call


def at(*index: Any) -> tuple[Any, ...]:
    """An index of parts, some of which were unpacked."""
    return index


def line(x: Array) -> Array:
    """A scalar as a line of one element."""
    return x.reshape(1) if x.ndim == 0 else x


def each(value: Sizes, n: int) -> tuple[int, ...]:
    """A number for each of n dimensions."""
    return (value,) * n if isinstance(value, int) else tuple(value)
