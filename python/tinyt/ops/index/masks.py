"""Masks, and where the elements are that are not zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, overload

from tinyt._core import DTypeError
from tinyt.dtypes import int64
from tinyt.ops.common import Scalar, need_tensor, to_dtype, write_out
from tinyt.ops.creation.filled import filled
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.ops.index.indexing import is_integral
from tinyt.ops.shape.join import stack
from tinyt.tensor import Tensor, attach, method, prim


@method
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    """``value`` where ``mask`` (bool, broadcast) is true, in the dtype of ``input``."""
    return prim.where(mask, _fill_value("masked_fill", input, mask, value), input)


def _fill_value(op: str, input: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    if mask.dtype.name != "bool":
        raise DTypeError(f"{op}: the mask must be bool, got {mask.dtype.name}")
    if not isinstance(value, Tensor):
        return filled((), input.dtype, value)
    if value.dim():
        raise RuntimeError(
            f"{op}: only supports a 0-d value tensor, got shape {tuple(value.shape)}"
        )
    return prim.cast(value, input.dtype)


@method
def masked_fill_(self: Tensor, mask: Tensor, value: Tensor | Scalar) -> Tensor:
    """Writes ``value`` where ``mask`` is true, in place."""
    return self._assign(masked_fill(self, mask, value))


@method
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements where ``mask`` (broadcast) is true, in one dimension."""
    if need_tensor("masked_select", mask).dtype.name != "bool":
        raise DTypeError(f"masked_select: the mask must be bool, got {mask.dtype.name}")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape)) or (1,)
    return write_out(out, prim.masked_select(prim.expand(input, shape), prim.expand(mask, shape)))


@method
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """A copy with the elements of ``source`` written in order where ``mask`` is true."""
    if mask.dtype.name != "bool":
        raise DTypeError(f"masked_scatter: the mask must be bool, got {mask.dtype.name}")
    if source.dtype is not input.dtype:
        raise DTypeError(
            f"masked_scatter: the source is {source.dtype.name}, the input {input.dtype.name}"
        )
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    count, size = math.prod(shape), source.numel()
    keep = prim.reshape(prim.expand(mask, shape), (count,))
    if not count:
        return prim.copy(prim.expand(input, shape))
    # Element number k of those that are kept takes the source's element k; a further place before
    # the source stands for the others.
    order = prim.where(keep, prim.cumsum(keep, 0), 0)
    if not order._is_recorded and prim.amax(order, (), False).item() > size:
        raise RuntimeError(
            f"masked_scatter: the source has {size} elements, the mask more true ones"
        )
    values = prim.pad(prim.reshape(source, (size,)), (1, 0), 0.0)
    taken = prim.reshape(prim.gather(values, order, 0), shape)
    return prim.where(prim.reshape(keep, shape), taken, prim.expand(input, shape))


@method
def masked_scatter_(self: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """:func:`masked_scatter` in place."""
    return self._assign(masked_scatter(self, mask, source))


# ---- where the nonzero elements are


@overload
def _nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False
) -> Tensor: ...
@overload
def _nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def _nonzero(
    input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False
) -> Tensor | tuple[Tensor, ...]:
    """Positions of the elements that are not zero: [n, rank], or one tensor per dimension."""
    places = prim.nonzero(input)
    if not as_tuple:
        return write_out(out, places)
    if input.dim() == 0:
        return (prim.fill((places.shape[0],), 5, 0.0, 0),)
    return places.unbind(1)


@method
def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero, one a row."""
    return prim.nonzero(input)


@method
def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """The first ``size`` positions of nonzero elements; rows of ``fill_value`` where fewer."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: size must not be negative, got {size}")
    if not input.dim():
        return write_out(out, prim.fill((size, 0), 5, 0.0, 0))
    # The k-th is the first place up to which there are k; what is past the end stands for none.
    count = prim.cumsum(prim.reshape(prim.ne(input, 0), (-1,)), 0)
    place = prim.searchsorted(count, prim.iota(size, 5, 0.0, 0.0, 1, 1))
    index = stack(unravel_index(place, [max(1, n) for n in input.shape]), 1)
    is_there = prim.reshape(prim.lt(place, input.numel()), (size, 1))
    return prim.where(is_there, index, fill_value, out=out)


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Positions in a flattened tensor of a shape as one int64 index per dimension."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if not is_integral(need_tensor("unravel_index", indices)):
        raise TypeError(f"unravel_index: indices must be integers, got {indices.dtype.name}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"unravel_index: sizes must not be negative, got {sizes}")
    places = to_dtype(indices, int64)  # a narrow dtype may not hold the sizes
    found, step = [], 1
    for n in reversed(sizes):
        found.append(prim.remainder(prim.floor_divide(places, step), n))
        step *= n
    return tuple(reversed(found))


attach(nonzero=_nonzero)

EXPORTS: dict[str, Any] = {
    "nonzero": _nonzero,
    **{
        f.__name__: f
        for f in (
            masked_fill, masked_select, masked_scatter, argwhere, nonzero_static, unravel_index,
        )
    },
}  # fmt: skip
