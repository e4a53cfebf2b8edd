"""Indexing: ``x[...]``, ``x[...] = v``, gather, scatter and their relatives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, overload

from tinyt import _tensor
from tinyt._core import DTypeError, ShapeError
from tinyt.ops.common import Number, Scalar, wrap_dim
from tinyt.ops.elementwise import broadcast_shapes
from tinyt.tensor import Tensor, attach, method, prim

# ---- basic and advanced indexing


def _as_index(item: Any) -> Any:
    """Lists and arrays as tensors; integers as int; everything else as it is."""
    if isinstance(item, Tensor):
        if item.dim() == 0 and (item.dtype.name == "bool" or _is_integral(item)):
            return item.item()
        return item
    if isinstance(item, bool) or item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (list, range)):
        return _tensor.from_data(list(item)) if len(item) else prim.fill((0,), 5, 0.0, 0)
    if hasattr(item, "__array__"):
        if getattr(item, "ndim", 1) == 0:
            return item.item()
        return prim.copy(_tensor.from_buffer_object(item))
    if hasattr(item, "__index__"):
        return item.__index__()
    raise IndexError(
        "index: only integers, slices, None, Ellipsis, tensors, lists and arrays can be indices, "
        f"got {type(item).__name__}"
    )


def _is_integral(x: Tensor) -> bool:
    return not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype.name == "bool")


def _normalise(index: Any, rank: int) -> list[Any]:
    """One entry per indexed dimension, the Ellipsis replaced by full slices."""
    items = [_as_index(i) for i in (index if isinstance(index, tuple) else (index,))]
    used = 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype.name == "bool":
            used += item.dim()
        elif item is not None and item is not Ellipsis and not isinstance(item, bool):
            used += 1
    if sum(1 for i in items if i is Ellipsis) > 1:
        raise IndexError("index: an index can only have a single ellipsis")
    if used > rank:
        raise IndexError(f"index: too many indices for a tensor of dimension {rank}, got {used}")
    full = [slice(None)] * (rank - used)
    if any(i is Ellipsis for i in items):
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        return items[:at] + full + items[at + 1 :]
    return items + full


def _bounds(item: slice, size: int) -> tuple[int, int, int]:
    start, stop, step = item.indices(size)
    if step < 1:
        raise ValueError(f"index: the slice step must be positive, got {step}")
    return start, max(start, stop), step


def _basic(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Tensor | None]]:
    """Applies integers, slices and None; returns the view and the tensor index of each dim."""
    advanced: list[Tensor | None] = []
    shape: list[int] = []
    dim = 0
    for item in items:
        if item is None:
            shape.append(1)
            advanced.append(None)
            continue
        if isinstance(item, bool):
            # A bool scalar is a 0-d mask: a new dimension of size 0 or 1.
            shape.append(1)
            advanced.append(prim.fill((int(item),), 5, 0.0, 0))
            continue
        if isinstance(item, Tensor):
            for place in _expand_mask(x, item, dim):
                shape.append(x.shape[dim])
                advanced.append(place)
                dim += 1
            continue
        size = x.shape[dim]
        if isinstance(item, slice):
            start, stop, step = _bounds(item, size)
            if (start, stop, step) != (0, size, 1):
                x = prim.slice(x, dim, start, stop, step)
            shape.append(x.shape[dim])
            advanced.append(None)
        else:
            if not -size <= item < size:
                raise IndexError(
                    f"index: {item} is out of range for dimension {dim} of size {size}"
                )
            at = item + size if item < 0 else item
            x = prim.slice(x, dim, at, at + 1)
        dim += 1
    if tuple(shape) != tuple(x.shape):
        x = prim.reshape(x, tuple(shape))
    return x, advanced


def _expand_mask(x: Tensor, index: Tensor, dim: int) -> list[Tensor]:
    """A bool mask as one integer index per dimension it covers; integer indices as int64."""
    if index.dtype.name == "bool":
        want = tuple(x.shape[dim : dim + index.dim()])
        if tuple(index.shape) != want:
            raise IndexError(
                f"index: the mask has shape {tuple(index.shape)}, the indexed dimensions "
                f"from {dim} on {want}"
            )
        places = prim.nonzero(index)
        count = places.shape[0]
        return [prim.reshape(prim.slice(places, 1, d, d + 1), (count,)) for d in range(index.dim())]
    if not _is_integral(index):
        raise IndexError(
            f"index: tensors used as indices must be integers or bool, got {index.dtype.name}"
        )
    return [prim.cast(index, 5) if index.dtype.name != "int64" else index]


class _Plan:
    """How tensor indices act on a view: moved to the front, flattened to one linear index."""

    def __init__(self, x: Tensor, advanced: list[Tensor | None]) -> None:
        self.dims = [d for d, a in enumerate(advanced) if a is not None]
        indices = [a for a in advanced if a is not None]
        try:
            self.shape = broadcast_shapes(*(tuple(i.shape) for i in indices))
        except ShapeError as error:
            shapes = ", ".join(str(tuple(i.shape)) for i in indices)
            raise IndexError(
                f"index: shape mismatch, the indices have shapes {shapes} and do not broadcast"
            ) from error
        self.rest = [d for d in range(x.dim()) if d not in self.dims]
        self.order = self.dims + self.rest
        self.sizes = [x.shape[d] for d in self.dims]
        self.linear = self._linear(indices)
        adjacent = self.dims == list(range(self.dims[0], self.dims[-1] + 1))
        self.front = self.dims[0] if adjacent else 0

    def _linear(self, indices: list[Tensor]) -> Tensor:
        linear: Tensor | None = None
        for index, size, dim in zip(indices, self.sizes, self.dims, strict=True):
            _check_range(index, size, dim)
            wrapped = prim.where(prim.lt(index, 0), prim.add(index, size), index)
            linear = wrapped if linear is None else prim.add(prim.mul(linear, size), wrapped)
        assert linear is not None
        return prim.reshape(prim.expand(linear, self.shape), (math.prod(self.shape),))

    def rows(self, x: Tensor) -> Tensor:
        """x as [product of the indexed sizes, product of the rest]."""
        moved = prim.permute(x, self.order)
        return prim.reshape(moved, (math.prod(self.sizes), self.width(x)))

    def width(self, x: Tensor) -> int:
        """Elements that one index selects."""
        return math.prod(x.shape[d] for d in self.rest)

    def result_order(self) -> list[int]:
        """Permutation from (index dims, rest) to where PyTorch puts the index dims."""
        k = len(self.shape)
        rest = list(range(k, k + len(self.rest)))
        return rest[: self.front] + list(range(k)) + rest[self.front :]

    def index_matrix(self, width: int) -> Tensor:
        """The linear index for every element of the selected rows."""
        count = self.linear.numel()
        return prim.expand(prim.reshape(self.linear, (count, 1)), (count, width))


def _check_range(index: Tensor, size: int, dim: int) -> None:
    if index.numel() == 0 or index._is_recorded:
        return
    low, high = prim.amin(index, (), False).item(), prim.amax(index, (), False).item()
    for bad in (low, high):
        if not -size <= bad < size:
            raise IndexError(f"index: {bad} is out of range for dimension {dim} of size {size}")


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]``: a view for integers, slices, None and Ellipsis; a copy for tensors."""
    view, advanced = _basic(x, _normalise(index, x.dim()))
    if all(a is None for a in advanced):
        return (
            view
            if view is not x
            else prim.slice(x, 0, 0, x.shape[0])
            if x.dim()
            else (prim.reshape(x, ()))
        )
    plan = _Plan(view, advanced)
    rows = plan.rows(view)
    picked = prim.gather(rows, plan.index_matrix(rows.shape[1]), 0)
    out = prim.reshape(picked, (*plan.shape, *(view.shape[d] for d in plan.rest)))
    return prim.permute(out, plan.result_order()) if plan.front else out


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``; with repeated tensor indices the last value stays."""
    if not isinstance(value, (Tensor, bool, int, float, complex)):
        value = (
            _tensor.from_data(value)
            if isinstance(value, (list, tuple))
            else (_tensor.from_buffer_object(value))
        )
    view, advanced = _basic(x, _normalise(index, x.dim()))
    if all(a is None for a in advanced):
        view._assign(_strip(value, view.dim()))
        return
    plan = _Plan(view, advanced)
    target = (*plan.shape, *(view.shape[d] for d in plan.rest))
    order = plan.result_order()
    final = tuple(target[d] for d in order)
    source = value if isinstance(value, Tensor) else _scalar_like(value, x)
    source = prim.cast(_strip(source, len(final)), x.dtype)
    back = [order.index(d) for d in range(len(order))]
    source = prim.permute(prim.expand(source, final), back)
    width = plan.width(view)
    source = prim.reshape(source, (plan.linear.numel(), width))
    rows = prim.scatter(plan.rows(view), plan.index_matrix(width), source, 0)
    moved = prim.reshape(rows, tuple(view.shape[d] for d in plan.order))
    inverse = [plan.order.index(d) for d in range(view.dim())]
    view._assign(prim.permute(moved, inverse))


def _scalar_like(value: Scalar, x: Tensor) -> Tensor:
    if isinstance(value, complex):
        return prim.fill((), x.dtype, 0.0)._assign(value)
    return prim.fill((), x.dtype, float(value), int(value) if not x.dtype.is_floating_point else 0)


def _strip(value: Any, rank: int) -> Any:
    """Drops leading size-1 dimensions beyond ``rank``, as assignment allows."""
    if isinstance(value, Tensor) and value.dim() > rank:
        extra = value.dim() - rank
        if all(n == 1 for n in value.shape[:extra]):
            return prim.reshape(value, tuple(value.shape[extra:]))
    return value


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.dim() == 0:
        raise TypeError("iter: cannot iterate over a 0-d tensor")
    return (getitem(self, i) for i in range(self.shape[0]))


def _contains(self: Tensor, item: Any) -> bool:
    return bool(prim.eq(self, item).any().item())


_tensor.set_general_getitem(getitem)
attach(__setitem__=setitem, __iter__=_iterate, __contains__=_contains)

# ---- gather and scatter


@method
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Tensor | None = None
) -> Tensor:
    """Elements picked along ``dim`` by an int64 index of the same rank."""
    return prim.gather(input, index, dim, out=out)


def _source(op: str, input: Tensor, index: Tensor, src: Any) -> Tensor:
    if isinstance(src, Tensor):
        return src
    return prim.expand(_scalar_like(src, input), tuple(index.shape))


@method
def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
    """A copy with ``src`` written along ``dim`` where the index says; the last write stays."""
    return prim.scatter(input, index, _source("scatter", input, index, src), dim)


@method
def scatter_(self: Tensor, dim: int, index: Tensor, src: Tensor | Number) -> Tensor:
    """Writes ``src`` along ``dim`` where the index says, in place."""
    return prim.scatter(self, index, _source("scatter_", self, index, src), dim, out=self)


@method
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """A copy with ``src`` added along ``dim`` where the index says, in index order."""
    return prim.scatter_add(input, index, src, dim)


@method
def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Adds ``src`` along ``dim`` where the index says, in place."""
    return prim.scatter_add(self, index, src, dim, out=self)


