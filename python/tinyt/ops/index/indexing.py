"""Indexing with brackets: ``x[...]`` and ``x[...] = v``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tinyt import _tensor
from tinyt._autograd import is_grad_enabled
from tinyt._capture import SymInt, index
from tinyt._core import CaptureError, DeviceError, DTypeError, ShapeError, is_recording
from tinyt.autograd.rules.movement import inverse
from tinyt.dtypes import bfloat16, float16, float64
from tinyt.ops.common import on_device
from tinyt.ops.creation.filled import filled
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.tensor import Tensor, attach, method, prim

# ---- what the brackets hold


def is_integral(x: Tensor) -> bool:
    """Whether the dtype is an integer one (bool is not)."""
    return not (x.dtype.is_floating_point or x.dtype.is_complex or x.dtype.name == "bool")


def _as_index(item: Any) -> Any:
    """Lists and arrays as tensors; integers as int; everything else as it is."""
    if isinstance(item, Tensor):
        if item.dim() > 0 or not is_integral(item):
            return item
        try:
            return item.item()
        except CaptureError as error:
            raise CaptureError(
                "index: the value is not known while recording, and a tensor of no dimensions asks "
                "for the view at that place; x[i.reshape(1)] takes a copy"
            ) from error
    if isinstance(item, slice):  # its bounds run Python code: now, before sizes are read
        bounds = (item.start, item.stop, item.step)
        return slice(*[None if at is None else index(at) for at in bounds])
    if isinstance(item, bool) or item is None or item is Ellipsis:
        return item
    if isinstance(item, (list, tuple, range)):
        return _tensor.from_data(list(item)) if len(item) else prim.fill((0,), 5, 0.0, 0)
    if hasattr(item, "__array__"):
        if getattr(item, "ndim", 1) == 0:
            return _as_index(_tensor.python_number(item))
        return prim.copy(_tensor.from_buffer_object(item, True))
    if hasattr(item, "__index__"):
        return item.__index__()
    raise IndexError(
        "index: only integers, slices, None, Ellipsis, tensors, lists and arrays can be indices, "
        f"got {type(item).__name__}"
    )


def _beside(item: Any, x: Tensor) -> Any:
    """An index on the device of x: tensors and arrays on the CPU are moved there, as in PyTorch."""
    if not isinstance(item, Tensor) or item.device is x.device:
        return item
    if item.device.type != "cpu":
        others = "" if x.is_cpu else f" or on {x.device}, where the tensor is"
        raise DeviceError(f"index: indices must be on the CPU{others}, got {item.device}")
    return prim.to_device(item, x.device)


def _number_beside(value: Any, x: Tensor) -> Any:
    """A value to write: a tensor of no dimensions on the CPU goes to the device of x."""
    if isinstance(value, Tensor) and value.dim() == 0 and value.is_cpu:
        return on_device(value, x.device)
    return value


def _items(index: Any) -> Sequence[Any]:
    """The single indices: of a tuple, and of a list that holds more than numbers."""
    if isinstance(index, tuple):
        return index
    nested = (list, tuple, slice, Tensor)
    if isinstance(index, list) and any(
        i is None or i is Ellipsis or isinstance(i, nested) for i in index
    ):
        return index
    return (index,)


def _normalise(index: Any, x: Tensor) -> list[Any]:
    """One entry per indexed dimension, the Ellipsis replaced by full slices."""
    # The last of Python's code that runs.
    items = [_beside(_as_index(i), x) for i in _items(index)]
    rank, used = x.dim(), 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype.name in ("bool", "uint8"):
            used += item.dim()
        elif item is not None and item is not Ellipsis and not isinstance(item, bool):
            used += 1
    if used > rank:
        raise IndexError(f"index: too many indices for a tensor of dimension {rank}, got {used}")
    full = [slice(None)] * (rank - used)
    places = [i for i, item in enumerate(items) if item is Ellipsis]
    if not places:
        return items + full
    # As in PyTorch, further ones stand for nothing, so nothing may follow if there is a choice.
    rest = [item for item in items[places[0] :] if item is not Ellipsis]
    if full and len(places) > 1 and any(i is not Ellipsis for i in items[places[1] :]):
        raise IndexError("index: a second ellipsis can only stand at the end")
    return items[: places[0]] + full + rest


def _bound(at: Any, default: int, size: int) -> int:
    """As `slice.indices` has it, of a size that is traced."""
    if at is None:
        return default
    place = index(at)
    return max(place + size, 0) if place < 0 else min(place, size)


def _bounds(item: slice, size: int) -> tuple[int, int, int]:
    if isinstance(size, SymInt) or isinstance(item.start, SymInt) or isinstance(item.stop, SymInt):
        step = 1 if item.step is None else index(item.step)
        start, stop = _bound(item.start, 0, size), _bound(item.stop, size, size)
    else:
        start, stop, step = item.indices(size)
    if step < 1:
        raise ValueError(f"index: the slice step must be positive, got {step}")
    return start, max(start, stop), step


def _basic(x: Tensor, items: list[Any]) -> tuple[Tensor, list[Tensor | None]]:
    """Applies integers, slices and None; returns the view and the tensor index of each dim."""
    advanced: list[Tensor | None] = []
    shape: list[int] = []
    sizes = tuple(x.shape)
    changed = False
    dim = 0
    for item in items:
        if item is None:
            shape.append(1)
            advanced.append(None)
            changed = True
            continue
        if isinstance(item, bool) or (isinstance(item, Tensor) and item.dim() == 0):
            # A bool scalar is a 0-d mask: a new dimension of size 0 or 1.
            shape.append(1)
            advanced.append(prim.fill((int(bool(item)),), 5, 0.0, 0))
            changed = True
            continue
        if isinstance(item, Tensor):
            for place in _expand_mask(x, item, dim):
                shape.append(sizes[dim])
                advanced.append(place)
                dim += 1
            continue
        size = sizes[dim]
        if isinstance(item, slice):
            start, stop, step = _bounds(item, size)
            if (start, stop, step) != (0, size, 1):
                x = prim.slice(x, dim, start, stop, step)
            shape.append(-((start - stop) // step))
            advanced.append(None)
        else:
            if not -size <= item < size:
                raise IndexError(
                    f"index: {item} is out of range for dimension {dim} of size {size}"
                )
            at = item + size if item < 0 else item
            x = prim.slice(x, dim, at, at + 1)
            changed = True
        dim += 1
    return prim.reshape(x, shape) if changed else x, advanced


def _expand_mask(x: Tensor, index: Tensor, dim: int) -> list[Tensor]:
    """A mask (bool, or uint8 as in old scripts) as one integer index per dimension it covers."""
    if index.dtype.name in ("bool", "uint8"):
        want = tuple(x.shape[dim : dim + index.dim()])
        if tuple(index.shape) != want:
            raise IndexError(
                f"index: the mask has shape {tuple(index.shape)}, the indexed dimensions "
                f"from {dim} on {want}"
            )
        places = prim.nonzero(index)
        count = places.shape[0]
        return [prim.reshape(prim.slice(places, 1, d, d + 1), (count,)) for d in range(index.dim())]
    if index.dtype.name not in ("int32", "int64"):
        raise IndexError(
            "index: tensors used as indices must be int32, int64, uint8 or bool, got "
            f"{index.dtype.name}"
        )
    return [index]


# ---- what index tensors pick


class Plan:
    """How tensor indices act on a view: its indexed dimensions as a single one, ``dim``, picked
    by one linear index.

    Neighbouring dimensions are merged where they lie; others are moved to the front first, which
    is also where PyTorch puts the index's dimensions in the result.
    """

    def __init__(self, x: Tensor, advanced: Sequence[Tensor | None]) -> None:
        shape = tuple(x.shape)
        dims = [d for d, a in enumerate(advanced) if a is not None]
        indices = tuple(a for a in advanced if a is not None)
        self.shape = _common_shape(indices)
        sizes = [shape[d] for d in dims]
        self.order: list[int] | None = None
        if dims[-1] - dims[0] + 1 == len(dims):
            self.dim = dims[0]
            self.lead, self.tail = shape[: dims[0]], shape[dims[-1] + 1 :]
        else:
            rest = [d for d in range(len(shape)) if d not in dims]
            self.order = dims + rest
            self.dim = 0
            self.lead, self.tail = (), tuple(shape[d] for d in rest)
        self.sizes = tuple(sizes)
        self.result = (*self.lead, *self.shape, *self.tail)
        self.indices, self.dims = indices, dims
        self.places = prim.linear_index(indices, sizes, dims)

    def rows(self, x: Tensor) -> Tensor:
        """x with the indexed dimensions as one; a view, or x itself, where strides allow."""
        if self.order is not None:
            x = prim.permute(x, self.order)
        if len(self.sizes) == 1:
            return x
        return prim.reshape(x, (*self.lead, math.prod(self.sizes), *self.tail))

    def index(self) -> Tensor:
        """The linear index for every element that is picked."""
        return self._wide(self.places)

    def _wide(self, places: Tensor) -> Tensor:
        if not self.lead and not self.tail:
            return places
        count = places.numel()
        wide = prim.reshape(places, (count, *[1] * len(self.tail)))
        return prim.expand(wide, (*self.lead, count, *self.tail))

    def read(self, x: Tensor) -> Tensor:
        """The elements picked from x."""
        if self._needs_copy(x):
            rows, index = self._memory(x)
        else:
            rows, index = self.rows(x), self.index()
        picked = prim.gather(rows, index, self.dim)
        return picked if len(self.shape) == 1 else prim.reshape(picked, self.result)

    def _needs_copy(self, x: Tensor) -> bool:
        """Whether `rows` copies all of x, where `_memory` can do without."""
        if len(self.sizes) == 1 or (x.is_contiguous() and self.order is None):
            return False
        if is_recording() or (x.requires_grad and is_grad_enabled()) or not x.numel():
            return False
        strides = x.stride()
        steps = [(n, strides[d]) for n, d in zip(self.sizes, self.dims, strict=True) if n > 1]
        return any(a != m * b for (_, a), (m, b) in pairwise(steps))

    def _memory(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x with the memory that its indexed dimensions span as one, and the index into that."""
        strides = x.stride()
        span, places = 1, None
        for n, d, at in zip(self.sizes, self.dims, self.indices, strict=True):
            span += (n - 1) * strides[d]
            place = prim.linear_index((prim.expand(at, self.shape),), (n,), (d,))
            step = prim.mul(place, strides[d])
            places = step if places is None else prim.add(places, step)
        rest = [strides[d] for d in range(x.dim()) if d not in self.dims]
        size = (*self.lead, span, *self.tail)
        rows = prim.as_strided(
            x, size, (*rest[: self.dim], 1, *rest[self.dim :]), x.storage_offset()
        )
        assert places is not None
        return rows, self._wide(places)

    def write(self, x: Tensor, source: Tensor, accumulate: bool = False) -> None:
        """Writes (or adds) a source that broadcasts to the result, in index order."""
        values = prim.expand(source, self.result)
        if len(self.shape) != 1:
            values = prim.reshape(values, (*self.lead, self.places.numel(), *self.tail))
        scatter = prim.scatter_add if accumulate else prim.scatter
        rows, index = self.rows(x), self.index()
        if rows is x or rows._base is not None:  # x's memory: only what is picked is written
            scatter(rows, index, values, self.dim, out=rows)
            return
        out = scatter(rows, index, values, self.dim)
        out = prim.reshape(out, (*self.lead, *self.sizes, *self.tail))
        if self.order is not None:
            out = prim.permute(out, inverse(tuple(self.order)))
        x._assign(out)


