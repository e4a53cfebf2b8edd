"""Shapes and views: views where strides allow, copies elsewhere, as in PyTorch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt import _tensor
from tinyt._core import ShapeError
from tinyt._tensor import dtype as DType
from tinyt.ops.common import Sizes, as_tuple, renamed, sizes_of, wrap_dim
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.tensor import Tensor, attach, method, prim


@method
def reshape(input: Tensor, shape: Sizes, *more: int) -> Tensor:
    """The same elements in another shape (one size may be -1); a view where possible."""
    return prim.reshape(input, sizes_of(shape, more))


@method
def view(
    self: Tensor, size: Sizes | DType | None = None, *more: int, dtype: DType | None = None
) -> Tensor:
    """A view in another shape, or (given a dtype) of the same bytes.

    A dtype of another size changes the last size. RuntimeError where the strides do not allow a
    view; use :func:`reshape` then.
    """
    if isinstance(size, DType):
        dtype = size
    if dtype is not None:
        return _tensor.view_dtype(self, dtype)
    if size is None:
        raise TypeError("view: needs a size or a dtype")
    out = prim.reshape(self, sizes_of(size, more))
    if self.numel() and not self._is_recorded and out._storage_id != self._storage_id:
        raise ShapeError(
            f"view: size {tuple(out.shape)} is not compatible with the tensor's size "
            f"{tuple(self.shape)} and stride {self.stride()}; use reshape() instead"
        )
    return out


@method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of ``other``."""
    return view(self, tuple(other.shape))


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """The same elements in the shape of ``other``."""
    return prim.reshape(self, tuple(other.shape))


# ---- order of the dimensions


@method
def permute(input: Tensor, dims: Sizes, *more: int) -> Tensor:
    """A view with the dimensions in another order."""
    return prim.permute(input, sizes_of(dims, more))


@method
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions swapped."""
    rank = input.dim()
    a, b = wrap_dim("transpose", dim0, rank), wrap_dim("transpose", dim1, rank)
    order = list(range(rank))
    if rank:
        order[a], order[b] = order[b], order[a]
    return prim.permute(input, order)


@method
def t(input: Tensor) -> Tensor:
    """A matrix transposed; 0-d and 1-d tensors as they are."""
    if input.dim() > 2:
        raise RuntimeError(f"t: expects at most 2 dimensions, got shape {tuple(input.shape)}")
    return transpose(input, 0, 1) if input.dim() == 2 else prim.permute(input, range_of(input))


def range_of(input: Tensor) -> tuple[int, ...]:
    """The dimensions in order."""
    return tuple(range(input.dim()))


def _all_reversed(self: Tensor) -> Tensor:
    """A view with all dimensions in reverse order."""
    return prim.permute(self, tuple(reversed(range_of(self))))


def _matrix_transposed(self: Tensor) -> Tensor:
    """A view with the last two dimensions swapped."""
    if self.dim() == 1:
        raise RuntimeError(f"mT: needs at least 2 dimensions, got shape {tuple(self.shape)}")
    return transpose(self, -2, -1) if self.dim() else prim.permute(self, ())


@method
def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """A view with dimensions moved from ``source`` to ``destination``; the others keep order."""
    rank = input.dim()
    src = [wrap_dim("movedim", d, rank) for d in as_tuple(source)]
    dst = [wrap_dim("movedim", d, rank) for d in as_tuple(destination)]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise RuntimeError(
            f"movedim: source {source} and destination {destination} must be as many and unique"
        )
    if rank == 0:
        return prim.permute(input, ())
    order = [-1] * rank
    for a, b in zip(src, dst, strict=True):
        order[b] = a
    rest = iter(d for d in range(rank) if d not in src)
    return prim.permute(input, [next(rest) if d < 0 else d for d in order])


@method
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """A view with two dimensions swapped: NumPy's :func:`transpose`."""
    return transpose(input, axis0, axis1)


attach(
    T=property(renamed(_all_reversed)),
    mT=property(renamed(_matrix_transposed)),
    swapdims=transpose,
    moveaxis=movedim,
)


# ---- broadcasting


@method
def expand(input: Tensor, size: Sizes, *more: int) -> Tensor:
    """A view with size-1 dimensions repeated (-1 keeps a size); memory is shared."""
    return prim.expand(input, sizes_of(size, more))


@method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """A view in the shape of ``other``, size-1 dimensions repeated."""
    return prim.expand(self, tuple(other.shape))


@method
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """A view of ``input`` broadcast to ``size``."""
    return prim.expand(input, tuple(size))


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Views of all tensors in the shape they broadcast to."""
    items = tensors_of(tensors)
    if not items:
        return ()
    shape = broadcast_shapes(*(tuple(x.shape) for x in items))
    return tuple(prim.expand(x, shape) for x in items)


def tensors_of(tensors: tuple[Any, ...]) -> tuple[Tensor, ...]:
    """Tensors given one by one or as a single sequence."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        return tuple(tensors[0])
    return tensors


