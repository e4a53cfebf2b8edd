"""Reductions, and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Formula, Row, Sized, line, sized

Dims = int | Sequence[int] | None


def _axes(x: Array, dim: Dims) -> tuple[int, ...]:
    if dim is None or x.ndim == 0:
        return tuple(range(x.ndim))
    return tuple(d % x.ndim for d in ([dim] if isinstance(dim, int) else dim))


_count: Formula = lambda x, dim: math.prod(x.shape[d] for d in _axes(x, dim))


def _wide(function: Callable[..., Array], x: Array) -> dict[str, Any]:
    """Integers and bools are added and multiplied in int64."""
    wide = x.dtype.kind not in "fc" and function in (np.sum, np.prod, np.cumsum, np.cumprod)
    return {"dtype": np.int64} if wide else {}


def reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    """A NumPy reduction under PyTorch's argument names."""

    def call(x: Array, dim: Dims = None, keepdim: bool = False) -> Array:
        return np.asarray(function(x, axis=_axes(x, dim), keepdims=keepdim, **_wide(function, x)))

    return call


_without_nan: Formula = lambda x: np.where(np.isnan(x), 0, x).astype(x.dtype)
nansum: Formula = lambda x, dim=None, keepdim=False: reduction(np.sum)(
    _without_nan(x), dim, keepdim
)


