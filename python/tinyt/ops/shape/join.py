"""Joining tensors, and repeating them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from tinyt import _tensor
from tinyt._core import OutOfMemoryError, OutOfRangeError, ShapeError
from tinyt.ops.common import Sizes, need_tensor, sizes_of, wrap_dim
from tinyt.ops.shape.reshape import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    flatten,
    tensors_of,
    unsqueeze,
)
from tinyt.tensor import Tensor, method, prim


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along a dimension; dtypes promote."""
    return prim.cat(tuple(tensors), dim, out=out)


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    items = _some("stack", tensors)
    shapes = [x.shape for x in items]
    first = shapes[0]
    if shapes.count(first) != len(shapes):
        at = next(i for i, shape in enumerate(shapes) if shape != first)
        raise ShapeError(
            "stack: all tensors must have one shape, got "
            f"{tuple(first)} and {tuple(shapes[at])} at {at}"
        )
    at = wrap_dim("stack", dim, len(first) + 1)
    if out is None and at < len(first):  # one reshape rather than one of each tensor
        joined = prim.cat(items, at)
        shape = (*first[:at], len(items), *first[at:])
        return _tensor.become(joined, prim.reshape(joined, shape))  # a view of nothing else
    return prim.cat(tuple(unsqueeze(x, at) for x in items), at, out=out)


