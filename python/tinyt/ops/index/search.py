"""Search in sorted data, and sets: unique, isin."""

from __future__ import annotations

from typing import Any, TypeAlias

from tinyt import _tensor
from tinyt._core import ShapeError, promote
from tinyt._tensor import device as Device
from tinyt.dtypes import ALL
from tinyt.ops.common import Number, on_device, to_dtype, wrap_dim, write_out
from tinyt.tensor import Tensor, method, prim

Unique: TypeAlias = Tensor | tuple[Tensor, ...]

# ---- search


def _as_tensor(value: Tensor | Number, place: Device) -> Tensor:
    """A number as a tensor on a device."""
    return value if isinstance(value, Tensor) else on_device(_tensor.from_data(value), place)


def _right(op: str, right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{op}: side must be 'left' or 'right', got {side!r}")
    if right and side == "left":
        raise RuntimeError(f"{op}: side and right must agree, got side='left' and right=True")
    return right or side == "right"


def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Number,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Where values would go into sorted lines to keep them sorted; int64 or int32.

    ``sorted_sequence``: 1-d, or [..., n] with the leading dimensions of ``input``. Before equal
    elements, with ``right`` behind them. ``sorter``: indices that sort an unsorted sequence.
    """
    behind = _right("searchsorted", right, side)
    if not isinstance(input, Tensor) and sorted_sequence.dim() != 1:
        raise RuntimeError(
            "searchsorted: a number is searched for in a 1-d sequence, got shape "
            f"{tuple(sorted_sequence.shape)}"
        )
    sequence = sorted_sequence
    if sorter is not None:
        if tuple(sorter.shape) != tuple(sequence.shape):
            raise ShapeError(
                f"searchsorted: the sorter has shape {tuple(sorter.shape)}, the sequence "
                f"{tuple(sequence.shape)}"
            )
        sequence = prim.gather(sequence, sorter, sequence.dim() - 1)
    found = prim.searchsorted(sequence, _as_tensor(input, sequence.device), behind)
    return write_out(out, prim.cast(found, 4) if out_int32 else found)


def bucketize(
    input: Tensor | Number,
    boundaries: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """The bucket of each value between sorted 1-d ``boundaries``; see :func:`searchsorted`."""
    if boundaries.dim() != 1:
        raise ShapeError(f"bucketize: boundaries must be 1-d, got shape {tuple(boundaries.shape)}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def isin(
    elements: Tensor | Number,
    test_elements: Tensor | Number,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Whether each of ``elements`` is among ``test_elements``; a NaN never is."""
    places = [v.device for v in (elements, test_elements) if isinstance(v, Tensor)]
    if not places:
        raise TypeError("isin: elements or test_elements must be a Tensor, got two numbers")
    x, test = (_as_tensor(v, places[0]) for v in (elements, test_elements))
    common = ALL[promote(x.dtype.number, test.dtype.number)]
    x, test = to_dtype(x, common), to_dtype(prim.reshape(test, (test.numel(),)), common)
    if test.numel() == 0:
        found = prim.fill(tuple(x.shape), 0, 0.0, 0)
    else:
        line = prim.sort(test, 0, False)[0]
        place = prim.minimum(prim.searchsorted(line, x, False), test.numel() - 1)
        flat = prim.gather(line, prim.reshape(place, (x.numel(),)), 0)
        found = prim.eq(x, prim.reshape(flat, tuple(x.shape)))
    return write_out(out, prim.logical_not(found) if invert else found)


# ---- sets


def _firsts(same: Tensor) -> Tensor:
    """Positions, of n, whose element is not the ``same`` [n - 1] as the one before: int64 [m]."""
    changes = prim.pad(prim.cast(prim.logical_not(same), 5), [1, 0], 1.0)
    return prim.reshape(prim.nonzero(changes), (-1,))


def _same_neighbours(rows: Tensor) -> Tensor:
    """Whether each of the rows [n, k] but the first equals the one before: bool [n - 1]."""
    n, width = rows.shape
    if width == 0:
        return prim.fill((n - 1,), 0, 0.0, 1)
    same = prim.eq(prim.slice(rows, 0, 1, n), prim.slice(rows, 0, 0, n - 1))
    return prim.amin(same, (1,), False)


def _lexicographic_ranks(rows: Tensor) -> Tensor:
    """The rank of each of the rows [n, k] among all, equal for equal rows: int64 [n].

    Ranks of single columns first; then neighbouring columns merge into one, log2(k) times.
    """
    n = rows.shape[0]
    ranks = _column_ranks(rows)
    while ranks.shape[1] > 1:
        k = ranks.shape[1]
        left, right = prim.slice(ranks, 1, 0, k, 2), prim.slice(ranks, 1, 1, k, 2)
        pairs = right.shape[1]
        merged = prim.add(prim.mul(prim.slice(left, 1, 0, pairs), n), right)
        merged = _column_ranks(merged)
        odd = prim.slice(left, 1, pairs, left.shape[1])
        ranks = prim.cat([merged, odd], 1) if left.shape[1] > pairs else merged
    return prim.reshape(ranks, (n,))


def _column_ranks(x: Tensor) -> Tensor:
    """Dense ranks within every column of [n, k]."""
    n, k = x.shape
    ordered, index = prim.sort(x, 0, False)
    steps = prim.ne(prim.slice(ordered, 0, 1, n), prim.slice(ordered, 0, 0, n - 1))
    ranks = prim.pad(prim.cumsum(steps, 0), [1, 0, 0, 0])
    return prim.scatter(prim.fill((n, k), 5, 0.0, 0), index, ranks, 0)


def _results(
    values: Tensor, firsts: Tensor, order: Tensor | None, n: int, inverse: bool, counts: bool
) -> tuple[Tensor, ...]:
    """Values with the inverse [n] and the counts that runs starting at ``firsts`` mean.

    ``order``: where the elements, in the order of the runs, stood.
    """
    found = [values]
    runs = firsts.numel()
    if inverse:
        marks = prim.scatter(prim.fill((n,), 5, 0.0, 0), firsts, prim.fill((runs,), 5, 0.0, 1), 0)
        run_of = prim.sub(prim.cumsum(marks, 0), 1)
        found.append(
            run_of if order is None else prim.scatter(prim.fill((n,), 5, 0.0, 0), order, run_of, 0)
        )
    if counts:
        ends = prim.cat([prim.slice(firsts, 0, min(1, runs), runs), prim.fill((1,), 5, 0.0, n)], 0)
        found.append(prim.sub(prim.slice(ends, 0, 0, runs), firsts))
    return tuple(found)


def _unique(
    op: str, input: Tensor, dim: int | None, inverse: bool, counts: bool, ordered: bool
) -> Unique:
    """``ordered``: sort first; otherwise only neighbours are compared."""
    x = input
    if dim is None:
        n = x.numel()
        source = prim.reshape(x, (n, 1))
    else:
        d = wrap_dim(op, dim, x.dim())
        n = x.shape[d] if x.dim() else 1
        moved = prim.permute(x, [d, *(i for i in range(x.dim()) if i != d)]) if x.dim() else x
        if x.numel() == 0 and n:
            raise RuntimeError(
                f"{op}: there are {n} slices without elements along dim {dim}, got shape "
                f"{tuple(x.shape)}"
            )
        source = prim.reshape(moved, (n, x.numel() // n if n else 0))
    lines = source.detach()
    order: Tensor | None = None
    if ordered and n:
        keys = lines if lines.shape[1] == 1 else prim.reshape(_lexicographic_ranks(lines), (n, 1))
        order = prim.reshape(prim.sort(keys, 0, False)[1], (n,))
        lines = _rows_at(lines, order)
    firsts = _firsts(_same_neighbours(lines)) if n else prim.fill((0,), 5, 0.0, 0)
    at = firsts if order is None else prim.gather(order, firsts, 0)
    chosen = _rows_at(source, at)  # on the tape: the gradient goes to the first of equal ones
    if dim is None:
        values = prim.reshape(chosen, (firsts.numel(),))
    else:
        rest = [s for i, s in enumerate(x.shape) if i != d]
        back = list(range(1, d + 1)) + [0] + list(range(d + 1, max(x.dim(), 1)))
        values = prim.permute(prim.reshape(chosen, (firsts.numel(), *rest)), back)
    found = _results(prim.copy(values), firsts, order, n, inverse, counts)
    if inverse and dim is None:
        found = (found[0], prim.reshape(found[1], tuple(x.shape)), *found[2:])
    return found if len(found) > 1 else found[0]


def _rows_at(rows: Tensor, index: Tensor) -> Tensor:
    """Rows of [n, k] at int64 [m]."""
    count, width = index.numel(), rows.shape[1]
    return prim.gather(rows, prim.expand(prim.reshape(index, (count, 1)), (count, width)), 0)


@method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Unique:
    """The different elements (slices along ``dim``), always in ascending order.

    Returns them, then the index of each input element among them, then how often each occurs,
    as asked for. NaNs differ from each other.
    """
    return _unique("unique", input, dim, return_inverse, return_counts, True)


@method
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Unique:
    """:func:`unique` of neighbours only: the first of every run of equal elements."""
    return _unique("unique_consecutive", input, dim, return_inverse, return_counts, False)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (searchsorted, bucketize, isin, unique, unique_consecutive)
}
