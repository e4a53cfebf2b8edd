"""What a row of the table of `float64` is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Array = Any  # NumPy's, which need not be there


def at(*index: Any) -> tuple[Any, ...]:
    """An index of parts, some of which were unpacked."""
    return index


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