def nanmean(x: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    return nansum(x, dim, keepdim) / reduction(np.sum)(~np.isnan(x), dim, keepdim)


def index_of(function: Callable[..., Array]) -> Callable[..., Array]:
    """argmax and argmin: without a dimension, an index into the flattened tensor."""

    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        found = np.asarray(function(line(x), axis=dim, keepdims=keepdim))
        return found.reshape(()) if x.ndim == 0 else found

    return call


def extreme(value: Callable[..., Array], index: Callable[..., Array]) -> Callable[..., Any]:
    """max and min: one value, or along a dimension (values, indices)."""

    def call(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        found = reduction(value)(x, dim, keepdim)
        return found if dim is None else (found, index_of(index)(x, dim, keepdim))

    return call


def aminmax(x: Array, dim: int | None = None, keepdim: bool = False) -> tuple[Array, ...]:
    return tuple(reduction(f)(x, dim, keepdim) for f in (np.min, np.max))


def var(x: Array, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Array:
    centred = x - np.mean(x, axis=_axes(x, dim), keepdims=True)
    total = reduction(np.sum)(centred**2, dim, keepdim)
    return total / np.maximum(float(_count(x, dim)) - correction, 0.0)


def std(x: Array, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Array:
    return np.sqrt(var(x, dim, correction=correction, keepdim=keepdim))


def norm(x: Array, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Array:
    p, sizes = 2 if p == "fro" else p, abs(x)
    if p == 0:
        return reduction(np.sum)((x != 0).astype(sizes.dtype), dim, keepdim)
    if math.isinf(p):
        return reduction(np.max if p > 0 else np.min)(sizes, dim, keepdim)
    return reduction(np.sum)(sizes**p, dim, keepdim) ** (1 / p)


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    size = norm(x, p, [d for d in range(x.ndim) if d != dim % x.ndim], True)
    return np.where(size > maxnorm, x * (maxnorm / (size + 1e-7)), x)


def logsumexp(x: Array, dim: Dims, keepdim: bool = False) -> Array:
    x, axes = np.asarray(x, np.float64), _axes(x, dim)
    top = x.max(axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, 0.0)
    found = np.log(np.exp(x - top).sum(axes, keepdims=True)) + top
    return found if keepdim else found.squeeze(axes)


def scan(function: Callable[..., Array]) -> Callable[[Array, int], Array]:
    """A NumPy scan, also of scalars."""
    return lambda x, dim: function(line(x), axis=dim, **_wide(function, x)).reshape(x.shape)


logcumsumexp = scan(np.logaddexp.accumulate)


def running(best: np.ufunc) -> Callable[[Array, int], tuple[Array, Array]]:
    """cummax and cummin: the last one of equal values; a NaN wins."""

    def call(x: Array, dim: int) -> tuple[Array, Array]:
        y = line(x)
        found = best.accumulate(y, dim)
        hits = np.where((y == found) | (y != y), _along(np.arange(y.shape[dim]), y, dim), 0)
        return found.reshape(x.shape), np.maximum.accumulate(hits, dim).reshape(x.shape)

    return call


def _along(values: Array, x: Array, dim: int) -> Array:
    """A line of values that broadcasts along a dimension of x."""
    return values.reshape(-1, *(1,) * (x.ndim - 1 - dim % x.ndim))


_total_size: Formula = lambda _, x, dims, keepdim: (
    reduction(np.sum)(abs(x), dims, keepdim) * _count(x, dims)
)


def _variance(x: Array, dims: Any, keepdim: bool, correction: float, root: bool = False) -> Sized:
    found = var(x, dims, correction=correction, keepdim=keepdim)
    mean = x.mean(_axes(x, dims), keepdims=True)
    size = reduction(np.sum)(abs(x - mean) * (abs(x) + abs(mean)), dims, keepdim)
    size = size / max(_count(x, dims) - correction, 0.0)
    if root:
        found = np.sqrt(found)
        size = size / np.maximum(found, 1e-30)
    return Sized(found, size * (_count(x, dims) + 4))


def _norm(x: Array, dims: Any, keepdim: bool, p: float) -> Sized:
    found = norm(x, p, dims, keepdim)
    return Sized(found, 0.0 if math.isinf(p) else found * _count(x, dims))


def _largest(_: Array, x: Array, dims: Any, keepdim: bool) -> Array:
    finite = np.where(np.isfinite(x), abs(x), 0.0)
    return finite.max(_axes(x, dims), keepdims=keepdim, initial=0.0) + _count(x, dims)


def _sum_squares(*tensors: Array) -> Sized:
    found = np.array([(x * x).sum() for x in tensors])
    return Sized(found, found * np.array([x.size for x in tensors]))


def _numbered(size: Array, x: Array, dim: int) -> Array:
    """Sizes times the number of elements up to each."""
    y = line(x)
    return (line(size) * _along(np.arange(1, y.shape[dim] + 1), y, dim)).reshape(x.shape)


def _scanned_logs(_: Array, x: Array, dim: int) -> Array:
    finite = np.where(np.isfinite(x), abs(x), 0.0)
    return (scan(np.maximum.accumulate)(finite, dim) + 1) * line(x).shape[dim]


ROWS = {
    "sum": Row(sized(reduction(np.sum), _total_size), 1),
    "prod": Row(sized(reduction(np.prod), lambda y, x, d, keep: abs(y) * _count(x, d)), 1),
    "amax": Row(reduction(np.max), 0),
    "amin": Row(reduction(np.min), 0),
    "nansum": Row(sized(nansum, lambda _, x, *a: _total_size(_, _without_nan(x), *a)), 1),
    "norm": Row(_norm, 2),
    "var": Row(_variance, 2),
    "logsumexp": Row(sized(logsumexp, _largest), 4),
    "argmax": Row(index_of(np.argmax), 0),
    "argmin": Row(index_of(np.argmin), 0),
    "sum_squares": Row(_sum_squares, 1),
    "cumsum": Row(
        sized(scan(np.cumsum), lambda _, x, d: _numbered(scan(np.cumsum)(abs(x), d), x, d)), 1
    ),
    "cumprod": Row(sized(scan(np.cumprod), lambda y, x, d: _numbered(abs(y), x, d)), 1),
    "cummax": Row(running(np.maximum), 0),
    "cummin": Row(running(np.minimum), 0),
    "logcumsumexp": Row(sized(logcumsumexp, _scanned_logs), 2),
}
