"""Sorting and selecting."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.families.indexing import at_least_1d
from tinyt.compiler.export.source import bits_type, c_type
from tinyt.compiler.export.values import Value

if TYPE_CHECKING:
    from tinyt._tensor import dtype

_FEW = 16  # elements that are kept in order while a line is looked through
_INFINITY = {
    dtypes.float16: "0x7c00u",
    dtypes.bfloat16: "0x7f80u",
    dtypes.float32: "0x7f800000u",
    dtypes.float64: "0x7ff0000000000000u",
}


def _with_last(x: Value, dim: int) -> Value:
    """A view of a value with a dimension behind all others."""
    order = [d for d in range(len(x.shape)) if d != dim] + [dim]
    return x.view([x.shape[d] for d in order], [x.stride[d] for d in order])


def _key(t: dtype) -> tuple[str, str]:
    """What keys are made with: the bit of the sign, and infinity."""
    unsigned = t in (dtypes.bool, dtypes.uint8)
    return "0" if unsigned else f"0x{1 << (8 * t.itemsize - 1):x}u", _INFINITY.get(t, "0")


@emits("sort", "topk")
def _sort(call: Call) -> None:
    """Elements are bits, which keys that order as they do are made of."""
    x, values, indices = (at_least_1d(v) for v in (*call.x, *call.y))
    if values.numel == 0:
        return
    dim = call.attrs["dim"]
    x = call.dense(_with_last(x, dim))
    to, places = _with_last(values, dim), _with_last(indices, dim)
    found = values if to.is_dense else call.scratch(to.shape, to.dtype)
    at = indices if to.is_dense else call.scratch(to.shape, dtypes.int64)
    n, kept = x.shape[-1], to.shape[-1]
    descending = call.attrs["descending" if call.op == "sort" else "largest"]
    type_ = bits_type(x.dtype)
    key = (*_key(x.dtype), f"({type_})-1" if descending else "0")
    few = kept <= _FEW and kept < n
    keys = call.scratch_bytes((kept if few else 2 * n) * x.dtype.itemsize, type_)
    lines = x.as_bits(), found.as_bits(), at, prod(x.shape[:-1]), n, kept, keys
    if few:
        call.run("sort", "tt_first_of_lines_T", *lines, *key, T=type_)
    else:
        room = call.scratch_bytes(2 * n * 8, "int64_t")
        call.run("sort", "tt_sort_lines_T", *lines, room, *key, T=type_)
    if found is not values:
        call.copy(found, to)
        call.copy(at, places)


@emits("kthvalue", "median")
def _select(call: Call) -> None:
    """One element of a line, whose place is the same wherever the dimension was."""
    values, indices = call.y
    if values.numel == 0:
        return
    x = call.dense(_with_last(at_least_1d(call.x[0]), call.attrs["dim"]))
    n, type_ = x.shape[-1], bits_type(x.dtype)
    rank = -1 if call.op == "median" else max(0, call.attrs["k"] - 1)
    ignore = int(call.attrs.get("ignore_nan", False))
    keys = call.scratch_bytes(n * x.dtype.itemsize, type_)
    lines = values.numel, n, rank, ignore, keys
    places = x.as_bits(), values.as_bits(), indices
    call.run("sort", "tt_select_T", *places, *lines, *_key(x.dtype), T=type_)


@emits("searchsorted")
def _searchsorted(call: Call) -> None:
    y = call.y[0]
    if y.numel == 0:
        return
    t = call.compute
    if not t.is_floating_point:
        t = dtypes.int64
    elif t.itemsize == 2:
        t = dtypes.float32
    ordered, values = (call.dense(v, t) for v in call.x)
    n = ordered.shape[-1]
    if len(ordered.shape) == 1:
        lines = 1, values.numel, n, 0
    else:
        count = values.shape[-1]
        lines = values.numel // count, count, n, n
    right = int(call.attrs["right"])
    call.run("searchsorted", "tt_searchsorted_T", ordered, values, y, *lines, right, T=c_type(t))
