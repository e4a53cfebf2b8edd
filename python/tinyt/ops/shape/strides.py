"""Views given by strides: as_strided, sliding windows, diagonals, and resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt import _autograd, _tensor
from tinyt._autograd import Node, is_grad_enabled
from tinyt._core import ShapeError
from tinyt.autograd import no_grad
from tinyt.autograd.rules.common import contiguous_strides
from tinyt.ops.common import Scalar, Sizes, sizes_of, wrap_dim
from tinyt.tensor import Tensor, method, prim

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]


def _reach(geometry: Geometry) -> int:
    """One more than the last element a view touches."""
    size, stride, offset = geometry
    return offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) + 1


def _may_repeat(geometry: Geometry) -> bool:
    """Whether two places of a view may be one element."""
    steps = sorted((s, n) for n, s in zip(geometry[0], geometry[1], strict=True) if n > 1)
    reach = 0
    for stride, n in steps:
        if stride <= reach:
            return True
        reach += stride * (n - 1)
    return False


def _added(g: Tensor, geometry: Geometry, count: int) -> Tensor:
    """Zeros of ``count`` elements with ``g`` added where a view of them lies, in its order."""
    # Not by `rules.common`: where the gradient is, wherever this thread makes tensors.
    blank = prim.fill((count,), g.dtype, 0.0, 0, 0.0, g.device)
    if not _may_repeat(geometry):
        return prim.update(blank, g, *geometry)
    places = prim.as_strided(prim.iota(count, 5, 0.0, 0.0, 0, 1, g.device), *geometry)
    total = math.prod(geometry[0])
    return prim.scatter_add(blank, prim.reshape(places, (total,)), prim.reshape(g, (total,)), 0)


def _strided_grad(g: Tensor, source: Geometry, view: Geometry) -> Tensor:
    """The gradient of a tensor that lies as ``source`` says, from that of a view of its storage.

    Elements outside ``source`` have none; one that ``source`` shows several times shares it.
    """
    if not math.prod(source[0]) or not math.prod(view[0]):
        return prim.fill(source[0], g.dtype, 0.0, 0, 0.0, g.device)
    first = min(source[2], view[2])
    source, view = ((s[0], s[1], s[2] - first) for s in (source, view))
    count = max(_reach(source), _reach(view))
    total = _added(g, view, count)
    if _may_repeat(source):
        seen = _added(prim.fill(source[0], g.dtype, 1.0, 1, 0.0, g.device), source, count)
        total = total / prim.maximum(seen, 1.0)
    return prim.copy(prim.as_strided(total, *source))


class _Backward:
    """The backward of one call of as_strided; it knows how the input lay, which rules do not."""

    __name__ = "AsStrided"

    def __init__(self, source: Geometry, view: Geometry) -> None:
        self.source = source
        self.view = view

    def release(self) -> None:
        """No tensor is saved."""

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        (g,) = grads
        return [None if g is None else _strided_grad(g, self.source, self.view)]


@method
def as_strided(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """A view of the storage with these sizes, strides and offset (in elements).

    Without ``storage_offset`` it starts where ``input`` does. ShapeError where it would reach
    beyond the storage; strides must not be negative.
    """
    offset = input.storage_offset() if storage_offset is None else storage_offset
    view = (tuple(size), tuple(stride), offset)
    if not (is_grad_enabled() and input.requires_grad):
        return prim.as_strided(input, *view)
    source = (tuple(input.shape), input.stride(), input.storage_offset())
    with no_grad():
        out = prim.as_strided(input, *view)
    if any(step > 2**40 for step in view[1]):  # which no element takes: the view has others
        view = (view[0], out.stride(), offset)
    _autograd.set_node(out, _autograd.make_function_node(_Backward(source, view), [input], 1), 0)
    return out


@method
def as_strided_(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:
    """:func:`as_strided` of this tensor's own geometry."""
    return _tensor.become(input, as_strided(input, size, stride, storage_offset))


def window_stride(count: int, along: int, step: int) -> int:
    """The stride of ``count`` windows every ``step`` elements of stride ``along``.

    One window takes no step: its stride may be any, and here fits in 64 bits in all views.
    """
    return along * step if count > 1 else min(along * step, 2**32)


