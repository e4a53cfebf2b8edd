"""Order along a dimension: sorting, selecting, medians, modes and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import overload

from tinyt._core import DimError, DTypeError, OutOfRangeError
from tinyt.dtypes import float64
from tinyt.ops.common import Number, has_float64, need_tensor, on_device, wrap_dim, write_out
from tinyt.ops.results import returned
from tinyt.printing import abbreviated
from tinyt.return_types import ValuesIndices
from tinyt.tensor import Tensor, method, prim

Pair = tuple[Tensor, Tensor]
_EXACT_RANKS = 2**24  # up to here float32 tells all positions apart


@method
def sort(
    input: Tensor,
    dim: int = -1,
    descending: bool = False,
    *,
    stable: bool = False,
    out: Pair | None = None,
) -> ValuesIndices:
    """Sorted values and their indices along ``dim``; always stable, NaN last when ascending."""
    return returned(ValuesIndices, "sort", out, prim.sort(input, dim, descending))


@method
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """Indices that sort ``input`` along ``dim``; always stable."""
    return prim.sort(input, dim, descending)[1]


@method
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``input`` sorted along its first dimension."""
    return write_out(out, prim.sort(input, 0, False)[0])


@method
def topk(
    input: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    out: Pair | None = None,
) -> ValuesIndices:
    """The ``k`` largest (smallest) values along ``dim`` and their indices, always in order.

    A NaN counts as the largest value; of equal values the one that stands first is taken.
    """
    return returned(ValuesIndices, "topk", out, prim.topk(input, k, dim, largest))


@method
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Pair | None = None
) -> ValuesIndices:
    """The ``k``-th smallest value along ``dim``, from 1, and its index.

    A NaN counts as the largest value; equal values count in the order in which they stand.
    """
    if input.numel() == 0 and input.shape[wrap_dim("kthvalue", dim, input.dim())] == 0:
        raise DimError(f"kthvalue: no elements along dim {dim}, got shape {tuple(input.shape)}")
    return returned(ValuesIndices, "kthvalue", out, prim.kthvalue(input, k, dim, keepdim))


# ---- median and mode


def _shared_gradient(x: Tensor, value: Tensor) -> Tensor:
    """``value``, an element of ``x``; its gradient is shared evenly by all elements like it."""
    if not x.requires_grad:
        return value
    found = value.detach()
    like = prim.logical_or(prim.eq(x, found), prim.logical_and(prim.isnan(x), prim.isnan(found)))
    return prim.amax(prim.where(like, x, -math.inf), (), False)


def _median(
    name: str, input: Tensor, dim: int | None, keepdim: bool, out: object, ignore_nan: bool
) -> Tensor | ValuesIndices:
    if dim is not None:
        pair = prim.median(input, dim, keepdim, ignore_nan)
        return returned(ValuesIndices, name, out, pair)  # type: ignore[arg-type]
    flat = prim.reshape(input, (input.numel(),))
    if input.numel() == 0:
        if not input.dtype.is_floating_point:
            raise RuntimeError(f"{name}: the input has no elements, got shape {tuple(input.shape)}")
        return prim.fill((), input.dtype, math.nan, 0)
    return _shared_gradient(flat, prim.median(flat.detach(), 0, False, ignore_nan)[0])


@overload
def median(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: int, keepdim: bool = False, *, out: Pair | None = None
) -> ValuesIndices: ...
@method
def median(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Pair | None = None
) -> Tensor | ValuesIndices:
    """The lower median of all elements, or (values, indices) along ``dim``.

    NaN where there is a NaN; of equal values the index is that in a stable sort.
    """
    return _median("median", input, dim, keepdim, out, False)


@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: int, keepdim: bool = False, *, out: Pair | None = None
) -> ValuesIndices: ...
@method
def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Pair | None = None
) -> Tensor | ValuesIndices:
    """:func:`median` of the elements that are not NaN; NaN where there are none."""
    return _median("nanmedian", input, dim, keepdim, out, True)


@method
def mode(
    input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Pair | None = None
) -> ValuesIndices:
    """The most frequent value along ``dim``, the smallest of several, and its last index."""
    d = wrap_dim("mode", dim, input.dim())
    if input.dim() == 0:
        found = prim.copy(input), prim.fill((), 5, 0.0, 0)
        return returned(ValuesIndices, "mode", out, found)
    size = input.shape[d]
    if size == 0:
        raise DimError(f"mode: cannot reduce over zero elements, got shape {tuple(input.shape)}")
    ordered, places = prim.sort(input.detach(), d, False)
    before, after = prim.slice(ordered, d, 0, size - 1), prim.slice(ordered, d, 1, size)
    shape = [1] * input.dim()
    shape[d] = size
    position = prim.reshape(prim.iota(size, 5, 0.0, 0.0, 0, 1), shape)
    # Where the run of equal values that an element belongs to starts; how far it is from there.
    starts = prim.where(prim.ne(before, after), prim.slice(position, d, 1, size), 0)
    pads = [0, 0] * d + [1, 0] + [0, 0] * (input.dim() - 1 - d)
    run = prim.sub(position, prim.cummax(prim.pad(starts, pads), d)[0])
    index = prim.gather(places, prim.argmax(run, d, True), d)
    values = prim.gather(input, index, d)
    if not keepdim:
        kept = tuple(n for i, n in enumerate(values.shape) if i != d)
        values, index = prim.reshape(values, kept), prim.reshape(index, kept)
    return returned(ValuesIndices, "mode", out, (values, index))


# ---- quantiles

_ROUNDINGS: dict[str, Callable[..., Tensor]] = {
    "lower": prim.floor,
    "higher": prim.ceil,
    "nearest": prim.round,
}


