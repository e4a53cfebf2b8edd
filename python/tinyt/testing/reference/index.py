"""Reading and writing at indices, masks and slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Formula, Row, Sized, at, line


def getitem(x: Array, key: Any) -> Array:
    """Integers select first, as in PyTorch; NumPy counts them among the index arrays."""
    key = key if isinstance(key, tuple) else (key,)
    first: list[Any] = []
    second: list[Any] = []
    for k in (np.asarray(k) if isinstance(k, list) else k for k in key):
        if isinstance(k, np.ndarray):
            first += [slice(None)] * (k.ndim if k.dtype == bool else 1)
            second.append(k)
        else:
            first.append(k)
            second += [] if isinstance(k, int) else [k if k is Ellipsis else slice(None)]
    return np.asarray(x[tuple(first)])[tuple(second)]


def gather(x: Array, dim: int, index: Array) -> Array:
    x, places = line(x), line(index)
    part = [slice(n) for n in places.shape]
    part[dim] = slice(None)
    return np.take_along_axis(x[tuple(part)], places, dim).reshape(index.shape)


def scatter(x: Array, dim: int, index: Array, src: Any, combine: np.ufunc | None = None) -> Array:
    """Puts an element of src where each index says, or combines it with what is there."""
    out, index, src = line(x).copy(), line(index), line(np.asarray(src))
    src = src if src.size == 1 else src[tuple(slice(n) for n in index.shape)]
    places = list(np.indices(index.shape))
    places[dim] = np.where(index < 0, index + out.shape[dim], index)
    if combine is None:
        out[tuple(places)] = np.broadcast_to(src, index.shape)
    else:
        combine.at(out, tuple(places), src)
    return out.reshape(x.shape)


scatter_add: Formula = lambda x, dim, index, src: scatter(x, dim, index, src, np.add)


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True
) -> Array:
    names = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
    if not include_self:
        first = {"sum": 0, "mean": 0, "prod": 1}
        x = scatter(x, dim, index, first.get(reduce, src))  # amax of src twice is that of src
    found = scatter(x, dim, index, src, names.get(reduce, np.add))
    if reduce != "mean":
        return found
    count = scatter_add(np.full(x.shape, int(include_self)), dim, index, 1)
    return (found // np.maximum(count, 1)) if x.dtype.kind == "i" else found / np.maximum(count, 1)


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool = True
) -> Array:
    """scatter_reduce with a line of indices along a dimension."""
    wide = np.expand_dims(index, [d for d in range(x.ndim) if d != dim % x.ndim])
    wide = np.broadcast_to(wide, source.shape)
    return scatter_reduce(x, dim, wide, source, reduce, include_self)


index_add: Formula = lambda x, dim, index, source: index_reduce(x, dim, index, source, "sum")


def select_scatter(x: Array, src: Any, dim: int, index: Any) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[index] = src
    return out


def slice_scatter(
    x: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    return select_scatter(x, np.moveaxis(src, dim, 0), dim, slice(start, end, step))


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    return select_scatter(x, np.moveaxis(source, dim, 0), dim, index)


index_fill: Formula = lambda x, dim, index, value: select_scatter(x, value, dim, index)


def diagonal_scatter(x: Array, src: Array, offset: int = 0, d1: int = 0, d2: int = 1) -> Array:
    places = np.diagonal(np.arange(x.size).reshape(x.shape), offset, d1, d2)
    return put(x, places, src)


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    """At places in the flattened tensor."""
    combine = np.add if accumulate else None
    return scatter(x.reshape(-1), 0, index.reshape(-1), source.reshape(-1), combine).reshape(
        x.shape
    )


def index_put(x: Array, indices: Any, values: Array, accumulate: bool = False) -> Array:
    places = np.arange(x.size).reshape(x.shape)[tuple(indices)]
    return put(x, places, np.broadcast_to(values, places.shape), accumulate)


masked_fill: Formula = lambda x, mask, value: np.where(mask, np.asarray(value).astype(x.dtype), x)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    mask = np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    out = np.broadcast_to(x, mask.shape).copy()
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def nonzero_static(x: Array, *, size: int, fill_value: int = -1) -> Array:
    found = np.argwhere(x)[:size]
    return np.concatenate([found, np.full((size - len(found), x.ndim), fill_value)])


def embedding_bag(
    index: Array,
    weight: Array,
    offsets: Array | None = None,
    mode: str = "mean",
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Array:
    """Bag by bag; an empty one gives zeros."""
    scale = np.ones(index.shape) if per_sample_weights is None else per_sample_weights
    parts: Any = zip(index, scale, strict=True)
    if offsets is not None:
        ends = offsets[1:] if include_last_offset else [*offsets[1:], len(index)]
        parts = [(index[a:b], scale[a:b]) for a, b in zip(offsets, ends, strict=False)]
    bags = []
    for places, factor in parts:
        keep = places != padding_idx
        rows = weight[places[keep]] * factor[keep][:, None]
        bags.append(getattr(rows, mode)(axis=0) if len(rows) else np.zeros(weight.shape[1]))
    return np.array(bags).reshape(-1, weight.shape[1])


_pair: Formula = lambda value: (value, value) if isinstance(value, int) else tuple(value)


def _patches(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    """[elements of the kernel, blocks]: the numbers of pixels, one beyond the last outside."""
    sides = zip(*map(_pair, (size, kernel, dilation, padding, stride)), strict=True)
    lines = [  # [kernel, blocks] of each side
        np.add.outer(d * np.arange(k) - p, s * np.arange((n + 2 * p - d * (k - 1) - 1) // s + 1))
        for n, k, d, p, s in sides
    ]
    y, x = lines[0][:, None, :, None], lines[1][:, None]
    inside = (y >= 0) & (y < size[0]) & (x >= 0) & (x < size[1])
    numbers = np.where(inside, y * size[1] + x, size[0] * size[1])
    return numbers.reshape(lines[0].shape[0] * lines[1].shape[0], -1)


def unfold_patches(
    x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Array:
    places = _patches(x.shape[-2:], kernel_size, dilation, padding, stride)
    pixels = np.append(x.reshape(*x.shape[:-2], -1), np.zeros((*x.shape[:-2], 1), x.dtype), -1)
    return pixels[..., places].reshape(*x.shape[:-3], -1, places.shape[1])


def fold_patches(
    x: Array, output_size: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Array:
    size = _pair(output_size)
    places = _patches(size, kernel, dilation, padding, stride)
    columns = x.reshape(*x.shape[:-2], -1, *places.shape)
    out: Any = np.zeros((*columns.shape[:-2], size[0] * size[1] + 1), x.dtype)
    np.add.at(out, at(..., places), columns)
    return out[..., :-1].reshape(*out.shape[:-1], *size)


def _combined(combine: np.ufunc, x: Array, index: Array, src: Array, dim: int) -> Sized:
    times = scatter_add(np.zeros(x.shape), dim, index, 1)
    size = scatter(abs(x), dim, index, abs(src), combine)
    return Sized(scatter(x, dim, index, src, combine), size * times)


def _linear_index(*args: Any) -> Array:
    indices, sizes = args[:-3], args[-3]
    found = 0
    for x, n in zip(indices, sizes, strict=True):
        found = found * n + np.where(x < 0, x + n, x).astype(np.int64)
    return np.asarray(found).reshape(-1)


_REDUCTIONS: Sequence[np.ufunc] = (np.multiply, np.maximum, np.minimum)

ROWS = {
    "gather": Row(lambda x, index, dim: gather(x, dim, index), 0),
    "scatter": Row(lambda x, index, src, dim: scatter(x, dim, index, src), 0),
    "scatter_add": Row(lambda *args: _combined(np.add, *args), 1),
    "scatter_reduce": Row(lambda *args: _combined(_REDUCTIONS[args[-1]], *args[:-1]), 1),
    "linear_index": Row(_linear_index, 0),
}
