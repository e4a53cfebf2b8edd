"""Reading and writing at computed positions along a dimension."""

from __future__ import annotations

import math
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.ops.common import Scalar, need_tensor, wrap_dim, write_out
from tinyt.ops.creation.filled import filled
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.tensor import Tensor, method, prim

# ---- gather and scatter


def int64_index(op: str, index: Tensor, narrow: bool = True) -> Tensor:
    """An int64 index from an int64 or (where PyTorch takes it) int32 one."""
    if need_tensor(op, index).dtype.name == "int64":
        return index
    if narrow and index.dtype.name == "int32":
        return prim.cast(index, 5)
    # An empty index is let through: an empty list becomes a float tensor.
    if index.numel() == 0:
        return prim.fill(tuple(index.shape), 5, 0.0, 0)
    wanted = "int32 or int64" if narrow else "int64"
    raise DTypeError(f"{op}: the index must be {wanted}, got {index.dtype.name}")


@method
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """Elements picked along ``dim`` by an integer index of the same rank.

    ``out[i][j] = input[index[i][j]][j]`` for ``dim=0``. IndexError for an index outside the size.
    """
    return prim.gather(input, int64_index("gather", index), dim, out=out)


def _source(op: str, input: Tensor, index: Tensor, src: Any, value: Any) -> Tensor:
    if (src is None) == (value is None):
        raise TypeError(f"{op}: needs either src or value")
    given = value if src is None else src
    if isinstance(given, Tensor) and src is not None:
        return given
    if isinstance(given, Tensor):
        given = given.item()
    return prim.expand(filled((), input.dtype, given), tuple(index.shape))


# The primitives' numbers of scatter_reduce; see ops.def.
_REDUCTIONS = {"prod": 0, "amax": 1, "amin": 2}


def _scatter(
    op: str,
    into: Tensor | None,
    args: tuple[Tensor, int, Tensor, Any, Any],
    reduce: str | None,
) -> Tensor:
    """scatter as a copy, or written ``into`` the input."""
    input, dim, index, src, value = args
    places = int64_index(op, index)
    source = _source(op, input, index, src, value)
    if reduce is None:
        return prim.scatter(input, places, source, dim, out=into)
    if reduce == "add":
        return prim.scatter_add(input, places, source, dim, out=into)
    if reduce == "multiply":
        return prim.scatter_reduce(input, places, source, dim, _REDUCTIONS["prod"], out=into)
    raise RuntimeError(f"{op}: reduce must be 'add' or 'multiply', got {reduce!r}")