@method
def sum_to_size(self: Tensor, size: Sizes, *more: int) -> Tensor:
    """The sum over what broadcasting ``size`` to this shape repeats."""
    target = sizes_of(size, more)
    shape = tuple(self.shape)
    lead = len(shape) - len(target)
    if lead < 0 or any(
        t not in (1, n) for t, n in zip(target, shape[max(lead, 0) :], strict=False)
    ):
        raise ShapeError(f"sum_to_size: {target} is not expandable to {shape}")
    dims = [d for d, n in enumerate(shape) if d < lead or (target[d - lead] == 1 and n != 1)]
    out = prim.sum(self, dims, True) if dims else self
    return prim.reshape(out, target)


# ---- size-1 dimensions, joining and splitting dimensions


@method
def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """A view without size-1 dimensions (all of them, or those given)."""
    rank = input.dim()
    if dim is None:
        drop = list(range(rank))
    else:
        drop = [wrap_dim("squeeze", d, rank) for d in as_tuple(dim)]
        if len(set(drop)) != len(drop):
            raise RuntimeError(f"squeeze: a dimension appears more than once in {dim}")
    return prim.reshape(
        input, tuple(n for d, n in enumerate(input.shape) if n != 1 or d not in drop)
    )


@method
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A view with a size-1 dimension put in at ``dim``."""
    at = wrap_dim("unsqueeze", dim, input.dim() + 1)
    shape = tuple(input.shape)
    return prim.reshape(input, (*shape[:at], 1, *shape[at:]))


@method
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one."""
    rank = input.dim()
    first = wrap_dim("flatten", start_dim, rank)
    last = wrap_dim("flatten", end_dim, rank)
    if first > last:
        raise RuntimeError(f"flatten: start_dim {start_dim} cannot come after end_dim {end_dim}")
    shape = tuple(input.shape)
    joined = math.prod(shape[first : last + 1])
    return prim.reshape(input, (*shape[:first], joined, *shape[last + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, contiguous: a copy where they are not."""
    flat = flatten(input)
    return flat if flat.is_contiguous() else prim.copy(flat)


@method
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several (one size may be -1)."""
    at = wrap_dim("unflatten", dim, input.dim())
    shape = tuple(input.shape)
    parts = list(sizes)
    if -1 in parts:
        rest = -math.prod(parts)
        parts[parts.index(-1)] = shape[at] // rest if rest else 0
    if math.prod(parts) != shape[at]:
        raise ShapeError(f"unflatten: {tuple(sizes)} does not multiply to {shape[at]}")
    return prim.reshape(input, (*shape[:at], *parts, *shape[at + 1 :]))


def _at_least(rank: int, x: Tensor) -> Tensor:
    shape = tuple(x.shape)
    if x.dim() >= rank:
        return x
    if rank == 3 and shape:  # a vector lies in the middle, a matrix in front
        shape = (1, *shape, 1) if x.dim() == 1 else (*shape, 1)
    return prim.reshape(x, (1,) * (rank - len(shape)) + shape)


def _atleast(rank: int, tensors: tuple[Any, ...]) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _at_least(rank, tensors[0])
    return tuple(_at_least(rank, x) for x in tensors_of(tensors))


def atleast_1d(*tensors: Any) -> Any:
    """Views with at least one dimension: one for a tensor, a tuple for several."""
    return _atleast(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Views with at least two dimensions: one for a tensor, a tuple for several."""
    return _atleast(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Views with at least three dimensions: one for a tensor, a tuple for several."""
    return _atleast(3, tensors)


# ---- the same in place


@method
def squeeze_(self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """:func:`squeeze` of this tensor's own shape."""
    return _tensor.become(self, squeeze(self, dim))


@method
def unsqueeze_(self: Tensor, dim: int) -> Tensor:
    """:func:`unsqueeze` of this tensor's own shape."""
    return _tensor.become(self, unsqueeze(self, dim))


@method
def transpose_(self: Tensor, dim0: int, dim1: int) -> Tensor:
    """:func:`transpose` of this tensor's own shape."""
    return _tensor.become(self, transpose(self, dim0, dim1))


@method
def t_(self: Tensor) -> Tensor:
    """:func:`t` of this tensor's own shape."""
    return _tensor.become(self, t(self))


@method
def swapaxes_(self: Tensor, axis0: int, axis1: int) -> Tensor:
    """:func:`swapaxes` of this tensor's own shape."""
    return transpose_(self, axis0, axis1)


attach(swapdims_=transpose_)


EXPORTS: dict[str, Any] = {
    "reshape": prim.reshape,
    **{
        f.__name__: f
        for f in (
            permute, transpose, swapaxes, t, movedim, broadcast_to, broadcast_tensors, squeeze,
            unsqueeze, flatten, ravel, unflatten, atleast_1d, atleast_2d, atleast_3d,
        )
    },
    "swapdims": transpose,
    "moveaxis": movedim,
}  # fmt: skip
