"""What the operations on shapes mean, in NumPy: joins, diagonals, padding, patches and scatters,
written from their definitions and independently of the library."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray

# ------------------------------------------------------------------ views


def as_strided(x: Array, size: Sequence[int], stride: Sequence[int], offset: int = 0) -> Array:
    out = np.empty(size, x.dtype)
    for p in np.ndindex(*size):
        out[p] = x.reshape(-1)[offset + sum(a * s for a, s in zip(p, stride, strict=True))]
    return out


def unfold(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    starts = range(0, x.shape[dim] - size + 1, step)
    windows = [np.moveaxis(np.take(x, range(a, a + size), dim), dim, -1) for a in starts]
    return np.stack(windows, dim % x.ndim)


def sum_to_size(x: Array, *size: int) -> Array:
    lead = x.ndim - len(size)
    x = x.sum(axis=tuple(range(lead)))
    return x.sum(axis=tuple(d for d, n in enumerate(size) if n == 1), keepdims=True)


def atleast_3d(x: Array) -> Array:
    return np.atleast_3d(x)


# ------------------------------------------------------------------ joins


def block_diag(*xs: Array) -> Array:
    blocks = [np.atleast_2d(x) for x in xs]
    out = np.zeros([sum(b.shape[d] for b in blocks) for d in (0, 1)], np.result_type(*blocks))
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


def meshgrid(*xs: Array, indexing: str = "ij") -> Any:
    return np.meshgrid(*xs, indexing=indexing)


def cartesian_prod(*xs: Array) -> Array:
    rows = np.array(list(itertools.product(*xs)), xs[0].dtype)
    return xs[0] if len(xs) == 1 else rows.reshape(-1, len(xs))


def combinations(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(pick(x, r))
    return np.array(rows, x.dtype).reshape(len(rows), r) if r else np.zeros(0, x.dtype)


def repeat_interleave(
    x: Array, repeats: Any, dim: int | None = None, output_size: int | None = None
) -> Array:
    return np.repeat(x, repeats, dim)


# ------------------------------------------------------------------ diagonals and triangles


def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return np.diagonal(x, offset, dim1, dim2)


def diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    side = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], side, side), x.dtype)
    for i in range(x.shape[-1]):
        out[..., i + max(-offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def diagonal_scatter(x: Array, src: Array, offset: int = 0, d1: int = 0, d2: int = 1) -> Array:
    out = x.copy()
    places = np.diagonal(np.arange(x.size).reshape(x.shape), offset, d1, d2)
    out.reshape(-1)[places] = src
    return out


def select_scatter(x: Array, src: Array, dim: int, index: int) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[index] = src
    return out


def slice_scatter(
    x: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[start:end:step] = np.moveaxis(src, dim, 0)
    return out


def as_strided_scatter(x: Array, src: Array, size: Any, stride: Any, offset: int = 0) -> Array:
    out = x.copy()
    out.reshape(-1)[as_strided(np.arange(x.size), size, stride, offset)] = src
    return out


# ------------------------------------------------------------------ padding


def source_of(mode: str, at: int, n: int) -> int:
    """The element of [0, n) that padding puts at position `at` of the line."""
    if mode == "replicate":
        return min(max(at, 0), n - 1)
    if mode == "circular":
        return at % n
    return at % (2 * n - 2) if at % (2 * n - 2) < n else 2 * n - 2 - at % (2 * n - 2)


def pad_with(x: Array, pad: Sequence[int], mode: str) -> Array:
    """Element by element along one dimension after the other, the last first."""
    for k in range(len(pad) // 2):
        d, before, after = x.ndim - 1 - k, pad[2 * k], pad[2 * k + 1]
        if mode == "circular":  # negative amounts go first
            x = np.take(x, range(max(-before, 0), x.shape[d] - max(-after, 0)), d)
            before, after = max(before, 0), max(after, 0)
        places = [source_of(mode, p, x.shape[d]) for p in range(-before, x.shape[d] + after)]
        x = np.take(x, places, d)
    return x


# ------------------------------------------------------------------ pixels and patches


def pixel_shuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    out = np.empty((*lead, c // r**2, h * r, w * r), x.dtype)
    for k, i, j in np.ndindex(*out.shape[-3:]):
        out[..., k, i, j] = x[..., k * r * r + (i % r) * r + j % r, i // r, j // r]
    return out


def pixel_unshuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    out = np.empty((*lead, c * r * r, h // r, w // r), x.dtype)
    for k, i, j in np.ndindex(c, h, w):
        out[..., k * r * r + (i % r) * r + j % r, i // r, j // r] = x[..., k, i, j]
    return out


def channel_shuffle(x: Array, groups: int) -> Array:
    per_group = x.shape[1] // groups
    return x[:, [g * per_group + k for k in range(per_group) for g in range(groups)]]


def pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def patches(size: Any, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Iterator[Any]:
    """(row in the block, block number, pixel) of every element that lies inside the image."""
    size, kernel, dilation, padding, stride = map(pair, (size, kernel, dilation, padding, stride))
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(size, kernel, dilation, padding, stride, strict=True)
    ]
    for row, k in enumerate(np.ndindex(*kernel)):
        for block, b in enumerate(np.ndindex(*counts)):
            at = [b[i] * stride[i] + k[i] * dilation[i] - padding[i] for i in (0, 1)]
            yield (
                row,
                block,
                tuple(at) if min(at) >= 0 and at[0] < size[0] and (at[1] < size[1]) else None,
            )


def unfold_patches(
    x: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Array:
    places = list(patches(x.shape[-2:], kernel_size, dilation, padding, stride))
    rows, blocks = places[-1][0] + 1, places[-1][1] + 1
    out = np.zeros((*x.shape[:-2], rows, blocks), x.dtype)
    for row, block, at in places:
        if at is not None:
            out[..., row, block] = x[(..., *at)]
    return out.reshape(*x.shape[:-3], -1, blocks)


def fold_patches(
    x: Array,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Array:
    size, kernel = pair(output_size), pair(kernel_size)
    columns = x.reshape(*x.shape[:-2], -1, kernel[0] * kernel[1], x.shape[-1])
    out = np.zeros((*columns.shape[:-2], *size), x.dtype)
    for row, block, at in patches(size, kernel, dilation, padding, stride):
        if at is not None:
            out[(..., *at)] += columns[..., row, block]
    return out


# ------------------------------------------------------------------ reading and writing at indices


def combined(reduce: str) -> Callable[[list[Any]], Any]:
    """What values that meet in one place become."""
    return {
        "sum": sum,
        "prod": np.prod,
        "mean": lambda v: sum(v) // len(v) if v[0].dtype.kind == "i" else sum(v) / len(v),
        "amax": max,
        "amin": min,
    }[reduce]


def scatter_reduce(
    x: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool = True
) -> Array:
    met: dict[Any, list[Any]] = {}
    for p in np.ndindex(index.shape):
        at = (*p[: dim % index.ndim], int(index[p]), *p[dim % index.ndim + 1 :])
        met.setdefault(at, [x[at]] if include_self else []).append(src[p])
    out = x.copy()
    for at, values in met.items():
        out[at] = combined(reduce)(values)
    return out


def slices(dim: int, index: Array, shape: Sequence[int]) -> Array:
    """A 1-d index along a dimension as one of full rank."""
    wide = [1] * len(shape)
    wide[dim] = index.size
    full = [index.size if d == dim % len(shape) else n for d, n in enumerate(shape)]
    return np.broadcast_to(index.reshape(wide), full)


def index_reduce(
    x: Array, dim: int, index: Array, source: Array, reduce: str, include_self: bool = True
) -> Array:
    return scatter_reduce(x, dim, slices(dim, index, x.shape), source, reduce, include_self)


def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    out = x.copy()
    for k, at in enumerate(index):
        np.moveaxis(out, dim, 0)[at] = np.moveaxis(source, dim, 0)[k]
    return out


def index_fill(x: Array, dim: int, index: Array, value: Any) -> Array:
    out = x.copy()
    for at in index:
        np.moveaxis(out, dim, 0)[at] = value
    return out


def index_put(x: Array, indices: Any, values: Array, accumulate: bool = False) -> Array:
    out = x.copy()
    places = np.arange(x.size).reshape(x.shape)[tuple(indices)]
    for at, v in zip(places.reshape(-1), np.broadcast_to(values, places.shape).flat, strict=True):
        out.reshape(-1)[at] = out.reshape(-1)[at] + v if accumulate else v
    return out


def put(x: Array, index: Array, source: Array, accumulate: bool = False) -> Array:
    return index_put(x.reshape(-1), (index,), source, accumulate).reshape(x.shape)


def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    mask = np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
    out = np.broadcast_to(x, mask.shape).copy()
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def nonzero_static(x: Array, *, size: int, fill_value: int = -1) -> Array:
    found = np.argwhere(x)[:size]
    rest = np.full((size - len(found), x.ndim), fill_value)
    return np.concatenate([found, rest]).astype(np.int64)


def take_along_dim(x: Array, index: Array, dim: int | None = None) -> Array:
    if dim is None:
        return x.reshape(-1)[index.reshape(-1)]
    return np.take_along_axis(x, index, dim)