@method
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """A view of windows of ``size`` elements every ``step`` along a dimension.

    Shape: the dimension becomes the number of windows, and a last one of ``size`` is added.
    """
    d = wrap_dim("unfold", dimension, self.dim())
    shape, strides = list(self.shape), list(self.stride())
    length, along = (shape[d], strides[d]) if shape else (1, 1)
    if not 0 <= size <= length:
        raise RuntimeError(f"unfold: size {size} must lie in [0, {length}] for dimension {d}")
    if step <= 0:
        raise RuntimeError(f"unfold: step must be positive, got {step}")
    if shape:
        shape[d] = (length - size) // step + 1
        strides[d] = window_stride(shape[d], along, step)
    return as_strided(self, (*shape, size), (*strides, along), self.storage_offset())


@method
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A view of the diagonals of two dimensions, which become the last one."""
    a, b = wrap_dim("diagonal", dim1, input.dim()), wrap_dim("diagonal", dim2, input.dim())
    if a == b:
        raise RuntimeError(f"diagonal: the dimensions must differ, got {dim1} and {dim2}")
    shape, strides = tuple(input.shape), input.stride()
    rows, columns = shape[a], shape[b]
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    first = input.storage_offset()
    if count:
        first += offset * strides[b] if offset >= 0 else -offset * strides[a]
    keep = [d for d in range(input.dim()) if d not in (a, b)]
    return as_strided(
        input,
        (*(shape[d] for d in keep), count),
        (*(strides[d] for d in keep), strides[a] + strides[b]),
        first,
    )


def _no_resize_with_grad(name: str, self: Tensor) -> None:
    if self.requires_grad:
        raise RuntimeError(f"{name}: cannot resize a tensor that requires grad")


@method
def resize_(self: Tensor, size: Sizes, *more: int, memory_format: Any = None) -> Tensor:
    """Gives this tensor another size, over the same memory where that is large enough.

    Else it moves to new memory: the elements it had come first, those after are uninitialised, and
    other views stay with the old memory.
    """
    _no_resize_with_grad("resize_", self)
    shape = sizes_of(size, more)
    if any(n < 0 for n in shape):
        raise ShapeError(f"resize_: sizes must not be negative, got {shape}")
    offset, have = self.storage_offset(), self._storage_elements
    need = offset + math.prod(shape)
    storage = self.detach()
    if need > have:
        storage = _tensor.empty((need,), self.dtype)
        old = prim.as_strided(self.detach(), (have,), (1,), 0)
        prim.slice(storage, 0, 0, have)._assign(old)
    self.data = prim.as_strided(storage, shape, contiguous_strides(shape), offset)
    return self


@method
def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """:func:`resize_` to the size of another tensor."""
    return resize_(input, tuple(the_template.shape))


@method
def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Makes this tensor show the memory of ``source``, a tensor or a storage.

    Without one: no memory, shape (0,).

    With ``size``: those sizes and strides (row-major by default) from ``storage_offset`` on.
    """
    _no_resize_with_grad("set_", self)
    if source is None:
        self.data = _tensor.empty((0,), self.dtype)
        return self
    if hasattr(source, "viewed_as"):  # a storage
        source = source.viewed_as(self.dtype)
    if source.dtype is not self.dtype:
        raise RuntimeError(f"set_: got {source.dtype.name} for a tensor of {self.dtype.name}")
    if size is None:
        self.data = source.detach()
        return self
    steps = contiguous_strides(tuple(size)) if stride is None else tuple(stride)
    self.data = prim.as_strided(source.detach(), tuple(size), steps, storage_offset)
    return self


@method
def fill_diagonal_(self: Tensor, fill_value: Scalar, wrap: bool = False) -> Tensor:
    """Writes one value to the elements whose indices are all equal.

    With ``wrap`` the diagonal of a matrix with more rows than columns goes on after the last
    column, one row further down. RuntimeError for less than two dimensions, and for more than two
    of different sizes.
    """
    if self.dim() < 2:
        raise RuntimeError(f"fill_diagonal_: needs two or more dimensions, got {self.dim()}")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            f"fill_diagonal_: more than two dimensions must be of one size, got {tuple(self.shape)}"
        )
    if self.dim() == 2 and wrap:
        rows, columns = self.shape
        for first in range(0, rows, columns + 1):
            diagonal(self[first : first + columns])._assign(fill_value)
        return self
    line = self
    while line.dim() > 1:
        line = diagonal(line, 0, 0, -1)
    line._assign(fill_value)
    return self


EXPORTS: dict[str, Any] = {"as_strided": as_strided, "diagonal": diagonal}
