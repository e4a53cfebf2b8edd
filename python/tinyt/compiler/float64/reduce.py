"""Reductions, scans, and indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized


def _axes(x: Array, dims: Sequence[int]) -> tuple[int, ...]:
    return tuple(d % x.ndim for d in dims) if x.ndim else ()


def _count(x: Array, dims: Sequence[int]) -> int:
    return math.prod(x.shape[d] for d in _axes(x, dims))


def _total(x: Array, dims: Any, keepdim: bool) -> Any:
    import numpy as np

    axes = _axes(x, dims)
    if x.dtype.kind not in "fc":
        return x.sum(axes, dtype=np.int64, keepdims=keepdim)
    size = abs(x).sum(axes, keepdims=keepdim) * _count(x, dims)
    return Sized(x.sum(axes, keepdims=keepdim), size)


def _product(x: Array, dims: Any, keepdim: bool) -> Any:
    import numpy as np

    axes = _axes(x, dims)
    if x.dtype.kind not in "fc":
        return x.prod(axes, dtype=np.int64, keepdims=keepdim)
    found = x.prod(axes, keepdims=keepdim)
    return Sized(found, abs(found) * _count(x, dims))


def _norm(x: Array, dims: Any, keepdim: bool, p: float) -> Any:
    import numpy as np

    axes, a = _axes(x, dims), abs(x)
    if math.isinf(p):
        return (np.max if p > 0 else np.min)(a, axes, keepdims=keepdim)
    found = (a**p).sum(axes, keepdims=keepdim) ** (1 / p)
    return Sized(found, found * _count(x, dims))


def _variance(x: Array, dims: Any, keepdim: bool, correction: float, root: bool = False) -> Any:
    import numpy as np

    axes = _axes(x, dims)
    n = _count(x, dims)
    mean = x.mean(axes, keepdims=True)
    left = max(n - correction, 0.0)
    found = ((x - mean) ** 2).sum(axes, keepdims=keepdim) / left
    size = (abs(x - mean) * (abs(x) + abs(mean))).sum(axes, keepdims=keepdim) / left
    if root:
        found = np.sqrt(found)
        size = size / np.maximum(found, 1e-30)
    return Sized(found, size * (n + 4))


def _log_sum(x: Array, dims: Any, keepdim: bool) -> Any:
    import numpy as np

    axes = _axes(x, dims)
    if x.size == 0:
        return np.log(x.sum(axes, keepdims=keepdim))
    top = x.max(axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    found = np.log(np.exp(x - top).sum(axes, keepdims=True)) + top
    found = found if keepdim else found.squeeze(axes)
    largest = abs(x).max(axes, keepdims=keepdim, where=np.isfinite(x), initial=0.0)
    return Sized(found, largest + _count(x, dims))


def _best(function: Any) -> Callable[..., Array]:
    import numpy as np

    def index(x: Array, dim: int, keepdim: bool = False) -> Array:
        x = x.reshape(1) if x.ndim == 0 else x
        return np.asarray(function(x, dim, keepdims=keepdim))

    return lambda x, *a: index(x, *a).reshape(()) if x.ndim == 0 else index(x, *a)


def _reductions() -> dict[str, Row]:
    import numpy as np

    return {
        "sum": Row(_total, 1),
        "prod": Row(_product, 1),
        "amax": Row(lambda x, dims, k: x.max(_axes(x, dims), keepdims=k), 0),
        "amin": Row(lambda x, dims, k: x.min(_axes(x, dims), keepdims=k), 0),
        "nansum": Row(lambda x, *a: _total(np.where(np.isnan(x), 0, x), *a), 1),
        "norm": Row(_norm, 2),
        "var": Row(_variance, 2),
        "logsumexp": Row(_log_sum, 4),
        "argmax": Row(_best(np.argmax), 0),
        "argmin": Row(_best(np.argmin), 0),
        "sum_squares": Row(lambda *xs: _sum_squares(xs), 1),
    }


def _sum_squares(tensors: Sequence[Array]) -> Sized:
    import numpy as np

    found = np.array([(x * x).sum() for x in tensors])
    return Sized(found, found * np.array([x.size for x in tensors]))


def _line(x: Array) -> Array:

    return x.reshape(1) if x.ndim == 0 else x


def _counts(x: Array, dim: int) -> Array:
    import numpy as np

    n = np.arange(1, x.shape[dim] + 1)
    return n.reshape(-1, *(1,) * (x.ndim - 1 - dim % x.ndim))


def _sums(x: Array, dim: int) -> Any:
    import numpy as np

    if x.dtype.kind not in "fc":
        return np.cumsum(_line(x), dim, dtype=np.int64).reshape(x.shape)
    y = _line(x)
    scale = np.cumsum(abs(y), dim) * _counts(y, dim)
    return Sized(np.cumsum(y, dim).reshape(x.shape), scale.reshape(x.shape))


def _products(x: Array, dim: int) -> Any:
    import numpy as np

    if x.dtype.kind not in "fc":
        return np.cumprod(_line(x), dim, dtype=np.int64).reshape(x.shape)
    y = _line(x)
    found = np.cumprod(y, dim)
    return Sized(found.reshape(x.shape), (abs(found) * _counts(y, dim)).reshape(x.shape))


def _indexed(x: Array, index: Array, dim: int) -> Array:
    import numpy as np

    x, at = _line(x), _line(index)
    part = [slice(n) for n in at.shape]
    part[dim] = slice(None)
    return np.take_along_axis(x[tuple(part)], at, dim).reshape(index.shape)


def _scattered(x: Array, index: Array, y: Array, dim: int, ufunc: Any) -> Any:
    import numpy as np

    shape = x.shape
    x, index, y = _line(x).copy(), _line(index), _line(y)
    y = np.broadcast_to(y, index.shape) if y.ndim == 0 or y.size == 1 else y
    y = y[tuple(slice(n) for n in index.shape)]
    at = list(np.indices(index.shape))
    at[dim] = np.where(index < 0, index + x.shape[dim], index)
    if ufunc is None:
        x[tuple(at)] = y
        return x.reshape(shape)
    if x.dtype.kind not in "fc":
        ufunc.at(x, tuple(at), y)
        return x.reshape(shape)
    size, found = abs(x), x.copy()
    ufunc.at(found, tuple(at), y)
    ufunc.at(size, tuple(at), abs(y))
    times = np.zeros(x.shape)
    np.add.at(times, tuple(at), 1)
    return Sized(found.reshape(shape), (size * times).reshape(shape))


def _linear_index(*args: Any) -> Array:
    import numpy as np

    indices, sizes = args[:-3], args[-3]
    found = 0
    for x, n in zip(indices, sizes, strict=True):
        found = found * n + np.where(x < 0, x + n, x).astype(np.int64)
    return np.asarray(found).reshape(-1)


def _scans() -> dict[str, Row]:
    import numpy as np

    reductions = (np.multiply, np.maximum, np.minimum)

    return {
        "cumsum": Row(_sums, 1),
        "cumprod": Row(_products, 1),
        "gather": Row(_indexed, 0),
        "scatter": Row(lambda x, i, y, d: _scattered(x, i, y, d, None), 0),
        "scatter_add": Row(lambda x, i, y, d: _scattered(x, i, y, d, np.add), 1),
        "scatter_reduce": Row(lambda x, i, y, d, k: _scattered(x, i, y, d, reductions[k]), 1),
        "linear_index": Row(_linear_index, 0),
        "searchsorted": Row(_searched, 0),
    }


def _searched(edges: Array, x: Array, right: bool = False) -> Array:
    import numpy as np

    side: Any = "right" if right else "left"
    if not (edges[..., 1:] >= edges[..., :-1]).all():  # not sorted: any result will do
        return None
    if edges.ndim == 1:
        return np.searchsorted(edges, x, side)
    rows = edges.reshape(-1, edges.shape[-1]), x.reshape(-1, x.shape[-1])
    found = [np.searchsorted(a, b, side) for a, b in zip(*rows, strict=True)]
    return np.array(found, np.int64).reshape(x.shape)


def rows() -> dict[str, Row]:
    """Their rows."""
    return _reductions() | _scans()