def _along(op: str, input: Tensor, dim: int, index: Tensor) -> tuple[Tensor, int]:
    """A 1-d index expanded so that it picks whole slices along ``dim``."""
    if index.dim() > 1:
        raise IndexError(f"{op}: the index must be 1-d, got shape {tuple(index.shape)}")
    if index.dtype.name not in ("int32", "int64"):
        raise DTypeError(f"{op}: the index must be int32 or int64, got {index.dtype.name}")
    d = wrap_dim(op, dim, input.dim())
    shape = [1] * max(input.dim(), 1)
    shape[d] = index.numel()
    full = list(input.shape) or [1]
    full[d] = index.numel()
    return prim.expand(prim.reshape(prim.cast(index, 5), shape), full), d


@method
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Whole slices picked along ``dim`` by a 1-d index."""
    places, d = _along("index_select", input, dim, index)
    return prim.gather(input if input.dim() else prim.reshape(input, (1,)), places, d)


@method
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1
) -> Tensor:
    """A copy with slices of ``source`` added along ``dim``, in index order."""
    places, d = _along("index_add", input, dim, index)
    if tuple(source.shape) != tuple(places.shape):
        raise ShapeError(
            f"index_add: the source has shape {tuple(source.shape)}, expected {tuple(places.shape)}"
        )
    return prim.scatter_add(input, places, source if alpha == 1 else source * alpha, d)


@method
def index_add_(
    self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1
) -> Tensor:
    """Adds slices of ``source`` along ``dim`` in place."""
    return self._assign(index_add(self, dim, index, source, alpha=alpha))


@method
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Like :func:`gather`, with broadcasting; over the flattened input without ``dim``."""
    if dim is None:
        return prim.gather(
            prim.reshape(input, (input.numel(),)), prim.reshape(indices, (indices.numel(),)), 0
        )
    d = wrap_dim("take_along_dim", dim, input.dim())
    shape = list(broadcast_shapes(
        tuple(1 if i == d else n for i, n in enumerate(input.shape)),
        tuple(1 if i == d else n for i, n in enumerate(indices.shape)),
    ))  # fmt: skip
    wide = list(shape)
    wide[d], shape[d] = input.shape[d], indices.shape[d]
    return prim.gather(prim.expand(input, wide), prim.expand(indices, shape), d)


