"""Operations on shapes: views, joins, diagonals, padding; tensors from nothing."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyt.dtypes import ALL
from tinyt.testing.reference.form import Array, Formula, Row, Sized


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Array:
    """Where the elements of a view lie in a dense value."""
    places = np.full(tuple(size), offset, np.int64)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        places += (np.arange(n) * step).reshape(-1, *(1,) * (len(size) - 1 - d))
    return places


as_strided: Formula = lambda x, size, stride, offset=0: x.reshape(-1)[_places(size, stride, offset)]


def as_strided_scatter(x: Array, src: Array, size: Any, stride: Any, offset: int = 0) -> Array:
    out = x.copy()
    out.reshape(-1)[_places(size, stride, offset)] = src
    return out


def expand(x: Array, size: Sequence[int]) -> Array:
    own = (*(1,) * (len(size) - x.ndim), *x.shape)
    return np.broadcast_to(x, [a if n == -1 else n for n, a in zip(size, own, strict=True)])


def slice_of(x: Array, dim: int, start: Any, end: Any, step: int = 1) -> Array:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


narrow: Formula = lambda x, dim, start, length: slice_of(x, dim, start, start + length)


def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(x, axis=tuple(d % x.ndim for d in dims if x.shape[d] == 1))


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    middle = math.prod(x.shape[start : end + 1])
    return x.reshape(*x.shape[:start], middle, *x.shape[end + 1 :])


def split(x: Array, size: int | Sequence[int], dim: int = 0) -> list[Array]:
    n = x.shape[dim]
    ends = range(size, n, size) if isinstance(size, int) else np.cumsum(size)[:-1]
    return np.split(x, ends, dim)


chunk: Formula = lambda x, chunks, dim=0: split(x, max(1, -(-x.shape[dim] // chunks)), dim)


def unfold(x: Array, dim: int, size: int, step: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)[:size]
    starts = range(0, x.shape[dim] - size + 1, step)
    windows = [np.moveaxis(narrow(x, dim, a, size), dim, -1) for a in starts]
    return np.stack(windows, dim % x.ndim)


def sum_to_size(x: Array, *size: int) -> Array:
    x = x.sum(axis=tuple(range(x.ndim - len(size))))
    return x.sum(axis=tuple(d for d, n in enumerate(size) if n == 1), keepdims=True)


def block_diag(*xs: Array) -> Array:
    blocks = [np.atleast_2d(x) for x in xs]
    out = np.zeros([sum(b.shape[d] for b in blocks) for d in (0, 1)], np.result_type(*blocks))
    row = column = 0
    for b in blocks:
        out[row : row + b.shape[0], column : column + b.shape[1]] = b
        row, column = row + b.shape[0], column + b.shape[1]
    return out


def cartesian_prod(*xs: Array) -> Array:
    rows = np.array(list(itertools.product(*xs)), xs[0].dtype)
    return xs[0] if len(xs) == 1 else rows.reshape(-1, len(xs))


def combinations(x: Array, r: int = 2, with_replacement: bool = False) -> Array:
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(pick(x, r))
    return np.array(rows, x.dtype).reshape(len(rows), r) if r else np.zeros(0, x.dtype)


def diag_embed(x: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    side = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], side, side), x.dtype)
    for i in range(x.shape[-1]):
        out[..., i + max(-offset, 0), i + max(offset, 0)] = x[..., i]
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def pad_constant(x: Array, pad: Sequence[int], value: float = 0) -> Array:
    """Pairs from the first dimension on; a negative amount crops."""
    widths = list(zip(pad[::2], pad[1::2], strict=True))
    crops = zip(x.shape, widths, strict=True)
    x = x[tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in crops)]
    grow = [(max(low, 0), max(high, 0)) for low, high in widths]
    return np.pad(x, grow, constant_values=np.asarray(value).astype(x.dtype))


MODES = ("reflect", "replicate", "circular")


def pad_border(x: Array, pad: Sequence[int], mode: int) -> Array:
    """With elements of x; pairs from the first dimension on."""
    for d in range(x.ndim):
        n, last = x.shape[d], x.shape[d] - 1
        source = np.arange(-pad[2 * d], n + pad[2 * d + 1])
        if MODES[mode] == "reflect":
            source = last - abs(last - source % max(2 * last, 1))
        elif MODES[mode] == "replicate":
            source = np.clip(source, 0, last)
        else:
            source = source % max(n, 1)
        x = np.take(x, source, d)
    return x


def pad(x: Array, pad: Sequence[int], mode: str = "constant", value: float = 0) -> Array:
    """Pairs from the last dimension on; a negative amount crops."""
    pairs = [pad[k : k + 2] for k in range(0, len(pad), 2)]
    widths = [0] * (2 * x.ndim - len(pad)) + [n for pair in reversed(pairs) for n in pair]
    if mode == "constant":
        return pad_constant(x, widths, value)
    if mode == "circular":  # what is cropped does not come back
        x, widths = pad_constant(x, [min(n, 0) for n in widths]), [max(n, 0) for n in widths]
    return pad_border(x, widths, MODES.index(mode))


def pixel_shuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    blocks = np.moveaxis(x.reshape(*lead, c // r**2, r, r, h, w), (-4, -3), (-3, -1))
    return blocks.reshape(*lead, c // r**2, h * r, w * r)


def pixel_unshuffle(x: Array, r: int) -> Array:
    *lead, c, h, w = x.shape
    blocks = np.moveaxis(x.reshape(*lead, c, h // r, r, w // r, r), (-3, -1), (-4, -3))
    return blocks.reshape(*lead, c * r**2, h // r, w // r)


channel_shuffle: Formula = lambda x, groups: x[
    :, np.arange(x.shape[1]).reshape(groups, -1).T.reshape(-1)
]


def arange(start: float, end: float | None = None, step: float = 1) -> Array:
    start, end = (0, start) if end is None else (start, end)
    return start + step * np.arange(max(0, math.ceil((end - start) / step)))


def _iota(
    n: int, number: int, start: float, step: float, istart: int, istep: int, device: int
) -> Any:
    count = np.arange(n)
    if ALL[number].is_floating_point:
        return Sized(start + count * step, count * abs(step) + abs(start))
    return (istart + count * istep).astype(ALL[number].name)


def _fill(size: Any, number: int, value: float, integer: int, imag: float, device: int) -> Array:
    dtype = ALL[number]
    if dtype.is_complex:
        return np.full(tuple(size), complex(value, imag))
    if dtype.is_floating_point:
        return np.full(tuple(size), value, np.float64)
    return np.full(tuple(size), np.asarray(integer).astype(dtype.name))


ROWS = {
    "as_strided": Row(as_strided, 0),
    "update": Row(as_strided_scatter, 0),
    "reshape": Row(lambda x, shape: x.reshape(tuple(shape)), 0),
    "permute": Row(lambda x, dims: np.transpose(x, tuple(dims)), 0),
    "expand": Row(expand, 0),
    "slice": Row(slice_of, 0),
    "pad": Row(pad_constant, 0),
    "pad_border": Row(pad_border, 0),
    "flip": Row(lambda x, dims: np.flip(x, tuple(dims)), 0),
    "cat": Row(lambda *parts: np.concatenate(parts[:-1], parts[-1]), 0),
    "fill": Row(_fill, 0),
    "iota": Row(_iota, 2),
}
