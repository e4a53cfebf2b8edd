"""Tensors that count: ranges, spaces, the identity, indices of triangles."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

from tinyt._capture import index
from tinyt._tensor import dtype as DType
from tinyt._tensor import require_held
from tinyt.dtypes import ALL, float64, int64
from tinyt.ops.common import Number, Placement, in_float64, placed, to_dtype, write_out
from tinyt.ops.creation.filled import dtype_for
from tinyt.ops.elementwise.bounded import clamp
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _plain(value: Number | Tensor) -> Number:
    return value.item() if isinstance(value, Tensor) else value


def counting(count: int) -> Tensor:
    """0, 1, ..., count - 1 as int64."""
    return prim.iota(count, int64, 0.0, 0.0, 0, 1)


def arange(
    start: Number | Tensor | None = None,
    end: Number | Tensor | None = None,
    step: Number | Tensor = 1,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """start, start + step, ... below ``end``; int64 for integers, else the default dtype."""
    first, last = (None, start) if end is None else (start, end)
    if last is None:
        raise TypeError("arange: the end is missing")
    a, b, by = 0 if first is None else _plain(first), _plain(last), _plain(step)
    if by == 0:
        raise RuntimeError("arange: step must not be zero")
    whole = isinstance(a, int) and isinstance(b, int) and isinstance(by, int)
    if not whole and not math.isfinite((b - a) / by):
        raise RuntimeError(f"arange: bounds must be finite, got {a} and {b}")
    if (b - a) * by < 0:
        raise RuntimeError(
            f"arange: upper bound and lower bound inconsistent with the step's sign, got start "
            f"{a}, end {b}, step {by}"
        )
    target = dtype_for(dtype, out, int64 if whole else None)
    if target is ALL[0]:
        raise RuntimeError("arange: not defined for dtype bool")
    if not target.is_floating_point and int(by) == 0:
        raise ValueError(f"arange: step must not be zero in {target.name}, got {by}")
    if target is int64 and not whole:  # counts in integers, as in PyTorch
        a, b, by, whole = int(a), int(b), int(by), True
    count = max(-index((a - b) // by), 0) if whole else max(math.ceil((b - a) / by), 0)
    values = prim.iota(count, target, float(a), float(by), int(a), int(by))
    return placed("arange", write_out(out, values), place)


def range(
    start: Number = 0,
    end: Number | None = None,
    step: Number = 1,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """start, start + step, ... up to ``end``, included; of the default dtype.

    Deprecated in PyTorch, and warns as it does there: ``arange`` leaves the end out.
    """
    warnings.warn(
        "range is deprecated; use arange, which produces values in [start, end)",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range: step must not be zero")
    steps = (end - start) / step
    if not math.isfinite(steps):
        raise RuntimeError(f"range: bounds must be finite, got {start} and {end}")
    if steps < 0:
        raise RuntimeError(
            f"range: bounds inconsistent with the step's sign, got start {start}, end {end}, "
            f"step {step}"
        )
    target, count = dtype_for(dtype, out), math.floor(steps) + 1
    values = prim.iota(count, target, float(start), float(step), int(start), int(step))
    return placed("range", write_out(out, values), place)


def linspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``steps`` evenly spaced values from ``start`` to ``end``, both included."""
    target = dtype_for(dtype, out)
    values = _evenly("linspace", start, end, steps, target)
    return placed("linspace", write_out(out, values), place)


def logspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """``base`` to the power of ``steps`` evenly spaced exponents from ``start`` to ``end``."""
    target = dtype_for(dtype, out)
    values = _evenly("logspace", start, end, steps, target, float(base))
    return placed("logspace", write_out(out, values), place)


def _evenly(
    op: str,
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    target: DType,
    base: float | None = None,
) -> Tensor:
    """Evenly spaced values, or ``base`` to the power of such, computed in float64.

    For an integer ``target`` the ends are cut to integers first, as in PyTorch.
    """
    if steps < 0:
        raise RuntimeError(f"{op}: number of steps must not be negative, got {steps}")
    ends = _plain(start), _plain(end)
    first, last = float(ends[0]), float(ends[1])
    whole = not (target.is_floating_point or target.is_complex)
    if whole:
        for value in ends[:steps]:
            require_held(op, value, target)
        first, last = float(int(first)), float(int(last))

    def made() -> Tensor:
        values = _from_both_ends(first, last, steps, whole)
        return to_dtype(values if base is None else prim.pow(base, values), target)

    return in_float64(made)


