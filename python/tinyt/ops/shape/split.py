"""Cutting tensors into views: split, chunk, unbind, select and their relatives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tinyt._capture import index
from tinyt._core import DimError, OutOfMemoryError
from tinyt.ops.common import INTEGER, wrap_dim
from tinyt.tensor import Tensor, method, prim


def _not_0d(op: str, x: Tensor) -> None:
    if x.dim() == 0:
        raise RuntimeError(f"{op}: expects at least a 1-d tensor")


_MOST_PIECES = 2**28  # of views at 200 bytes each


def _fits_in_memory(op: str, count: int) -> int:
    """A number of tensors; OutOfMemoryError where there is no use in starting with them."""
    if count > _MOST_PIECES:
        raise OutOfMemoryError(f"{op}: {count} tensors do not fit in memory")
    return count


def _pieces(x: Tensor, dim: int, sections: Sequence[int]) -> tuple[Tensor, ...]:
    ends = list(itertools.accumulate(sections))
    return tuple(prim.slice(x, dim, e - n, e) for n, e in zip(sections, ends, strict=True))


@method
def split(
    tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Views of consecutive pieces: of one size (the last may be shorter), or of given sizes."""
    _not_0d("split", tensor)
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    d = wrap_dim("split", dim, tensor.dim())
    size, step = tensor.shape[d], split_size_or_sections
    if step < 0 or (step == 0 and size):
        raise RuntimeError(f"split: split_size must be positive, got {step}")
    _fits_in_memory("split", size // (step or 1))
    return _pieces(tensor, d, [min(step, size - at) for at in range(0, size, step or 1)] or [0])


@method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive pieces of given sizes."""
    _not_0d("split_with_sizes", input)
    d = wrap_dim("split_with_sizes", dim, input.dim())
    size, sections = input.shape[d], list(split_sizes)
    if sum(sections) != size or any(n < 0 for n in sections):
        raise RuntimeError(
            f"split_with_sizes: sizes {sections} must not be negative and add up to {size} "
            f"for dimension {d}"
        )
    return _pieces(input, d, sections)


@method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` pieces of equal size (the last may be shorter)."""
    chunks = index(chunks)
    if chunks < 1:
        raise RuntimeError(f"chunk: expects at least 1 chunk, got {chunks}")
    _not_0d("chunk", input)
    size = input.shape[wrap_dim("chunk", dim, input.dim())]
    if size == 0:
        return split(input, [0] * _fits_in_memory("chunk", chunks), dim)
    return split(input, -(-size // chunks), dim)


@method
def tensor_split(
    input: Tensor, indices_or_sections: Tensor | int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Views of pieces: as many as the number says, the first ones larger by one where needed, or
    cut before each of the given indices (which are clamped as in slices)."""
    _not_0d("tensor_split", input)
    d = wrap_dim("tensor_split", dim, input.dim())
    size = input.shape[d]
    cuts = indices_or_sections
    if isinstance(cuts, Tensor):
        if cuts.dim() > 1 or cuts.dtype.name != "int64":
            raise RuntimeError(
                f"tensor_split: a tensor of cuts must be int64 and 0-d or 1-d, got "
                f"{cuts.dtype.name} of shape {tuple(cuts.shape)}"
            )
        cuts = cuts.tolist()
    if isinstance(cuts, INTEGER):
        cuts = index(cuts)
        if cuts < 1:
            raise RuntimeError(f"tensor_split: number of sections must be positive, got {cuts}")
        _fits_in_memory("tensor_split", cuts)
        small, larger = divmod(size, cuts)
        # Before any piece is made: sizes that there is no memory for raise MemoryError here.
        sizes = [small + 1] * larger + [small] * (cuts - larger)
        return _pieces(input, d, sizes)
    bounds = [0, *cuts, size]
    return tuple(prim.slice(input, d, a, b) for a, b in itertools.pairwise(bounds))


def _named_split(
    op: str, input: Tensor, cuts: int | Sequence[int], dim: int, rank: int
) -> tuple[Tensor, ...]:
    if input.dim() < rank:
        raise RuntimeError(
            f"{op}: needs at least {rank} dimensions, got shape {tuple(input.shape)}"
        )
    if isinstance(cuts, INTEGER) and (cuts < 1 or input.shape[dim] % cuts):
        raise RuntimeError(
            f"{op}: dimension {dim} of size {input.shape[dim]} is not divisible by {cuts}"
        )
    return tensor_split(input, cuts, dim)


@method
def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along the second dimension (the first of 1-d tensors)."""
    return _named_split("hsplit", input, indices_or_sections, int(input.dim() > 1), 1)


@method
def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along the first dimension of at least 2-d tensors."""
    return _named_split("vsplit", input, indices_or_sections, 0, 2)


@method
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """:func:`tensor_split` along the third dimension."""
    return _named_split("dsplit", input, indices_or_sections, 2, 3)


@method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of every index of a dimension."""
    if input.dim() == 0:
        raise DimError("unbind: expects at least a 1-d tensor")
    d = wrap_dim("unbind", dim, input.dim())
    return tuple(select(input, d, i) for i in range(_fits_in_memory("unbind", input.shape[d])))


def _integer(op: str, value: Tensor | int) -> int:
    """An int, or the value of a 0-d integer tensor."""
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(f"{op}: must be a number or 0-d, got shape {tuple(value.shape)}")
    return value.__index__()


@method
def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """A view of ``length`` elements of one dimension from ``start`` on."""
    if input.dim() == 0:
        raise RuntimeError("narrow: cannot be applied to a 0-d tensor")
    size = input.shape[wrap_dim("narrow", dim, input.dim())]
    first = _integer("narrow: start", start)
    begin = first + size if first < 0 else first
    if not (0 <= begin <= size) or length < 0 or begin + length > size:
        raise RuntimeError(
            f"narrow: start {first} and length {length} exceed dimension {dim} of size {size}"
        )
    return prim.slice(input, dim, begin, begin + length)


@method
def narrow_copy(
    input: Tensor, dim: int, start: int, length: int, *, out: Tensor | None = None
) -> Tensor:
    """A copy of what :func:`narrow` shows."""
    return prim.copy(narrow(input, dim, start, length), out=out)


@method
def select(input: Tensor, dim: int, index: Tensor | int) -> Tensor:
    """A view of one index of a dimension, without that dimension."""
    if input.dim() == 0:
        raise IndexError("select: cannot be applied to a 0-d tensor")
    d = wrap_dim("select", dim, input.dim())
    size, place = input.shape[d], _integer("select: index", index)
    if not -size <= place < size:
        raise IndexError(f"select: index {place} is out of range for dimension {d} of size {size}")
    at = place + size if place < 0 else place
    one = prim.slice(input, d, at, at + 1)
    return prim.reshape(one, tuple(n for i, n in enumerate(one.shape) if i != d))


@method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """:func:`chunk`, by the name that PyTorch has for parts that are written to on their own."""
    return tuple(chunk(input, chunks, dim))


@method
def unsafe_split(
    input: Tensor, split_size: int | Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """:func:`split`, by the name that PyTorch has for parts that are written to on their own."""
    return tuple(split(input, split_size, dim))


@method
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """:func:`split_with_sizes`, by PyTorch's name for parts that are written to on their own."""
    return tuple(split_with_sizes(input, split_sizes, dim))


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        split, split_with_sizes, chunk, tensor_split, hsplit, vsplit, dsplit, unbind, narrow,
        narrow_copy, select, unsafe_chunk, unsafe_split, unsafe_split_with_sizes,
    )
}  # fmt: skip
