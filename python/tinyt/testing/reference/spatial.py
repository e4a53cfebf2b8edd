"""Pools, and resampling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Row, Sized, Sizes, at, each

Window = Sequence[Sequence[int]]  # the positions that a window covers, for each dimension
Windows = Sequence[Window]  # for each dimension, for each window


def _windows(
    sizes: Sequence[int],
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Windows:
    """Windows of a pool, positions in the padding included."""
    n, found = len(sizes), []
    step = each(kernel_size if stride is None else stride, n)
    sides = (sizes, each(kernel_size, n), step, each(padding, n), each(dilation, n))
    for size, k, s, p, d in zip(*sides, strict=True):
        free = size + 2 * p - d * (k - 1) - 1
        m = (-(-free // s) if ceil_mode else free // s) + 1
        # The last window must start inside the input or its left padding.
        m -= bool(ceil_mode and (m - 1) * s >= size + p)
        found.append([range(i * s - p, i * s - p + k * d, d) for i in range(m)])
    return found


def _even_windows(sizes: Sequence[int], output_size: Any) -> Windows:
    """The windows of adaptive pools."""
    wanted = output_size if isinstance(output_size, tuple) else (output_size,) * len(sizes)
    counts = [(n, n if m is None else m) for n, m in zip(sizes, wanted, strict=True)]
    return [[range(i * n // m, -(-(i + 1) * n // m)) for i in range(m)] for n, m in counts]


def _over_windows(x: Array, windows: Windows, value: Callable[[Array, Window], Array]) -> Array:
    """value([..., elements], window) of each window; of the elements those inside the input."""
    n = len(windows)
    lead, found = x.shape[: x.ndim - n], []
    for window in itertools.product(*windows):
        inside = _inside(window, x.shape[-n:])
        part = x[at(..., *np.ix_(*inside))]
        found.append(value(part.reshape(*lead, math.prod(part.shape[-n:])), window))
    shape = *lead, *map(len, windows)
    return np.stack(found, -1).reshape(shape) if found else np.zeros(shape, x.dtype)


def _inside(window: Window, sizes: Sequence[int]) -> list[list[int]]:
    return [[i for i in w if 0 <= i < n] for w, n in zip(window, sizes, strict=True)]


def _largest(x: Array, windows: Windows, return_indices: bool = False) -> Any:
    values = _over_windows(x, windows, lambda part, _: part.max(-1))
    if not return_indices:
        return values
    sizes = x.shape[-len(windows) :]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)

    def index(part: Array, window: Window) -> Array:
        return numbers[np.ix_(*_inside(window, sizes))].reshape(-1)[part.argmax(-1)]

    return values, _over_windows(x, windows, index)


def max_pool(n: int, x: Array, *, return_indices: bool = False, **window: Any) -> Any:
    return _largest(x, _windows(x.shape[-n:], **window), return_indices)


def adaptive_max_pool(n: int, x: Array, output_size: Any, return_indices: bool = False) -> Any:
    return _largest(x, _even_windows(x.shape[-n:], output_size), return_indices)


def avg_pool(
    n: int, x: Array, *, count_include_pad: bool = True, divisor_override: Any = None, **window: Any
) -> Array:
    padding = each(window.get("padding", 0), n)
    ends = [size + p for size, p in zip(x.shape[-n:], padding, strict=True)]

    def average(part: Array, window: Window) -> Array:
        padded = math.prod(sum(i < e for i in w) for w, e in zip(window, ends, strict=True))
        size = padded if count_include_pad else part.shape[-1]
        return part.sum(-1) / (divisor_override or size)

    return _over_windows(x, _windows(x.shape[-n:], **window), average)


def adaptive_avg_pool(n: int, x: Array, output_size: Any) -> Array:
    windows = _even_windows(x.shape[-n:], output_size)
    return _over_windows(x, windows, lambda part, _: part.mean(-1))


def lp_pool(
    n: int, x: Array, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None
) -> Array:
    windows = _windows(x.shape[-n:], kernel_size, stride)
    return _over_windows(x, windows, lambda part, _: np.linalg.norm(part, norm_type, axis=-1))


def max_unpool(
    n: int, x: Array, indices: Array, kernel_size: Sizes, *, output_size: Any = None
) -> Array:
    sides = zip(x.shape[-n:], each(kernel_size, n), strict=True)
    size = output_size or tuple(m * k for m, k in sides)
    out = np.zeros((*x.shape[:-n], *size[-n:]))
    for place in np.ndindex(x.shape):
        out[place[:-n]].flat[indices[place]] = x[place]
    return out


def _keys(x: float, a: float) -> float:
    """Keys' cubic kernel."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def _resampling_matrix(
    mode: str, n: int, m: int, align: bool, factor: float | None, antialias: bool
) -> Array:
    """[m, n]: what each input position adds to each output position."""
    matrix = np.zeros((m, n))
    step = n / m if factor is None else 1 / factor
    if align:
        step = (n - 1) / (m - 1) if m > 1 else 0.0
    cubic = mode == "bicubic"

    def kernel(x: float) -> float:
        return _keys(x, -0.5 if antialias else -0.75) if cubic else max(0.0, 1 - abs(x))

    for i in range(m):
        if mode.startswith("nearest"):
            nearest = math.floor((i + (0.5 if mode == "nearest-exact" else 0)) * step)
            matrix[i, min(nearest, n - 1)] = 1
        elif mode == "area":
            window = _even_windows([n], m)[0][i]
            matrix[i, window] = 1 / len(window)
        elif antialias:
            centre, wide = step * (i + 0.5), max(step, 1.0)
            reach = (2 if cubic else 1) * wide
            for j in range(max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)):
                matrix[i, j] = kernel((j + 0.5 - centre) / wide)
            matrix[i] /= matrix[i].sum()
        else:  # the edge elements repeat beyond the edges
            centre = step * i if align else step * (i + 0.5) - 0.5
            for j in range(math.floor(centre) - 2, math.floor(centre) + 4):
                matrix[i, min(max(j, 0), n - 1)] += kernel(centre - j)
    return matrix


def interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    n = x.ndim - 2
    factors: Any = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * n
    wanted = size if isinstance(size, tuple) else (size,) * n
    if size is None:
        wanted = tuple(math.floor(a * s) for a, s in zip(x.shape[2:], factors, strict=True))
    if recompute_scale_factor or mode == "area":
        factors = (None,) * n
    for d, (m, factor) in enumerate(zip(wanted, factors, strict=True), 2):
        matrix = _resampling_matrix(mode, x.shape[d], m, bool(align_corners), factor, antialias)
        x = np.moveaxis(np.tensordot(x, matrix, (d, 1)), -1, d)
    return x


def local_response_norm(
    x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return out


def _bounded(x: float, n: int, padding_mode: str, align: bool) -> float:
    """A coordinate as padding has it; reflection walks back and forth between the borders."""
    low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
    if padding_mode == "reflection":
        x = 0.0 if low == high else x
        while not low <= x <= high:
            x = 2 * low - x if x < low else 2 * high - x
    return x if padding_mode == "zeros" else min(max(x, 0.0), n - 1.0)


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """Each point by itself: a kernel over the neighbouring elements, along every dimension."""
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))

    def neighbours(c: float, n: int) -> list[tuple[int, float]]:
        place = (c + 1) / 2 * (n - 1) if align_corners else ((c + 1) * n - 1) / 2
        if mode == "bicubic":
            near = [math.floor(place) + k for k in (-1, 0, 1, 2)]
            places = [int(_bounded(j, n, padding_mode, align_corners)) for j in near]
            return [(p, _keys(place - j, -0.75)) for p, j in zip(places, near, strict=True)]
        place = _bounded(place, n, padding_mode, align_corners)
        if mode == "nearest":
            return [(round(place), 1.0)]
        low = math.floor(place)
        return [(low, low + 1 - place), (low + 1, place - low)]

    for point in np.ndindex(grid.shape[:-1]):
        sides = [neighbours(c, n) for n, c in zip(sizes, grid[point][::-1], strict=True)]
        for corner in itertools.product(*sides):
            place = tuple(j for j, _ in corner)
            if all(0 <= j < n for j, n in zip(place, sizes, strict=True)):
                taken = math.prod(w for _, w in corner) * x[at(point[0], slice(None), *place)]
                out[at(point[0], slice(None), *point[1:])] += taken
    return out


def affine_grid(theta: Array, size: Sequence[int], align_corners: bool = False) -> Array:
    sizes = tuple(size[2:])
    steps = [
        np.linspace(-1, 1, n) * (n > 1) if align_corners else (2 * np.arange(n) + 1) / n - 1
        for n in sizes
    ]
    points = np.stack([*np.meshgrid(*steps, indexing="ij")[::-1], np.ones(sizes)], -1)
    return np.einsum("nij,...j->n...i", theta, points)


def _max_pool(x: Array, size: Any, begin: Any, end: Any, step: Any) -> tuple[Array, None]:
    """Windows by their first and last positions, one dimension after another."""
    starts, windows = np.cumsum([0, *size[:-1]]), []
    for first, count, n in zip(starts, size, step, strict=True):
        places = slice(first, first + count)
        windows.append([range(a, b, n) for a, b in zip(begin[places], end[places], strict=True)])
    return _largest(x, windows), None


def _resample(
    x: Array, weight: Array, size: Any, taps: Any, index: Any, transposed: bool = False
) -> Sized:
    """A sparse matrix for each dimension: pairs (index, weight), so many (taps) for each row."""
    found, scale, first, used = x, abs(x), 0, 0
    for d, n in enumerate(size, 2):
        rows = x.shape[d] if transposed else n
        counts = np.asarray(taps[used : used + rows], np.int64)
        last = first + int(counts.sum())
        source, target = np.asarray(index[first:last], np.int64), np.repeat(np.arange(rows), counts)
        if transposed:
            source, target = target, source
        part = weight[first:last].reshape(-1, *(1,) * (x.ndim - 1))
        sums = []
        for y, w in ((found, part), (scale, abs(part))):  # what is not taken does not count
            y = np.moveaxis(y, d, 0)
            out = np.zeros((n, *y.shape[1:]), y.dtype)
            np.add.at(out, target, w * y[source])
            sums.append(np.moveaxis(out, 0, d))
        found, scale = sums
        first, used = last, used + rows
    return Sized(found, scale * 4 * (max(taps, default=0) + 4))


ROWS = {"max_pool": Row(_max_pool, 0), "resample": Row(_resample, 1)}