def _common_shape(indices: tuple[Tensor, ...]) -> tuple[int, ...]:
    shapes = [tuple(i.shape) for i in indices]
    if len(shapes) == 1:
        return shapes[0]
    try:
        return broadcast_shapes(*shapes)
    except ShapeError as error:
        raise IndexError(
            "index: shape mismatch, the indices have shapes "
            f"{', '.join(map(str, shapes))} and do not broadcast"
        ) from error


def _resolved(x: Tensor, index: Any) -> tuple[Tensor, Sequence[Tensor | None]]:
    """The view that everything but tensors selects, and the tensor index of each dimension."""
    if isinstance(index, Tensor) and index.dtype.name == "int64" and x.dim() and index.dim():
        return x, (index,)
    return _basic(x, _normalise(index, x))


def _is_mask(x: Tensor, index: Any) -> bool:
    """Whether an index is one mask, of the leading dimensions of x."""
    if not isinstance(index, Tensor) or index.dtype.name != "bool" or index.dim() == 0:
        return False
    return tuple(index.shape) == tuple(x.shape[: index.dim()])


def _masked(x: Tensor, index: Any, value: Any) -> tuple[Tensor, Tensor] | None:
    """The view of x that one mask is of, and this mask, where no other tensor is an index."""
    if _is_mask(x, index):
        return x, _spread(index, x.dim() - index.dim())
    if not isinstance(index, tuple) or (isinstance(value, Tensor) and value.dtype is not x.dtype):
        return None
    items = _normalise(index, x)
    tensors = [i for i, item in enumerate(items) if isinstance(item, (Tensor, bool))]
    if len(tensors) != 1:
        return None
    at, mask = tensors[0], items[tensors[0]]
    if not isinstance(mask, Tensor) or mask.dtype.name != "bool" or mask.dim() == 0:
        return None
    view, _ = _basic(x, [*items[:at], *[slice(None)] * mask.dim(), *items[at + 1 :]])
    first = sum(item is None or isinstance(item, slice) for item in items[:at])
    if tuple(view.shape[first : first + mask.dim()]) != tuple(mask.shape):
        return None
    return view, _spread(mask, view.dim() - first - mask.dim())