def _from_both_ends(first: float, last: float, steps: int, whole: bool) -> Tensor:
    """Evenly spaced float64 values, from both ends to the middle: the last is exactly ``last``."""
    step = (last - first) / (steps - 1) if steps > 1 else 0.0
    low = prim.iota(steps, float64, first, step, 0, 0)
    if steps < 2:
        return low
    if whole:  # from the end, as a value just below an integer would be cut to the one before
        back = prim.cast(prim.sub(steps - 1, counting(steps)), float64)
        high = prim.sub(last, prim.mul(back, step))
    else:
        high = prim.iota(steps, float64, last - step * (steps - 1), step, 0, 0)
    at = counting(steps)
    values = prim.where(prim.lt(at, steps // 2), low, high)
    return prim.where(prim.eq(at, steps - 1), last, values)


def eye(
    n: int,
    m: int | None = None,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
    **place: Unpack[Placement],
) -> Tensor:
    """An n x m matrix with ones on the diagonal."""
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise RuntimeError(f"eye: sizes must not be negative, got {n} and {columns}")
    target = dtype_for(dtype, out)
    if not (n and columns):  # however long the other side is
        return placed("eye", write_out(out, prim.fill((n, columns), target, 0.0, 0)), place)
    hit = prim.eq(prim.reshape(counting(n), (n, 1)), counting(columns))
    return placed("eye", write_out(out, to_dtype(hit, target)), place)


def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = int64,
    **place: Unpack[Placement],
) -> Tensor:
    """Rows and columns, [2, n], of the elements on and below a diagonal, row by row."""
    return placed("tril_indices", _triangle("tril_indices", row, col, offset, dtype, True), place)


def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType = int64,
    **place: Unpack[Placement],
) -> Tensor:
    """Rows and columns, [2, n], of the elements on and above a diagonal, row by row."""
    return placed("triu_indices", _triangle("triu_indices", row, col, offset, dtype, False), place)


def _triangle(op: str, row: int, col: int, offset: int, dtype: DType, lower: bool) -> Tensor:
    """Each row is a run of columns: element k lies in the row whose run covers k."""
    if row < 0 or col < 0:
        raise RuntimeError(f"{op}: sizes must not be negative, got {row} and {col}")
    if not (row and col):  # however long the other side is
        return prim.fill((2, 0), dtype, 0.0, 0)
    # Row i is cut at column i + cut, limited to [0, col].
    cut = min(max(offset, -row - 1), col) + lower
    edges = clamp(counting(row) + cut, 0, col)
    left = _cut_area(row, col, cut)
    total = left if lower else row * col - left
    ends = prim.cumsum(edges if lower else col - edges, 0)
    # An element's row is the number of runs that end before it.
    marks = prim.fill((total + 1,), int64, 0.0, 0)
    if row > 1:
        inner = prim.slice(ends, 0, 0, row - 1)
        marks = prim.scatter_add(marks, inner, prim.fill((row - 1,), int64, 1.0, 1), 0)
    rows = prim.cumsum(prim.slice(marks, 0, 0, total), 0)
    columns = counting(total)
    if total:
        # Runs to the right end at `col`; those to the left begin at 0.
        shift = edges - ends if lower else col - ends
        columns = columns + prim.gather(shift, rows, 0)
    pair = tuple(prim.reshape(x, (1, total)) for x in (rows, columns))
    return to_dtype(prim.cat(pair, 0), dtype)


def _cut_area(row: int, col: int, cut: int) -> int:
    """The sum of min(max(i + cut, 0), col) over the rows i."""
    if col == 0:
        return 0
    rising, full = (min(max(n, 0), row) for n in (1 - cut, col - cut))
    return (full - rising) * (rising + full - 1 + 2 * cut) // 2 + (row - full) * col


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (arange, range, linspace, logspace, eye, tril_indices, triu_indices)
}