@method
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    """``value`` where ``mask`` is true, in the dtype of ``input``."""
    if isinstance(value, Tensor) and value.dim():
        raise RuntimeError(
            f"masked_fill: only supports a 0-d value tensor, got shape {tuple(value.shape)}"
        )
    broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    if isinstance(value, complex):
        value = _scalar_like(value, input)
    return prim.cast(prim.where(mask, value, input), input.dtype)


@method
def masked_fill_(self: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    """Writes ``value`` where ``mask`` is true, in place."""
    return self._assign(masked_fill(self, mask, value))


@method
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where ``mask`` (broadcast) is true, in one dimension."""
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    return getitem(prim.expand(input, shape), prim.expand(mask, shape))


@overload
def _nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def _nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def _nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Positions of the elements that are not zero: [n, rank], or one tensor per dimension."""
    places = prim.nonzero(input)
    if not as_tuple:
        return places
    if input.dim() == 0:
        return (prim.fill((places.shape[0],), 5, 0.0, 0),)
    return places.unbind(1)


attach(nonzero=_nonzero)


EXPORTS: dict[str, Any] = {
    "nonzero": _nonzero,
    **{
        f.__name__: f
        for f in (
            gather, scatter, scatter_add, index_select, index_add, take_along_dim, masked_fill,
            masked_select,
        )
    },
}  # fmt: skip
