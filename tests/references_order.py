"""What scans, selections, searches and counts mean, line by line, in NumPy and float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray


def per_line(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """A function of one 1-d line along `dim`; each of its results is a value or a line."""

    def wrapped(x: Array, dim: int = -1, *args: Any, **kwargs: Any) -> tuple[Array, ...]:
        if x.ndim == 0:
            found = function(x.reshape(1), *args, **kwargs)
            return tuple(np.asarray(r).reshape(()) for r in found)
        moved = np.moveaxis(x, dim, -1)
        lines = moved.reshape(-1, moved.shape[-1])
        found = [function(line, *args, **kwargs) for line in lines]
        results = []
        for many in zip(*found, strict=True):
            stacked = np.array(many)
            shape = (*moved.shape[:-1], *stacked.shape[1:])
            out = stacked.reshape(shape)
            results.append(np.moveaxis(out, -1, dim) if stacked.ndim > 1 else out)
        return tuple(results)

    return wrapped


def kept(x: Array, dim: int, keepdim: bool, found: Any) -> Any:
    """What lines of x gave, with the dimension kept as size 1 where asked for."""
    return tuple(np.expand_dims(a, dim) if keepdim and x.ndim else a for a in found)


# ------------------------------------------------------------------ scans


def scanned(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda x, dim: x if x.ndim == 0 else function(x, axis=dim)


def extremes(better: Callable[[float, float], bool]) -> Callable[..., Any]:
    """cummax and cummin: the last one of equal values; a NaN wins."""

    def line(x: Array) -> tuple[Array, Array]:
        at, values, places = 0, [], []
        for i, value in enumerate(x):
            if value != value or (x[at] == x[at] and better(value, x[at])):
                at = i
            values.append(x[at])
            places.append(at)
        return np.array(values, x.dtype), np.array(places, np.int64)

    def wrapped(x: Array, dim: int) -> Any:
        if x.size == 0:
            return x, np.zeros(x.shape, np.int64)
        return per_line(line)(x, dim)

    return wrapped


def logcumsumexp(x: Array, dim: int) -> Array:
    return x if x.ndim == 0 else np.logaddexp.accumulate(x, axis=dim)


def trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> Array:
    return np.asarray(np.trapezoid(y, x, dx=dx, axis=dim))


def cumulative_trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> Any:
    y = np.moveaxis(y, dim, -1)
    if x is None:
        width: Any = dx
    else:
        width = np.diff(x if x.ndim == 1 else np.moveaxis(x, dim, -1), axis=-1)
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) / 2 * width, axis=-1), -1, dim)


def gradient(x: Array, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1) -> Any:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    each = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    return tuple(
        np.gradient(x, step, axis=d, edge_order=edge_order)
        for d, step in zip(dims, each, strict=True)
    )


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    parts = [a for a in (prepend, x, append) if a is not None]
    return np.diff(np.concatenate(parts, axis=dim), n=n, axis=dim)


# ------------------------------------------------------------------ order


def sorted_line(x: Array, descending: bool = False) -> tuple[Array, Array]:
    """Stable; NaN last, or first when descending."""
    if x.dtype.kind == "f":
        rank = np.where(np.isnan(x), np.inf, x)
        key = np.lexsort(
            (-rank if descending else rank, ~np.isnan(x) if descending else np.isnan(x))
        )
    else:
        key = np.argsort(~x if descending else x, kind="stable")
    return x[key], key


def sort(x: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    if x.size == 0:
        return x, np.zeros(x.shape, np.int64)
    return per_line(sorted_line)(x, dim, descending)


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    values, places = sort(x, dim, largest)
    if x.ndim == 0:
        return values, places
    return np.take(values, range(k), axis=dim), np.take(places, range(k), axis=dim)


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, places = sort(x, dim)
    if x.ndim == 0:
        return values, places
    found = [np.take(a, k - 1, axis=dim) for a in (values, places)]
    return kept(x, dim, keepdim, found)


def median(ignore_nan: bool) -> Callable[..., Any]:
    """The lower median; a NaN, the first one, where there is one that counts."""

    def line(x: Array) -> tuple[Any, Any]:
        values, places = sorted_line(x)
        real = int(np.sum(~np.isnan(x))) if x.dtype.kind == "f" else len(x)
        at = real if real < len(x) and not (ignore_nan and real) else (real - 1) // 2
        return values[at], places[at]

    def wrapped(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return np.asarray(line(x.reshape(-1))[0]) if x.size else np.asarray(math.nan)
        return kept(x, dim, keepdim, per_line(line)(x, dim))

    return wrapped


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    def line(x: Array) -> tuple[Any, Any]:
        values, counts = np.unique(x, return_counts=True, equal_nan=False)
        best = values[np.argmax(counts)]
        return best, int(np.flatnonzero(x == best)[-1])

    return kept(x, dim, keepdim, per_line(line)(x, dim))


def quantile(function: Callable[..., Array]) -> Callable[..., Array]:
    def wrapped(
        x: Array,
        q: Any,
        dim: int | None = None,
        keepdim: bool = False,
        interpolation: str = "linear",
    ) -> Array:
        return np.asarray(function(x, q, axis=dim, keepdims=keepdim, method=interpolation))

    return wrapped


# ------------------------------------------------------------------ search, sets, counts


def searchsorted(sequence: Array, x: Any, *, right: bool = False, side: str = "left") -> Array:
    side = "right" if right else side
    x = np.asarray(x)
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, x, side=side)).astype(np.int64)
    lines = [
        np.searchsorted(s, v, side=side)
        for s, v in zip(
            sequence.reshape(-1, sequence.shape[-1]), x.reshape(-1, x.shape[-1]), strict=True
        )
    ]
    return np.array(lines, np.int64).reshape(x.shape)


def unique(
    x: Array,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    found = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    inverse = found[1].reshape(x.shape if dim is None else -1)
    return pick(found[0], inverse, found[2], return_inverse, return_counts)


def pick(values: Any, inverse: Any, counts: Any, with_inverse: bool, with_counts: bool) -> Any:
    extra = [np.asarray(inverse, np.int64)] * with_inverse + [np.asarray(counts, np.int64)] * (
        with_counts
    )
    return (values, *extra) if extra else values


def unique_consecutive(
    x: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    lines = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    firsts: list[int] = []
    inverse: list[int] = []
    for i in range(len(lines)):
        if not i or not np.array_equal(lines[i], lines[i - 1]):
            firsts.append(i)
        inverse.append(len(firsts) - 1)
    values = lines[firsts] if dim is None else np.moveaxis(lines[firsts], 0, dim)
    counts = [inverse.count(k) for k in range(len(firsts))]
    places = np.array(inverse, np.int64).reshape(x.shape if dim is None else -1)
    return pick(values, places, counts, return_inverse, return_counts)


def histc(x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    if min == max and x.size:
        min, max = float(np.min(x)), float(np.max(x))
    if min == max:
        min, max = min - 1, max + 1
    return np.histogram(x, bins, (min, max))[0].astype(np.float64)


def histogram(
    x: Array, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    weights = None if weight is None else weight.reshape(-1)
    hist, edges = np.histogram(x.reshape(-1), bins, range, weights=weights, density=density)
    return hist.astype(np.float64), edges


def histogramdd(
    x: Array, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    points = x.reshape(-1, x.shape[-1])
    pairs = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    weights = None if weight is None else weight.reshape(-1)
    return np.histogramdd(points, bins, pairs, weights=weights, density=density)
