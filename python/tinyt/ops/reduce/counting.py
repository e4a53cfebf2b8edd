"""Counting: bincount and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import ALL
from tinyt.ops.common import Number, to_dtype, wide, write_out
from tinyt.ops.creation.ranges import linspace
from tinyt.ops.results import returned
from tinyt.return_types import Histogram, HistogramDD
from tinyt.tensor import Tensor, method, prim


@method
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each of 0, 1, ... occurs in 1-d integers, or the sum of its weights.

    int64; with weights their float dtype, float64 for others.
    """
    if input.dtype.is_floating_point or input.dtype.is_complex or input.dtype.name == "bool":
        raise DTypeError(f"bincount: expected integers, got {input.dtype.name}")
    if input.dim() != 1 or (input.numel() and prim.amin(input, (), False).item() < 0):
        raise RuntimeError(
            f"bincount: only 1-d non-negative integers are supported, got shape "
            f"{tuple(input.shape)}"
        )
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength must not be negative, got {minlength}")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise ShapeError(
            f"bincount: weights must have the shape of the input, got {tuple(weights.shape)} and "
            f"{tuple(input.shape)}"
        )
    size = int(prim.amax(input, (), False).item()) + 1 if input.numel() else 0
    index = to_dtype(input, ALL[5])
    if weights is None or input.numel() == 0:
        source = prim.expand(prim.fill((1,), 5, 0.0, 1), (input.numel(),))
    else:
        source = weights.detach()
        if source.dtype.name != "float32":
            source = to_dtype(source, ALL[9])
    return prim.scatter_add(
        prim.fill((max(size, minlength),), source.dtype, 0.0, 0), index, source, 0
    )