def _check_quantile(op: str, input: Tensor, q: Tensor, interpolation: str) -> None:
    if input.dtype.name not in ("float32", "float64"):
        raise DTypeError(f"{op}: the input must be float32 or float64, got {input.dtype.name}")
    if input.numel() == 0:
        raise RuntimeError(f"{op}: the input has no elements, got shape {tuple(input.shape)}")
    if q.dim() > 1:
        raise RuntimeError(f"{op}: q must be a number or 1-d, got shape {tuple(q.shape)}")
    if q.dtype is not input.dtype:
        raise DTypeError(
            f"{op}: q must have the dtype of the input, got {q.dtype.name} and {input.dtype.name}"
        )
    if interpolation not in ("linear", "midpoint", *_ROUNDINGS):
        raise RuntimeError(
            f"{op}: interpolation must be one of linear, lower, higher, midpoint and nearest, "
            f"got {interpolation!r}"
        )


def _held_within(op: str, q: Tensor) -> Tensor:
    """``q`` in a row. A gather finds fault with values outside [0, 1], so programs do it too."""
    count = q.numel()
    row = prim.reshape(q, (count,))
    right = prim.logical_and(prim.ge(row, 0.0), prim.le(row, 1.0))
    places = prim.where(right, prim.iota(count, 5, 0.0, 0.0, 0, 1), count)
    try:
        return prim.gather(row, places, 0)
    except OutOfRangeError as error:
        raise OutOfRangeError(
            f"{op}: q values must be in the range [0, 1], got {abbreviated(q.tolist())}"
        ) from error


def _quantile(
    op: str,
    input: Tensor,
    q: Number | Tensor,
    dim: int | None,
    keepdim: bool,
    interpolation: str,
    ignore_nan: bool,
) -> Tensor:
    need_tensor(op, input)
    given = q
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{op}: q values must be in the range [0, 1], got {q}")
        q = prim.fill((), input.dtype, float(q), 0)
    _check_quantile(op, input, q, interpolation)
    rank = input.dim()
    flat = dim is None or rank == 0
    x = prim.reshape(input, (input.numel(),)) if flat else input
    d = 0 if dim is None else wrap_dim(op, dim, rank)
    row = _held_within(op, q) if q is given else prim.reshape(q, (1,))
    values, _ = prim.sort(x, d, False)
    # One more dimension at the end takes the results for every q.
    order = [i for i in range(x.dim()) if i != d] + [d]
    values = prim.permute(values, order)
    places = _interpolate(values, row, interpolation, ignore_nan)
    kept = [1] * rank if flat else [1 if i == d else n for i, n in enumerate(x.shape)]
    shape = kept if keepdim else list(values.shape[:-1])
    if q.dim() == 0:
        return prim.reshape(places, shape)
    front = prim.permute(places, [places.dim() - 1, *range(places.dim() - 1)])
    return prim.reshape(front, [q.shape[0], *shape])


def _interpolate(values: Tensor, row: Tensor, interpolation: str, ignore_nan: bool) -> Tensor:
    """[..., number of q] from sorted lines along the last dimension."""
    last = values.dim() - 1
    size, count = values.shape[-1], row.numel()
    if size > _EXACT_RANKS:
        if not has_float64(values.device):
            on_cpu = _interpolate(values.cpu(), row.cpu(), interpolation, ignore_nan)
            return on_device(on_cpu, values.device)
        row = prim.cast(row, float64)
    nans = prim.isnan(values.detach())
    if ignore_nan:
        # Of a line without numbers the first element is taken: a NaN.
        real = prim.sub(size - 1, prim.sum(nans, (last,), True))
        ranks = prim.mul(row, prim.cast(prim.maximum(real, 0), row.dtype))
    else:
        bad = prim.amax(nans, (last,), True)
        ranks = prim.where(bad, float(size - 1), prim.mul(row, float(size - 1)))
    shape = (*values.shape[:-1], count)
    ranks = prim.expand(ranks, shape)
    if interpolation in _ROUNDINGS:
        ranks = _ROUNDINGS[interpolation](ranks)
    below = prim.cast(ranks, 5)
    low = prim.gather(values, below, last)
    if interpolation in _ROUNDINGS:
        return low
    high = prim.gather(values, prim.cast(prim.ceil(ranks), 5), last)
    weight = prim.sub(ranks, prim.cast(below, ranks.dtype)) if interpolation == "linear" else 0.5
    gap = prim.sub(high, low)
    inside = prim.add(low, prim.mul(gap, weight))
    # From -inf upwards nothing is reached: the way back from the upper end stays there.
    back = prim.sub(high, prim.mul(gap, 1.0 - weight))
    inside = prim.where(prim.isinf(low), back, inside)
    return prim.where(prim.logical_and(prim.isinf(low), prim.eq(low, high)), low, inside)


@method
def quantile(
    input: Tensor,
    q: Number | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """The ``q``-quantiles along ``dim`` (of all elements by default); [len(q), ...] for 1-d q.

    Between two data points ``interpolation`` decides: linear, lower, higher, midpoint or nearest.
    NaN where there is a NaN. float32 and float64 only. RuntimeError for a ``q`` outside [0, 1].
    """
    return write_out(out, _quantile("quantile", input, q, dim, keepdim, interpolation, False))


@method
def nanquantile(
    input: Tensor,
    q: Number | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor:
    """:func:`quantile` of the elements that are not NaN."""
    return write_out(out, _quantile("nanquantile", input, q, dim, keepdim, interpolation, True))


EXPORTS = {
    f.__name__: f
    for f in (
        sort, argsort, msort, topk, kthvalue, median, nanmedian, mode, quantile, nanquantile,
    )
}  # fmt: skip