def _spread(mask: Tensor, after: int) -> Tensor:
    """A mask with further dimensions of one element."""
    return prim.reshape(mask, (*mask.shape, *[1] * after))


def getitem(x: Tensor, index: Any) -> Tensor:
    """``x[index]``: a view for integers, slices, None and Ellipsis; a copy for tensors."""
    index = _beside(index, x)
    if _is_mask(x, index):
        return prim.masked_select(x, index)
    view, advanced = _resolved(x, index)
    if any(a is not None for a in advanced):
        return Plan(view, advanced).read(view)
    # Even ``x[...]`` is a new tensor, a view of x.
    return prim.permute(x, tuple(range(x.dim()))) if view is x else view


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``; with repeated tensor indices the last value stays.

    A view takes a tensor of any dtype; tensor indices only one of the dtype of x, as in PyTorch.
    """
    index = _beside(index, x)
    given = value
    if isinstance(value, (list, tuple)):
        real = x.dtype.is_floating_point or x.dtype.is_complex
        value = _tensor.from_data(value, None if real else x.dtype)
    elif getattr(value, "ndim", None) == 0 and not isinstance(value, Tensor):
        value = _tensor.python_number(value)
    elif not isinstance(value, (Tensor, bool, int, float, complex)):
        value = on_device(_tensor.from_buffer_object(value, True), x.device)
    value = _number_beside(value, x)
    if not isinstance(value, Tensor):
        _tensor.require_item(value, x.dtype)
    if not isinstance(value, Tensor) or value.numel() == 1:
        # One value everywhere: no need to look for the places.
        masked = _masked(x, index, given)
        if masked:
            view, mask = masked
            source = prim.cast(_one_value(value, x), x.dtype)
            view._assign(prim.where(mask, source, view))
            return
    view, advanced = _resolved(x, index)
    if all(a is None for a in advanced):
        view._assign(_strip(value, view.dim()))
        return
    if isinstance(given, Tensor) and given.dtype is not x.dtype:
        raise DTypeError(
            f"index: values written at tensor indices must be {x.dtype.name} as the tensor is, "
            f"got {given.dtype.name}"
        )
    plan = Plan(view, advanced)
    source = _strip(value if isinstance(value, Tensor) else _one_value(value, x), len(plan.result))
    plan.write(view, prim.cast(source, x.dtype))


def _one_value(value: Any, x: Tensor) -> Tensor:
    """A 0-d tensor, in the dtype of x or one that converts to it."""
    if isinstance(value, Tensor):
        return prim.reshape(value, ())
    return filled((), float64 if x.dtype in (float16, bfloat16) else x.dtype, value)


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


_tensor.set_general_indexing(getitem, setitem)
attach(__iter__=_iterate, __contains__=_contains)


# ---- the same as functions


def _put(x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool) -> Tensor:
    if len(indices) > x.dim():
        raise IndexError(
            f"index_put: too many indices for a tensor of dimension {x.dim()}, got {len(indices)}"
        )
    if values.dtype is not x.dtype:
        raise DTypeError(
            f"index_put: the values are {values.dtype.name}, the tensor {x.dtype.name}"
        )
    values = _number_beside(values, x)
    key = tuple(slice(None) if i is None else i for i in indices)
    view, advanced = _basic(x, _normalise(key, x))
    if all(a is None for a in advanced):
        view._assign(prim.add(view, values) if accumulate else values)
    else:
        Plan(view, advanced).write(view, values, accumulate)
    return x


@method
def index_put_(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """``input[indices] = values``, or with ``accumulate`` added in index order."""
    return _put(input, indices, values, accumulate)


@method
def index_put(
    input: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """A copy with ``values`` written (or added, in index order) at ``[indices]``."""
    return _put(prim.copy(input), indices, values, accumulate)


EXPORTS: dict[str, Any] = {"index_put": index_put}