def _need_float(op: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: expected a float dtype, got {x.dtype.name}")


def _edges_of(op: str, x: Tensor, low: float, high: float, room: float) -> tuple[float, float]:
    """The range of a histogram: that of the data where the given one is empty.

    Around a single value it reaches ``room`` to either side.
    """
    if low == high and x.numel():
        low, high = (float(f(x, (), False).item()) for f in (prim.amin, prim.amax))
    if low == high:
        low, high = low - room, high + room
    infinite = not (abs(low) < float("inf") and abs(high) < float("inf"))
    if infinite or low > high:
        raise RuntimeError(f"{op}: the range must be finite and ascending, got [{low}, {high}]")
    return low, high


def _counted(
    bins: Tensor, inside: Tensor, weight: Tensor | None, size: int, like: Tensor
) -> Tensor:
    """Sums of weights (ones) per bin, where ``inside``, in the dtype of ``like``."""
    ones = prim.cast(inside, 5) if weight is None else prim.where(inside, weight, 0.0)
    index = prim.where(inside, bins, 0)
    empty = prim.fill((size,), ones.dtype, 0.0, 0)
    return to_dtype(prim.scatter_add(empty, index, ones, 0), like.dtype)


@method
def histc(
    input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None
) -> Tensor:
    """Counts of the elements in ``bins`` equal parts of [min, max], in the input's float dtype.

    Equal ``min`` and ``max`` take the range of the data. Elements outside are not counted.
    """
    _need_float("histc", input)
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be positive, got {bins}")
    x = wide(prim.reshape(input.detach(), (input.numel(),)))
    low, high = _edges_of("histc", x, float(min), float(max), 1.0)
    inside = prim.logical_and(prim.ge(x, low), prim.le(x, high))
    scaled = prim.where(inside, prim.div(prim.mul(prim.sub(x, low), float(bins)), high - low), 0.0)
    index = prim.minimum(prim.cast(scaled, 5), bins - 1)  # the upper edge belongs to the last bin
    return write_out(out, _counted(index, inside, None, bins, input))


@method
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Histogram:
    """(hist, bin_edges): sums of ``weight`` (ones) between ascending edges.

    ``bins``: the edges, or into how many equal parts ``range`` (that of the data) is cut. The last
    bin includes its upper edge. ``density``: as a density, whose integral is one.
    """
    _need_float("histogram", input)
    if weight is not None and tuple(weight.shape) != tuple(input.shape):
        raise ShapeError(
            f"histogram: weight must have the shape of the input, got {tuple(weight.shape)} and "
            f"{tuple(input.shape)}"
        )
    x = prim.reshape(input.detach(), (input.numel(),))
    edges = _bin_edges("histogram", x, bins, range)
    index, inside = _places(x, edges)
    flat = None if weight is None else prim.reshape(weight.detach(), (weight.numel(),))
    hist = _counted(index, inside, flat, edges.numel() - 1, input)
    if density:
        hist = prim.div(prim.div(hist, prim.sum(hist, (), False)), _bin_widths(edges))
    return returned(Histogram, "histogram", out, (hist, edges))


def histogramdd(
    input: Tensor,
    bins: int | Sequence[int] | Sequence[Tensor],
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> HistogramDD:
    """(hist, bin_edges) of points [..., n] in n dimensions; see :func:`histogram`.

    ``bins``: one number for all dimensions or one each, or the edges of each. ``range``: lower and
    upper end of every dimension, one after the other.
    """
    _need_float("histogramdd", input)
    if input.dim() < 2:
        raise ShapeError(
            f"histogramdd: the input must have at least 2 dimensions, got {tuple(input.shape)}"
        )
    rank = input.shape[-1]
    count = input.numel() // rank if rank else 0
    if weight is not None and tuple(weight.shape) != tuple(input.shape[:-1]):
        raise ShapeError(
            f"histogramdd: weight must have the shape of the input without its last dimension, "
            f"got {tuple(weight.shape)} and {tuple(input.shape)}"
        )
    each: Sequence[int | Tensor] = [bins] * rank if isinstance(bins, int) else list(bins)
    if len(each) != rank or (range is not None and len(range) != 2 * rank):
        raise RuntimeError(
            f"histogramdd: bins and range must fit {rank} dimensions, got {len(each)} bins"
            + ("" if range is None else f" and {len(range)} ends")
        )
    points = prim.reshape(input.detach(), (count, rank))
    index = prim.fill((count,), 5, 0.0, 0)
    inside = prim.fill((count,), 0, 0.0, 1)
    edges: list[Tensor] = []
    for d, some in enumerate(each):
        x = prim.reshape(prim.slice(points, 1, d, d + 1), (count,))
        ends = None if range is None else range[2 * d : 2 * d + 2]
        edges.append(_bin_edges("histogramdd", x, some, ends))
        place, within = _places(x, edges[-1])
        index = prim.add(prim.mul(index, edges[-1].numel() - 1), place)
        inside = prim.logical_and(inside, within)
    shape = tuple(e.numel() - 1 for e in edges)
    flat = None if weight is None else prim.reshape(weight.detach(), (count,))
    hist = prim.reshape(_counted(index, inside, flat, math.prod(shape), input), shape)
    if density:
        hist = prim.div(hist, prim.sum(hist, (), False))
        for d, e in enumerate(edges):
            widths = [1] * rank
            widths[d] = -1
            hist = prim.div(hist, prim.reshape(_bin_widths(e), widths))
    return returned(HistogramDD, "histogramdd", None, (hist, tuple(edges)))


def _places(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
    """The bin of every element of ``x`` [n], and whether it is in one at all."""
    count = edges.numel() - 1
    low, high = prim.slice(edges, 0, 0, 1), prim.slice(edges, 0, count, count + 1)
    inside = prim.logical_and(prim.ge(x, low), prim.le(x, high))
    return prim.minimum(prim.sub(prim.searchsorted(edges, x, True), 1), count - 1), inside


def _bin_widths(edges: Tensor) -> Tensor:
    n = edges.numel()
    return prim.sub(prim.slice(edges, 0, 1, n), prim.slice(edges, 0, 0, n - 1))


def _bin_edges(op: str, x: Tensor, bins: int | Tensor, range: Sequence[float] | None) -> Tensor:
    if isinstance(bins, Tensor):
        if bins.dim() != 1 or bins.numel() < 2 or bins.dtype is not x.dtype:
            raise RuntimeError(
                f"{op}: bins must be 1-d with at least two edges of the input's dtype, got "
                f"shape {tuple(bins.shape)} of {bins.dtype.name}"
            )
        return prim.copy(bins.detach())
    if bins <= 0:
        raise RuntimeError(f"{op}: bins must be positive, got {bins}")
    if range is not None and len(range) != 2:
        raise RuntimeError(f"{op}: range needs two values, got {tuple(range)}")
    if range is None and not x.numel():
        range = (0.0, 1.0)
    first, last = range or (0.0, 0.0)
    low, high = _edges_of(op, x, first, last, 0.5)
    return linspace(low, high, bins + 1, dtype=x.dtype)


EXPORTS: dict[str, Any] = {f.__name__: f for f in (bincount, histc, histogram, histogramdd)}