def _some(op: str, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    items = tuple(tensors)
    for x in items:
        if not isinstance(x, Tensor):
            need_tensor(op, x)
    if not items:
        raise RuntimeError(f"{op}: expects a non-empty list of tensors")
    return items


def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the second dimension (the first of 1-d tensors)."""
    items = tuple(atleast_1d(x) for x in _some("hstack", tensors))
    return cat(items, 0 if items[0].dim() == 1 else 1, out=out)


def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the first dimension, 1-d ones as rows."""
    return cat([atleast_2d(x) for x in _some("vstack", tensors)], out=out)


def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the third dimension, with :func:`atleast_3d` shapes."""
    return cat([atleast_3d(x) for x in _some("dstack", tensors)], 2, out=out)


def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Tensors joined along the second dimension, 0-d and 1-d ones as columns."""
    items = _some("column_stack", tensors)
    columns = [x if x.dim() > 1 else prim.reshape(x, (x.numel(), 1)) for x in items]
    return cat(columns, 1, out=out)


def block_diag(*tensors: Any) -> Tensor:
    """Matrices one after another on the diagonal of a matrix of zeros; vectors are rows."""
    blocks = [atleast_2d(x) for x in tensors_of(tensors)]
    for i, x in enumerate(blocks):
        if x.dim() > 2:
            raise ShapeError(
                f"block_diag: needs at most 2 dimensions, got shape {tuple(x.shape)} at {i}"
            )
    if not blocks:
        return prim.fill((1, 0), _tensor.default_dtype_object(), 0.0, 0)
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = width - before - x.shape[1]
        rows.append(prim.pad(x, (0, 0, before, after), 0.0))
        before += x.shape[1]
    return cat(rows)


# ---- grids


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids: every vector expanded along all the others.

    ``indexing="ij"`` (the default): result k varies along dimension k; ``"xy"`` swaps the first
    two dimensions.
    """
    items = _some("meshgrid", tensors_of(tensors))
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}")
    for x in items:
        if x.dim() > 1:
            raise RuntimeError(f"meshgrid: expects 0-d or 1-d tensors, got shape {tuple(x.shape)}")
        if x.dtype is not items[0].dtype:
            raise RuntimeError(
                f"meshgrid: all tensors must have one dtype, got {items[0].dtype.name} and "
                f"{x.dtype.name}"
            )
    order = list(range(len(items)))
    if indexing == "xy" and len(items) > 1:
        order[:2] = 1, 0
    wide = []
    for k, x in enumerate(items):
        shape = [1] * len(items)
        shape[order[k]] = x.numel()
        wide.append(prim.reshape(x, shape))
    return broadcast_tensors(*wide)


def _vector(op: str, x: Tensor) -> None:
    if x.dim() != 1:
        raise RuntimeError(f"{op}: expects 1-d tensors, got shape {tuple(x.shape)}")


def cartesian_prod(*tensors: Any) -> Tensor:
    """Every way to pick one element from each vector, one a row."""
    items = _some("cartesian_prod", tensors_of(tensors))
    for x in items:
        _vector("cartesian_prod", x)
    if len(items) == 1:
        return items[0]
    return stack([flatten(grid) for grid in meshgrid(*items, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every way to pick ``r`` elements of a vector in order, one a row."""
    _vector("combinations", input)
    if r < 0:
        raise RuntimeError(f"combinations: r must not be negative, got {r}")
    if r == 0:
        return prim.fill((0,), input.dtype, 0.0, 0)
    n = input.numel()
    rows = _picks(n + r - 1 if n and with_replacement else n, r)
    if rows == 0:
        return prim.reshape(prim.slice(input, 0, 0, 0), (0, r))
    if rows * r > _MOST_PICKED:
        raise OutOfMemoryError(
            f"combinations: the picks of {r} out of {n} elements do not fit in memory"
        )
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    flat = list(itertools.chain.from_iterable(pick(range(n), r)))
    return prim.reshape(prim.gather(input, _tensor.from_data(flat), 0), (rows, r))


# The places of combinations are listed one by one, at 40 bytes each.
_MOST_PICKED = 2**32


def _picks(n: int, r: int) -> int:
    """The binomial coefficient, or more than ``_MOST_PICKED`` where it is larger."""
    if r > n:
        return 0
    few, count = min(r, n - r), 1
    for k in range(1, few + 1):  # each step doubles the count at least
        count = count * (n - few + k) // k
        if count > _MOST_PICKED:
            break
    return count


# ---- repeats


@method
def repeat(self: Tensor, repeats: Sizes, *more: int) -> Tensor:
    """Copies of the tensor side by side, ``repeats`` times in each dimension."""
    times = sizes_of(repeats, more)
    lead = len(times) - self.dim()
    if lead < 0 or any(n < 0 for n in times):
        raise RuntimeError(
            f"repeat: needs at least one number per dimension, none negative, got {times} for "
            f"shape {tuple(self.shape)}"
        )
    shape = (1,) * lead + tuple(self.shape)
    pairs = prim.reshape(self, tuple(x for n in shape for x in (1, n)))
    wide = prim.expand(pairs, tuple(x for r, n in zip(times, shape, strict=True) for x in (r, n)))
    return prim.reshape(prim.copy(wide), tuple(r * n for r, n in zip(times, shape, strict=True)))


@method
def tile(input: Tensor, dims: Sizes, *more: int) -> Tensor:
    """Like :func:`repeat`, with ones put in front where numbers are missing."""
    times = sizes_of(dims, more)
    return repeat(input, (1,) * (input.dim() - len(times)) + times)


_LARGEST = 2**63 - 1


def _places(op: str, repeats: Tensor, output_size: int | None) -> Tensor:
    """Position i ``repeats[i]`` times, for all i."""
    if repeats.dtype.name not in ("int32", "int64"):
        raise RuntimeError(f"{op}: repeats must be int32 or int64, got {repeats.dtype.name}")
    count = repeats.numel()
    if output_size is None:
        if count and prim.amin(repeats, (), False).item() < 0:
            raise RuntimeError(f"{op}: repeats must not be negative")
        most = int(prim.amax(repeats, (), False).item()) if count else 0
        if most * count > _LARGEST and sum(repeats.tolist()) > _LARGEST:
            raise ShapeError(f"{op}: the repeats must add up to at most {_LARGEST}")
        return _expanded(repeats, int(prim.sum(repeats, (), False).item()))
    if not 0 <= output_size < _LARGEST:
        raise RuntimeError(
            f"{op}: output_size must not be negative and at most {_LARGEST - 1}, got {output_size}"
        )
    # Without a look at the data: what is wrong with it are places that are not there.
    try:
        places = _expanded(prim.where(prim.lt(repeats, 0), output_size + 1, repeats), output_size)
        return prim.gather(prim.iota(count, 5, 0.0, 0.0, 0, 1), places, 0)
    except OutOfRangeError as error:
        raise OutOfRangeError(
            f"{op}: repeats must not be negative and add up to output_size {output_size}: {error}"
        ) from error


def _expanded(repeats: Tensor, total: int) -> Tensor:
    # Place j holds the number of elements whose copies end at or before j.
    ends, one = prim.cumsum(repeats, 0), prim.fill((repeats.numel(),), 5, 0.0, 1)
    marks = prim.scatter_add(prim.fill((total + 1,), 5, 0.0, 0), ends, one, 0)
    return prim.slice(prim.cumsum(marks, 0), 0, 0, total)


@method
def repeat_interleave(
    input: Tensor,
    repeats: Tensor | int | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Every element (or slice along ``dim``) ``repeats`` times in a row.

    ``repeats``: one number, or an integer tensor with one for each. A single argument is taken as
    the repeats of 0, 1, 2, …; ``output_size``: what they add up to.
    """
    if repeats is None:
        return _places("repeat_interleave", input, output_size)
    x = flatten(input) if dim is None else atleast_1d(input)
    d = wrap_dim("repeat_interleave", 0 if dim is None else dim, x.dim())
    shape = tuple(x.shape)
    times = repeats
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        one = prim.reshape(repeats, (1,))
        times = int(repeats) if output_size is None else prim.expand(one, (shape[d],))
    if not isinstance(times, Tensor):
        if times < 0:
            raise RuntimeError(f"repeat_interleave: repeats must not be negative, got {times}")
        pairs = prim.reshape(x, (*shape[: d + 1], 1, *shape[d + 1 :]))
        wide = prim.expand(pairs, (*shape[: d + 1], times, *shape[d + 1 :]))
        return prim.reshape(prim.copy(wide), (*shape[:d], shape[d] * times, *shape[d + 1 :]))
    if tuple(times.shape) != (shape[d],):
        raise RuntimeError(
            f"repeat_interleave: repeats has shape {tuple(times.shape)}, dimension {d} has "
            f"{shape[d]} elements"
        )
    places = _places("repeat_interleave", times, output_size)
    count = places.numel()
    wide = prim.reshape(places, (1,) * d + (count,) + (1,) * (x.dim() - d - 1))
    return prim.gather(x, prim.expand(wide, (*shape[:d], count, *shape[d + 1 :])), d)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        cat, stack, hstack, vstack, dstack, column_stack, block_diag, meshgrid, cartesian_prod,
        combinations, tile, repeat_interleave,
    )
} | {"concat": cat, "concatenate": cat, "row_stack": vstack}  # fmt: skip