@method
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Scalar | None = None,
    *,
    value: Scalar | None = None,
    reduce: str | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``src`` (or a number) written along ``dim`` where the index says.

    Where an index repeats, the last write stays; ``reduce="add"`` or ``"multiply"`` combines
    them with the input instead, in index order.
    """
    return write_out(out, _scatter("scatter", None, (input, dim, index, src, value), reduce))


@method
def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Scalar | None = None,
    *,
    value: Scalar | None = None,
    reduce: str | None = None,
) -> Tensor:
    """:func:`scatter` in place."""
    return _scatter("scatter_", self, (self, dim, index, src, value), reduce)


@method
def scatter_add(
    input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor:
    """A copy with ``src`` added along ``dim`` where the index says, in index order."""
    places = int64_index("scatter_add", index)
    return write_out(out, prim.scatter_add(input, places, src, dim))


@method
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """:func:`scatter_add` in place."""
    return prim.scatter_add(self, int64_index("scatter_add_", index), src, dim, out=self)


def _identity(reduce: str, like: Tensor) -> Tensor:
    """What changes nothing when combined: 0, 1, or the extreme value of the dtype."""
    if reduce in ("sum", "mean"):
        return filled((), like.dtype, 0)
    if reduce == "prod":
        return filled((), like.dtype, 1)
    low = reduce == "amax"
    if like.dtype.name == "bool":
        return filled((), like.dtype, not low)
    if like.dtype.is_floating_point:
        return filled((), like.dtype, -math.inf if low else math.inf)
    bits = 8 * like.itemsize
    signed = like.dtype.is_signed
    least = -(2 ** (bits - 1)) if signed else 0
    most = 2 ** (bits - 1) - 1 if signed else 2**bits - 1
    return prim.fill((), like.dtype, 0.0, least if low else most)


def combined(
    op: str,
    into: Tensor | None,
    args: tuple[Tensor, int, Tensor, Tensor],
    reduce: str,
    include_self: bool,
) -> Tensor:
    """scatter_reduce as a copy, or written ``into`` the input; the index is int64."""
    input, dim, index, src = args
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce not in ("sum", "mean", *_REDUCTIONS):
        raise RuntimeError(f"{op}: reduce must be sum, prod, mean, amax or amin, got {reduce!r}")
    start = input
    if not include_self:
        blank = prim.expand(_identity(reduce, input), tuple(index.shape))
        start = prim.scatter(input, index, blank, dim)
    out = into if include_self and reduce != "mean" else None
    if reduce in _REDUCTIONS:
        result = prim.scatter_reduce(start, index, src, dim, _REDUCTIONS[reduce], out=out)
    else:
        result = prim.scatter_add(start, index, src, dim, out=out)
    if reduce == "mean":
        one = prim.fill(tuple(index.shape), 5, 0.0, 1)
        first = prim.fill(tuple(input.shape), 5, 0.0, int(include_self))
        count = prim.maximum(prim.scatter_add(first, index, one, dim), 1)
        result = (prim.div if is_float(input) else prim.floor_divide)(
            result, prim.cast(count, input.dtype)
        )
    return into._assign(result) if into is not None and out is None else result


def is_float(x: Tensor) -> bool:
    """Whether quotients of the dtype stay in it."""
    return x.dtype.is_floating_point or x.dtype.is_complex


@method
def scatter_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Tensor | None = None,
) -> Tensor:
    """A copy with ``src`` combined along ``dim`` where the index says, in index order.

    ``reduce``: "sum", "prod", "mean", "amax" or "amin". Without ``include_self`` the input's own
    value does not take part where anything is written.
    """
    args = (input, dim, int64_index("scatter_reduce", index), src)
    return write_out(out, combined("scatter_reduce", None, args, reduce, include_self))


@method
def scatter_reduce_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """:func:`scatter_reduce` in place."""
    args = (self, dim, int64_index("scatter_reduce_", index), src)
    return combined("scatter_reduce_", self, args, reduce, include_self)


# ---- positions in the flattened tensor


def _flat_places(op: str, input: Tensor, index: Tensor) -> Tensor:
    """Positions in the flattened input, from the end where negative."""
    if index.dtype.name != "int64":
        raise DTypeError(f"{op}: the index must be int64, got {index.dtype.name}")
    return prim.linear_index((index,), [input.numel()], [0])


@method
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Elements of the flattened input, in the shape of the index."""
    places = _flat_places("take", input, index)
    flat = prim.reshape(input, (input.numel(),))
    return write_out(out, prim.reshape(prim.gather(flat, places, 0), tuple(index.shape)))


@method
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy with ``source`` written (or added, in order) at positions of the flattened tensor."""
    if source.dtype is not input.dtype:
        raise DTypeError(f"put: the source is {source.dtype.name}, the tensor {input.dtype.name}")
    if source.numel() != index.numel():
        raise ShapeError(
            f"put: the source has {source.numel()} elements, the index {index.numel()}"
        )
    places = _flat_places("put", input, index)
    flat = prim.reshape(input, (input.numel(),))
    values = prim.reshape(source, (source.numel(),))
    out = (prim.scatter_add if accumulate else prim.scatter)(flat, places, values, 0)
    return prim.reshape(out, tuple(input.shape))


@method
def put_(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """:func:`put` in place."""
    return self._assign(put(self, index, source, accumulate))


@method
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Like :func:`gather`, with broadcasting; over the flattened input without ``dim``."""
    if indices.dtype.name != "int64":
        raise DTypeError(f"take_along_dim: the indices must be int64, got {indices.dtype.name}")
    if dim is None:
        flat = prim.reshape(input, (input.numel(),))
        return take_along_dim(flat, prim.reshape(indices, (indices.numel(),)), 0, out=out)
    if input.dim() != indices.dim():
        raise ShapeError(
            "take_along_dim: input and indices must have the same rank, got shapes "
            f"{tuple(input.shape)} and {tuple(indices.shape)}"
        )
    d = wrap_dim("take_along_dim", dim, input.dim())
    shape = list(broadcast_shapes(
        tuple(1 if i == d else n for i, n in enumerate(input.shape)),
        tuple(1 if i == d else n for i, n in enumerate(indices.shape)),
    ))  # fmt: skip
    if not shape:
        return prim.gather(input, indices, 0, out=out)
    wide = list(shape)
    wide[d], shape[d] = input.shape[d], indices.shape[d]
    size = input.shape[d]
    places = prim.linear_index((indices,), [size], [d])
    index = prim.expand(prim.reshape(places, tuple(indices.shape)), shape)
    return prim.gather(prim.expand(input, wide), index, d, out=out)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        gather, scatter, scatter_add, scatter_reduce, take, put, take_along_dim,
    )
}  # fmt: skip
