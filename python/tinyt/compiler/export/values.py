"""Operands of steps as C expressions, and the spaces that loops run over."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.source import Memory, bits_type
from tinyt.compiler.passes.views import contiguous

if TYPE_CHECKING:
    from tinyt._tensor import dtype


class Value:
    """An operand: shape, strides (in elements), dtype, and its first element as an expression."""

    def __init__(
        self, shape: Sequence[int], stride: Sequence[int], dtype: dtype, at: Memory | str
    ) -> None:
        self.shape, self.stride, self.dtype, self.at = tuple(shape), tuple(stride), dtype, at

    @property
    def numel(self) -> int:
        """Elements."""
        return prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie one after another in row-major order."""
        return self.numel == 0 or all(
            n == 1 or have == want
            for n, have, want in zip(self.shape, self.stride, contiguous(self.shape), strict=True)
        )

    def view(self, shape: Sequence[int], stride: Sequence[int], offset: int = 0) -> Value:
        """Another view of the same memory, which begins ``offset`` elements behind this one."""
        at = self.at
        if isinstance(at, Memory):
            at = at._replace(offset=at.offset + offset * self.dtype.itemsize)
        elif offset:
            at = f"{at} + {offset}"
        return Value(shape, stride, self.dtype, at)

    def as_bits(self) -> str:
        """The expression with the unsigned type of its size."""
        return pointer(self.at, bits_type(self.dtype))

    def __str__(self) -> str:
        return str(self.at)


def wide(t: dtype) -> dtype:
    """The dtype that values are computed in: float32 for halves, else their own."""
    return dtypes.float32 if t in (dtypes.float16, dtypes.bfloat16) else t


def pointer(at: Memory | str, type_: str) -> str:
    """An expression as a pointer to another type."""
    return str(at._replace(type=type_)) if isinstance(at, Memory) else f"({type_}*)({at})"


def broadcast(x: Value, shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a value over a shape that it broadcasts to."""
    lead = len(shape) - len(x.shape)
    return (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(x.shape, x.stride, strict=True))


def merged(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """A space with as few dimensions as will do, at least one: neighbours become one where all
    strides go on from one to the other.

    >>> merged([2, 3, 4], [[12, 4, 1], [4, 0, 1]])
    ([2, 3, 4], [[12, 4, 1], [4, 0, 1]])
    >>> merged([2, 3, 4], [[12, 4, 1], [12, 4, 1]])
    ([24], [[1], [1]])
    """
    merged_shape: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        goes_on = bool(merged_shape) and all(
            s[-1] == given[d] * n for s, given in zip(steps, strides, strict=True)
        )
        if goes_on:
            merged_shape[-1] *= n
        else:
            merged_shape.append(n)
        for s, given in zip(steps, strides, strict=True):
            if goes_on:
                s[-1] = given[d]
            else:
                s.append(given[d])
    if not merged_shape:
        return [1], [[0] for _ in strides]
    return merged_shape, steps
