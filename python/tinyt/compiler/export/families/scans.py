"""Running sums, products and extremes, and where the largest elements are."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value, pointer, wide

if TYPE_CHECKING:
    from tinyt._tensor import dtype


def _lines(x: Value, dim: int) -> tuple[int, int, int]:
    """Three dimensions: those before one, that one, and those after it."""
    if not x.shape:
        return 1, 1, 1
    return prod(x.shape[:dim]), x.shape[dim], prod(x.shape[dim + 1 :])


def _target(call: Call, y: Value, t: dtype) -> Value:
    return y if y.dtype is t else call.scratch(y.shape, t)


@emits("cumsum", "cumprod")
def _running(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    if x.numel == 0:
        return
    floating = x.dtype.is_floating_point
    t = wide(x.dtype) if floating else dtypes.int64
    x, made = call.dense(x, t), _target(call, y, t)
    type_, held = (c_type(t), "double") if floating else ("uint64_t", "uint64_t")
    places = pointer(x.at, type_), pointer(made.at, type_)
    lines = _lines(x, call.attrs["dim"])
    if call.op == "cumsum":
        call.run("scan", "tt_cumsum_T_U", *places, *lines, T=type_, U=held)
    else:
        # Four float32 have a product that float64 mostly holds; those of float64 go one by one.
        together = 1 if t is dtypes.float64 else 4
        call.run("scan", "tt_cumprod_T_U", *places, *lines, together, T=type_, U=held)
    if made is not y:
        call.cast(made, y)


@emits("cummax", "cummin")
def _running_extreme(call: Call) -> None:
    y, places = call.y
    if y.numel == 0:
        return
    x = call.dense(call.x[0], wide(y.dtype))
    made = _target(call, y, x.dtype)
    lines = _lines(x, call.attrs["dim"])
    smallest = int(call.op == "cummin")
    call.run("scan", "tt_cummax_T", x, made, places, *lines, smallest, T=c_type(x.dtype))
    if made is not y:
        call.cast(made, y)


@emits("logcumsumexp")
def _running_logsumexp(call: Call) -> None:
    """Those of float32 are taken in float64, as PyTorch's are."""
    y = call.y[0]
    if y.numel == 0:
        return
    t = dtypes.float64 if y.dtype is dtypes.float32 else wide(y.dtype)
    x, made = call.dense(call.x[0], t), _target(call, y, t)
    functions = {"E": call.out.scalar("exp", t), "L": call.out.scalar("log", t)}
    lines = _lines(x, call.attrs["dim"])
    call.run("scan", "tt_logcumsumexp_T", x, made, *lines, T=c_type(t), **functions)
    if made is not y:
        call.cast(made, y)


@emits("argmax", "argmin")
def _argmax(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    if y.numel == 0:
        return
    x = call.dense(x, wide(x.dtype))
    smallest = int(call.op == "argmin")
    lines = _lines(x, call.attrs["dim"])
    if lines[1] > 2**31 - 1:
        raise NotImplementedError(f"export_c: {call.op} of 2**31 elements or more")
    call.run("argmax", "tt_argmax_T", x, y, *lines, smallest, T=c_type(x.dtype))
