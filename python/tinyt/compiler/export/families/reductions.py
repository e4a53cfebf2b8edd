"""Sums, products and extremes over dimensions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tinyt import _core, dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value, merged, pointer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt._tensor import dtype

_WIDTH = 256  # columns that are reduced side by side
_ROWS = {"prod": 32}  # of a block; 128 of others
_LONG_RUN = 64  # neighbouring elements that are worth reducing in place
_OF_INTEGERS = {"amax": "largest", "amin": "smallest"}


@emits("sum", "prod", "amax", "amin")
def _reduce(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    if y.numel == 0:
        return
    outer, reduced, inner = _groups(x.shape, call.attrs["dims"])
    if prod(x.shape[d] for d in inner) > 1:
        return reduce_columns(call, call.op, x, y, (outer, reduced, inner))
    x = permuted(x, [*outer, *inner, *reduced])
    if _reduce_runs(call, x, y, len(reduced)):
        return None
    row = (call.op, call.compute, y.dtype, True, [(0, False)])
    call.kernel(_core.FusedKernel(x.shape, len(reduced), [x.dtype], [row], [1]), [x], [y])


def _reduce_runs(call: Call, x: Value, y: Value, reduced: int) -> bool:
    """Reduces the last dimensions where they are several long runs of memory, and only then."""
    lead = len(x.shape) - reduced
    (*_, rows), ((*_, row_step),) = kept = merged(x.shape[:lead], [x.stride[:lead]])
    shape, (stride,) = merged(x.shape[lead:], [x.stride[lead:]])
    if len(kept[0]) != 1 or len(shape) != 2 or stride[1] != 1 or shape[1] < _LONG_RUN:
        return False
    if x.dtype is not y.dtype or y.dtype not in (dtypes.float32, dtypes.float64):
        return False
    call.run(
        "columns", "tt_runs_K_T", x, rows, row_step, shape[0], stride[0], shape[1], y, K=call.op,
        T=c_type(y.dtype), B=str(_ROWS.get(call.op, 128)), Z=_start(call.op, y.dtype),
    )  # fmt: skip
    return True


def _groups(shape: Sequence[int], dims: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Dimensions that are kept, reduced, and kept inside all reduced ones (but those of size 1)."""
    reduced = [d for d in range(len(shape)) if d in dims]
    last = max((d for d in reduced if shape[d] != 1), default=-1)
    kept = [d for d in range(len(shape)) if d not in dims]
    return [d for d in kept if d < last], reduced, [d for d in kept if d > last]


def permuted(x: Value, order: Sequence[int]) -> Value:
    """A value with its dimensions in another order."""
    return Value([x.shape[d] for d in order], [x.stride[d] for d in order], x.dtype, x.at)


