"""Sorting, selection, searches, sets, histograms; differences and integrals along lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Formula, Row, line


def sort(x: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Stable; NaN last, or first when descending."""
    y = line(x)
    key = np.argsort(np.flip(y, dim) if descending else y, dim, kind="stable")
    key = np.flip(y.shape[dim] - 1 - key, dim) if descending else key
    return np.take_along_axis(y, key, dim).reshape(x.shape), key.reshape(x.shape)


def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    if x.ndim == 0:
        return sort(x)
    return tuple(np.take(a, range(k), dim) for a in sort(x, dim, largest))


def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if x.ndim == 0:
        return sort(x)
    found = [np.take(a, [k - 1], dim) for a in sort(x, dim)]
    return tuple(a if keepdim else a.squeeze(dim) for a in found)


def median(ignore_nan: bool) -> Callable[..., Any]:
    """The lower median; a NaN, the first one, where there is one that counts."""

    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return call(x.reshape(-1), 0)[0] if x.size else np.asarray(math.nan)
        y = line(x)
        n, real = y.shape[dim], (y == y).sum(dim, keepdims=True)
        counts = (real < n) & ((real == 0) | (not ignore_nan))
        rank = np.where(counts, real, (real - 1) // 2)
        found = [np.take_along_axis(a, rank, dim) for a in sort(y, dim)]
        return tuple(a if keepdim and x.ndim else a.squeeze(dim) for a in found)

    return call


def mode(x: Array, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent values, and its last place."""

    def places(line: Array) -> int:
        values, counts = np.unique(line, return_counts=True, equal_nan=False)
        return int(np.flatnonzero(line == values[np.argmax(counts)])[-1])

    y = line(x)
    index = np.expand_dims(np.apply_along_axis(places, dim, y), dim)
    found = np.take_along_axis(y, index, dim), index
    return tuple(a if keepdim and x.ndim else a.squeeze(dim) for a in found)


def quantile(function: Callable[..., Array]) -> Callable[..., Array]:
    def call(
        x: Array, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear"
    ) -> Array:
        return np.asarray(function(x, q, axis=dim, keepdims=keepdim, method=interpolation))

    return call


def searchsorted(edges: Array, x: Any, *, right: bool = False, side: Any = "left") -> Array:
    side, x = "right" if right else side, np.asarray(x)
    if edges.ndim == 1:
        return np.asarray(np.searchsorted(edges, x, side), np.int64)
    rows = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
    found = [np.searchsorted(a, b, side) for a, b in zip(*rows, strict=True)]
    return np.array(found, np.int64).reshape(x.shape)


def _asked(
    values: Array,
    inverse: Any,
    counts: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    extra = [inverse] * return_inverse + [counts] * return_counts
    return (values, *(np.asarray(a, np.int64) for a in extra)) if extra else values


def unique(x: Array, dim: int | None = None, **asked: bool) -> Any:
    found = np.unique(x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False)
    return _asked(found[0], found[1].reshape(x.shape if dim is None else -1), found[2], **asked)


def unique_consecutive(x: Array, dim: int | None = None, **asked: bool) -> Any:
    lines = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    new = [not i or not np.array_equal(lines[i], lines[i - 1]) for i in range(len(lines))]
    firsts = np.flatnonzero(new)
    values = lines[firsts] if dim is None else np.moveaxis(lines[firsts], 0, dim)
    inverse = (np.cumsum(new) - 1).reshape(x.shape if dim is None else -1)
    return _asked(values, inverse, np.diff([*firsts, len(new)]), **asked)


def histc(x: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    if min == max and x.size:
        min, max = float(np.min(x)), float(np.max(x))
    if min == max:
        min, max = min - 1, max + 1
    return np.histogram(x, bins, (min, max))[0].astype(np.float64)


def histogram(x: Array, bins: Any, *, range: Any = None, weight: Any = None, **more: bool) -> Any:
    weights = None if weight is None else weight.reshape(-1)
    hist, edges = np.histogram(x.reshape(-1), bins, range, weights=weights, **more)
    return hist.astype(np.float64), edges


def histogramdd(x: Array, bins: Any, *, range: Any = None, weight: Any = None, **more: bool) -> Any:
    points, weights = x.reshape(-1, x.shape[-1]), None if weight is None else weight.reshape(-1)
    pairs = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    return np.histogramdd(points, bins, pairs, weights=weights, **more)


trapezoid: Formula = lambda y, x=None, *, dx=1, dim=-1: np.asarray(
    np.trapezoid(y, x, dx=dx, axis=dim)
)


def cumulative_trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> Any:
    y, width = np.moveaxis(y, dim, -1), dx
    if x is not None:
        width = np.diff(x if x.ndim == 1 else np.moveaxis(x, dim, -1), axis=-1)
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) / 2 * width, axis=-1), -1, dim)


def gradient(x: Array, *, spacing: Any = 1, dim: Any = None, edge_order: Any = 1) -> Any:
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    each = spacing if isinstance(spacing, (list, tuple)) else [spacing] * len(dims)
    pairs = zip(dims, each, strict=True)
    return tuple(np.gradient(x, step, axis=d, edge_order=edge_order) for d, step in pairs)


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    parts = [a for a in (prepend, x, append) if a is not None]
    return np.diff(np.concatenate(parts, axis=dim), n=n, axis=dim)


def _selected(function: Callable[..., Any]) -> Row:
    """Of equal values the index of any will do."""
    return Row(lambda *args: (function(*args)[0], None), 0)


def _found(edges: Array, x: Array, right: bool = False) -> Array | None:
    """In what is not sorted, any result will do."""
    is_sorted = (edges[..., 1:] >= edges[..., :-1]).all()
    return searchsorted(edges, x, right=right) if is_sorted else None


ROWS = {
    "sort": Row(lambda x, dim=-1, descending=False: sort(x, dim, descending), 0),
    "topk": _selected(topk),
    "kthvalue": _selected(kthvalue),
    "median": _selected(lambda x, dim, keepdim, skip: median(skip)(x, dim, keepdim)),
    "searchsorted": Row(_found, 0),
}
