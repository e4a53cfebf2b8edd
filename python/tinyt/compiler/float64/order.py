"""Sorting and what is like it, windows, resampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized, at


def _line(x: Array) -> Array:

    return x.reshape(1) if x.ndim == 0 else x


def _running(x: Array, dim: int, best: Any) -> Any:
    import numpy as np

    y = _line(x)
    found = best.accumulate(y, dim)
    places = np.arange(y.shape[dim]).reshape(-1, *(1,) * (y.ndim - 1 - dim % y.ndim))
    at = np.maximum.accumulate(np.where((y == found) | (y != y), places, 0), dim)
    return found.reshape(x.shape), at.reshape(x.shape)


def _order(x: Array, dim: int, descending: bool) -> Array:
    import numpy as np

    if not descending:
        return np.argsort(x, dim, kind="stable")
    back = np.argsort(np.flip(x, dim), dim, kind="stable")
    return np.flip(x.shape[dim] - 1 - back, dim)


def _sort(x: Array, dim: int = -1, descending: bool = False) -> Any:
    import numpy as np

    y = _line(x)
    at = _order(y, dim, descending)
    return np.take_along_axis(y, at, dim).reshape(x.shape), at.reshape(x.shape)


def _topk(x: Array, k: int, dim: int = -1, largest: bool = True) -> Any:
    import numpy as np

    y = _line(x)
    found = np.take(_sort(y, dim, largest)[0], np.arange(k), dim)
    return found.reshape(()) if x.ndim == 0 else found, None


def _kth(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    import numpy as np

    y = _line(x)
    found = np.take(np.sort(y, dim), k - 1, dim)
    if x.ndim == 0:
        return found.reshape(()), None
    return np.expand_dims(found, dim) if keepdim else found, None


def _median(x: Array, dim: int = -1, keepdim: bool = False, skip: bool = False) -> Any:
    import numpy as np

    y = _line(x)
    isnan = y != y
    left = y.shape[dim] - isnan.sum(dim, keepdims=True)
    at = np.maximum(left - 1, 0) // 2
    found = np.take_along_axis(np.sort(y, dim), at, dim)
    if not skip and y.dtype.kind == "f":
        found = np.where(isnan.any(dim, keepdims=True), np.nan, found)
    if x.ndim == 0:
        return found.reshape(()), None
    return found if keepdim else found.squeeze(dim), None


def _log_sums(x: Array, dim: int) -> Any:
    import numpy as np

    y = _line(x)
    found = np.logaddexp.accumulate(y, dim)
    largest = np.maximum.accumulate(np.where(np.isfinite(y), abs(y), 0.0), dim)
    return Sized(found.reshape(x.shape), (largest + 1).reshape(x.shape) * y.shape[dim])


def rows() -> dict[str, Row]:
    """Their rows. Of equal values any index will do, but in `sort`."""
    import numpy as np

    return {
        "cummax": Row(lambda x, dim: _running(x, dim, np.maximum), 0),
        "cummin": Row(lambda x, dim: _running(x, dim, np.minimum), 0),
        "sort": Row(_sort, 0),
        "topk": Row(_topk, 0),
        "kthvalue": Row(_kth, 0),
        "median": Row(_median, 0),
        "logcumsumexp": Row(_log_sums, 2),
        "max_pool": Row(_max_pool, 0),
        "resample": Row(_resample, 1),
    }


def _max_pool(
    x: Array, size: Sequence[int], begin: Sequence[int], end: Sequence[int], step: Sequence[int]
) -> Any:
    import numpy as np

    found = np.empty((*x.shape[:2], *size), x.dtype)
    starts = np.cumsum([0, *size[:-1]])
    for place in np.ndindex(*size):
        places = [s + i for s, i in zip(starts, place, strict=True)]
        window = tuple(slice(begin[p], end[p], n) for p, n in zip(places, step, strict=True))
        part = x[at(slice(None), slice(None), *window)]
        found[at(slice(None), slice(None), *place)] = part.max(tuple(range(2, part.ndim)))
    return found, None


def _resample(
    x: Array,
    weight: Array,
    size: Sequence[int],
    taps: Sequence[int],
    index: Sequence[int],
    transposed: bool = False,
) -> Sized:
    import numpy as np

    found, scale, at, used = x, abs(x), 0, 0
    for d, n in enumerate(size):
        rows = x.shape[d + 2] if transposed else n
        counts = np.asarray(taps[used : used + rows], np.int64)
        total = int(counts.sum())
        source = np.asarray(index[at : at + total], np.int64)
        target = np.repeat(np.arange(rows), counts)
        if transposed:
            source, target = target, source
        part = weight[at : at + total].reshape(-1, *(1,) * (x.ndim - 1))
        sums = []
        for y, w in ((found, part), (scale, abs(part))):  # what is not taken does not count
            y = np.moveaxis(y, d + 2, 0)
            out = np.zeros((n, *y.shape[1:]), y.dtype)
            np.add.at(out, target, w * y[source])
            sums.append(np.moveaxis(out, 0, d + 2))
        found, scale = sums
        at, used = at + total, used + rows
    return Sized(found, scale * 4 * (max(taps, default=0) + 4))