def reduce_columns(
    call: Call, op: str, x: Value, y: Value, groups: tuple[list[int], list[int], list[int]]
) -> None:
    """Reduces the second one of three groups of dimensions, with several results side by side."""
    t = dtypes.float32 if y.dtype.itemsize == 2 and y.dtype.is_floating_point else y.dtype
    x, outer, outer_step, rows, step, columns = _columns(call, x, t, groups)
    found = y if y.dtype is t else call.scratch(y.shape, t)
    block = _ROWS.get(op, 128)
    type_ = _value_type(op, t)
    levels = 1 + max(1, -(-rows // block)).bit_length()
    work = call.scratch_bytes(levels * _WIDTH * t.itemsize, type_)
    join = op if t.is_floating_point else _OF_INTEGERS.get(op, op)
    call.run(
        "columns", "tt_columns_K_S_T", x, outer, outer_step, rows, step, columns,
        pointer(found.at, type_), work, K=join, S=c_type(x.dtype), T=type_,
        W=str(_WIDTH), B=str(block), Z=_start(op, t),
    )  # fmt: skip
    if found is not y:
        call.cast(found, y)


def _columns(
    call: Call, x: Value, t: dtype, groups: tuple[list[int], list[int], list[int]]
) -> tuple[Value, int, int, int, int, int]:
    """A value as columns: how often, from one time to the next, rows, from one row to the next,
    columns. Floats are converted."""
    shape = [[x.shape[d] for d in group] for group in groups]
    x = permuted(x, [d for group in groups for d in group])
    if x.dtype.is_floating_point and x.dtype is not t:
        x = call.dense(x, t)
    outer, rows, columns = map(prod, shape)
    steps = _steps(x, shape)
    if steps is None:
        x, steps = call.dense(x), [rows * columns, columns, 1]
    return x, outer, steps[0], rows, steps[1], columns


def _steps(x: Value, shape: list[list[int]]) -> list[int] | None:
    """From one element to the next in each of three groups of dimensions; None where that varies,
    or where the last ones do not lie side by side."""
    steps, first = [], 0
    for group in shape:
        _, (step,) = merged(group, [x.stride[first : first + len(group)]])
        if len(step) != 1:
            return None
        steps.append(step[0])
        first += len(group)
    return steps if steps[2] == 1 else None


def _value_type(op: str, t: dtype) -> str:
    """The type of C in which elements join: sums and products of integers wrap."""
    return "uint64_t" if op in ("sum", "prod") and t is dtypes.int64 else c_type(t)


def _start(op: str, t: dtype) -> str:
    """The constant that each column starts with."""
    if op in ("sum", "prod"):
        return "0" if op == "sum" else "1"
    if t.is_floating_point:
        return "-INFINITY" if op == "amax" else "INFINITY"
    if t is dtypes.bool:
        return "0" if op == "amax" else "1"
    name = t.name.upper()
    if op == "amin":
        return f"{name}_MAX"
    return "0" if name.startswith("U") else f"{name}_MIN"


@emits("var", "logsumexp")
def _moments(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    if y.numel == 0:
        return
    kind = "spread" if call.op == "var" else "exps"
    t = dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32
    words = {"T": c_type(t), "K": kind}
    if kind == "exps":
        words["E"] = call.out.scalar("exp", t)
        call.out.scalar("exp", dtypes.float64)
        call.out.scalar("log", dtypes.float64)
    first = call.scratch(y.shape, dtypes.float64)
    second = y if y.dtype is dtypes.float64 else call.scratch(y.shape, dtypes.float64)
    groups = outer, reduced, inner = _groups(x.shape, call.attrs["dims"])
    n = prod(x.shape[d] for d in reduced)
    if n == 0:
        start = "0" if kind == "spread" else "-INFINITY"
        call.run("moments", "tt_no_parts", first, second, y.numel, start, **words)
    elif prod(x.shape[d] for d in inner) > 1:
        x, *sizes = _columns(call, x, t, groups)
        work = call.scratch((128 * (-(-n // 128)).bit_length(),), dtypes.float64)
        call.run("moments", "tt_columns_K_T", x, first, second, *sizes, work, **words)
    else:
        x = call.dense(permuted(x, [*outer, *inner, *reduced]), t)
        call.run("moments", "tt_rows_K_T", x, first, second, y.numel, n, **words)
    if kind == "spread":
        divisor = float(max(n - call.attrs["correction"], 0.0)).hex()
        flags = int(call.attrs["root"]), int(y.dtype is dtypes.float32)
        call.run("moments", "tt_variances", second, y.numel, divisor, *flags, **words)
    else:
        call.run("moments", "tt_log_sums", first, second, y.numel, **words)
    if second is not y:
        call.cast(second, y)


@emits("sum_squares")
def _sum_squares(call: Call) -> None:
    y = call.y[0]
    for i, x in enumerate(call.x):
        x, words = call.dense(x, y.dtype), {"T": c_type(y.dtype)}
        call.run("moments", "tt_sum_of_squares_T", x, x.numel, f"{y} + {i}", **words)
