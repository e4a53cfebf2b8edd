"""Whole slices along one dimension, picked or written by a 1-d index."""

from __future__ import annotations

from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import require_held
from tinyt.dtypes import bool as bool_
from tinyt.ops.common import Number, Scalar, is_recorded, wrap_dim, write_out
from tinyt.ops.creation.filled import filled
from tinyt.ops.index.scatter import combined, int64_index
from tinyt.tensor import Tensor, method, prim


def _along(
    op: str, input: Tensor, dim: int, index: Tensor, narrow: bool = True
) -> tuple[Tensor, int]:
    """A 1-d index expanded so that it picks whole slices along ``dim``."""
    if index.dim() > 1:
        raise IndexError(f"{op}: the index must be 1-d, got shape {tuple(index.shape)}")
    d = wrap_dim(op, dim, input.dim())
    shape = [1] * max(input.dim(), 1)
    shape[d] = index.numel()
    full = list(input.shape) or [1]
    full[d] = index.numel()
    places = prim.reshape(int64_index(op, index, narrow), shape)
    return (prim.expand(places, full) if input.dim() else prim.reshape(places, ())), d


@method
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whole slices picked along ``dim`` by a 1-d index."""
    if input.dim() == 0 and index.numel() != 1:
        raise IndexError(f"index_select: a 0-d tensor has one slice, got {index.numel()} indices")
    places, d = _along("index_select", input, dim, index)
    return prim.gather(input, places, d, out=out)


def _slices(op: str, places: Tensor, source: Tensor, input: Tensor) -> Tensor:
    """The source, after a check that it fits the picked slices."""
    if places.dim() == 0 and source.numel() == 1:
        source = prim.reshape(source, ())
    if tuple(source.shape) != tuple(places.shape):
        raise ShapeError(
            f"{op}: the source has shape {tuple(source.shape)}, expected {tuple(places.shape)}"
        )
    if source.dtype is not input.dtype:
        raise DTypeError(f"{op}: the source is {source.dtype.name}, the tensor {input.dtype.name}")
    return source


def _index_add(
    op: str, into: Tensor | None, args: tuple[Tensor, int, Tensor, Tensor], alpha: Number
) -> Tensor:
    input, dim, index, source = args
    places, d = _along(op, input, dim, index)
    source = _slices(op, places, source, input)
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        require_held(op, alpha, input.dtype)
    scaled = source if alpha == 1 else prim.cast(prim.mul(source, alpha), input.dtype)
    return prim.scatter_add(input, places, scaled, d, out=into)


@method
def index_add(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    *,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with slices of ``alpha * source`` added along ``dim``, in index order."""
    return write_out(out, _index_add("index_add", None, (input, dim, index, source), alpha))


@method
def index_add_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1
) -> Tensor:
    """:func:`index_add` in place."""
    return _index_add("index_add_", self, (self, dim, index, source), alpha)


def _index_copy(
    op: str, into: Tensor | None, input: Tensor, dim: int, index: Tensor, source: Tensor
) -> Tensor:
    places, d = _along(op, input, dim, index, narrow=False)
    return prim.scatter(input, places, _slices(op, places, source, input), d, out=into)


@method
def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy with slices of ``source`` written along ``dim``; the last write stays."""
    return write_out(out, _index_copy("index_copy", None, input, dim, index, source))


@method
def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """:func:`index_copy` in place."""
    return _index_copy("index_copy_", self, self, dim, index, source)


def _index_fill(
    op: str, into: Tensor | None, args: tuple[Tensor, int, Tensor], value: Tensor | Scalar
) -> Tensor:
    input, dim, index = args
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"{op}: only supports a 0-d value tensor, got shape {tuple(value.shape)}"
        )
    if index.dtype.name != "int64":
        raise IndexError(f"{op}: the index must be int64, got {index.dtype.name}")
    if input.dim():  # negative positions count from the end here, as in PyTorch
        d = wrap_dim(op, dim, input.dim())
        index = prim.linear_index((prim.reshape(index, (index.numel(),)),), [input.shape[d]], [d])
    places, d = _along(op, input, dim, index)
    if isinstance(value, Tensor) and is_recorded(value):
        # A position that the index repeats counts once in the gradient of the value.
        hit = prim.scatter(
            prim.fill(tuple(input.shape), bool_, 0.0, 0),
            places,
            prim.fill(tuple(places.shape), bool_, 1.0, 1),
            d,
        )
        source = input if into is None else prim.copy(input)
        filled_in = prim.where(hit, prim.cast(value, input.dtype), source)
        return filled_in if into is None else into._assign(filled_in)
    dtype = input.dtype
    fill = prim.cast(value, dtype) if isinstance(value, Tensor) else filled((), dtype, value)
    return prim.scatter(input, places, prim.expand(fill, tuple(places.shape)), d, out=into)


@method
def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Scalar) -> Tensor:
    """A copy with whole slices along ``dim`` replaced by one value."""
    return _index_fill("index_fill", None, (input, dim, index), value)


@method
def index_fill_(self: Tensor, dim: int, index: Tensor, value: Tensor | Scalar) -> Tensor:
    """:func:`index_fill` in place."""
    return _index_fill("index_fill_", self, (self, dim, index), value)


def _index_reduce(
    op: str,
    into: Tensor | None,
    args: tuple[Tensor, int, Tensor, Tensor],
    reduce: str,
    include_self: bool,
) -> Tensor:
    input, dim, index, source = args
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"{op}: reduce must be prod, mean, amax or amin, got {reduce!r}")
    places, d = _along(op, input, dim, index)
    source = _slices(op, places, source, input)
    return combined(op, into, (input, d, places, source), reduce, include_self)


@method
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with slices of ``source`` combined along ``dim``, in index order.

    ``reduce``: "prod", "mean", "amax" or "amin"; see :func:`scatter_reduce`.
    """
    args = (input, dim, index, source)
    return write_out(out, _index_reduce("index_reduce", None, args, reduce, include_self))


@method
def index_reduce_(
    self: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """:func:`index_reduce` in place."""
    args = (self, dim, index, source)
    return _index_reduce("index_reduce_", self, args, reduce, include_self)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (index_select, index_add, index_copy, index_fill, index_reduce)
}
