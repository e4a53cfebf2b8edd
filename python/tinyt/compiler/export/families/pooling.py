"""Windows of images: their largest elements, and weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import bits_type, c_type, sizes
from tinyt.compiler.export.values import Value, pointer, wide

if TYPE_CHECKING:
    from tinyt._tensor import dtype


def _spatial(sizes: Sequence[int]) -> list[int]:
    """Three dimensions: 1 of those that are not there, in front."""
    return [1] * (3 - len(sizes)) + list(sizes)


def _split(values: Sequence[int], counts: Sequence[int]) -> list[list[int]]:
    parts, at = [], 0
    for n in counts:
        parts.append(list(values[at : at + n]))
        at += n
    return parts


# ---- the largest elements


def _runs(begin: Sequence[int], taps: Sequence[int]) -> list[int]:
    """Windows along a dimension as runs of equally many taps, each a step after the last one:
    output, count, first element, step, taps."""
    runs: list[list[int]] = []
    for i, (first, n) in enumerate(zip(begin, taps, strict=True)):
        if runs and runs[-1][4] == n:
            run = runs[-1]
            step = first - (run[2] + (run[1] - 1) * run[3])
            if step > 0 and (run[1] == 1 or step == run[3]):
                run[1], run[3] = run[1] + 1, step
                continue
        runs.append([i, 1, first, 1, n])
    return [n for run in runs for n in run]


def _lowest(t: dtype) -> str:
    if t.is_floating_point:
        return "-INFINITY"
    if t in (dtypes.bool, dtypes.uint8):
        return "0"
    return f"INT{8 * t.itemsize}_MIN"


@emits("max_pool")
def _max_pool(call: Call) -> None:
    values, indices = call.y
    if values.numel == 0:
        return
    x = call.dense(call.x[0], wide(values.dtype))
    made = values if values.dtype is x.dtype else call.scratch(values.shape, x.dtype)
    size = call.attrs["size"]
    plain = [[0]] * (3 - len(size))
    begin = plain + _split(call.attrs["begin"], size)
    end = [[1]] * len(plain) + _split(call.attrs["end"], size)
    step = _spatial(call.attrs["step"])
    taps = [
        [max(0, (b - a + n - 1) // n) for a, b in zip(first, last, strict=True)]
        for first, last, n in zip(begin, end, step, strict=True)
    ]
    image = _spatial(x.shape[2:])
    if prod(image) > 2**31 - 1:
        raise NotImplementedError("export_c: max_pool of images of 2**31 elements or more")
    runs = _runs(begin[2], taps[2])
    results = made, indices, _lowest(x.dtype)
    shapes = prod(x.shape[:2]), sizes(image), sizes(_spatial(size))
    tables = [call.out.table(t) for t in (begin[0] + begin[1], taps[0] + taps[1], step, runs)]
    windows = *tables, len(runs) // 5
    call.run("max_pool", "tt_max_pool_T", x, *results, *shapes, *windows, T=c_type(x.dtype))
    if made is not values:
        call.cast(made, values)


# ---- weighted sums


class _Matrix:
    """A sparse matrix: of each row the columns of its entries, and where their weights are."""

    def __init__(self, taps: Sequence[int], index: Sequence[int]) -> None:
        numbers = iter(enumerate(index))
        self.rows = [[next(numbers) for _ in range(n)] for n in taps]

    def transposed(self, columns: int) -> _Matrix:
        """Its columns as rows, whose entries are in the order of the rows."""
        made = _Matrix([], [])
        made.rows = [[] for _ in range(columns)]
        for i, row in enumerate(self.rows):
            for at, column in row:
                made.rows[column].append((at, i))
        return made

    def first(self) -> list[int]:
        """Of each row, and behind the last one, how many entries lie before it."""
        found = [0]
        for row in self.rows:
            found.append(found[-1] + len(row))
        return found

    def index(self) -> list[int]:
        """The columns of all entries."""
        return [column for row in self.rows for _, column in row]

    def order(self) -> list[int]:
        """Where the weights of all entries are."""
        return [at for row in self.rows for at, _ in row]


def _matrices(call: Call, x: Value, y: Value) -> list[_Matrix]:
    transposed = call.attrs["transposed"]
    rows = (x if transposed else y).shape[2:]
    taps = _split(call.attrs["taps"], rows)
    indices = _split(call.attrs["index"], [sum(n) for n in taps])
    found = [_Matrix(n, index) for n, index in zip(taps, indices, strict=True)]
    if transposed:
        found = [m.transposed(n) for m, n in zip(found, y.shape[2:], strict=True)]
    return found


@emits("resample")
def _resample(call: Call) -> None:
    y = call.y[0]
    if y.numel == 0:
        return
    floating = call.compute.is_floating_point
    t = wide(call.compute) if floating else dtypes.int64
    type_ = c_type(t) if floating else bits_type(t)
    x, weight = (call.dense(v, t) for v in call.x)
    made = y if y.dtype is t else call.scratch(y.shape, t)
    found = _matrices(call, x, y)
    missing = 3 - len(found)
    first = ["(const int64_t[]){0, 1}"] * missing + [call.out.table(m.first()) for m in found]
    index = ["(const int64_t[]){0}"] * missing + [call.out.table(m.index()) for m in found]
    weights = [f"(const {type_}[]){{1}}"] * missing + _weights(call, found, weight, type_)
    image = _spatial(x.shape[2:])
    line = call.scratch_bytes(2 * image[2] * t.itemsize, type_)
    places = pointer(x.at, type_), pointer(made.at, type_), line
    shapes = prod(x.shape[:2]), sizes(image), sizes(_spatial(y.shape[2:]))
    tables = [f"(const int64_t* const[]){{{', '.join(rows)}}}" for rows in (first, index)]
    factors = f"(const {type_}* const[]){{{', '.join(weights)}}}"
    counts = {len(row) for row in found[-1].rows}
    taps = counts.pop() if len(counts) == 1 else 0
    call.run("resample", "tt_resample_T", *places, *shapes, *tables, factors, taps, T=type_)
    if made is not y:
        call.cast(made, y)


def _weights(call: Call, found: Sequence[_Matrix], weight: Value, type_: str) -> list[str]:
    """Of each matrix the weights, in the order of its entries."""
    made, at = [], 0
    for m in found:
        order = m.order()
        place = pointer(weight.view((len(order),), (1,), at).at, type_)
        at += len(order)
        if order != list(range(len(order))):
            ordered = call.scratch_bytes(len(order) * weight.dtype.itemsize, type_)
            table = call.out.table(order)
            call.run("resample", "tt_reorder_T", place, table, ordered, len(order), T=type_)
            place = str(ordered)
        made.append(place)
    return made
