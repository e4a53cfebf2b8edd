"""Convolutions and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import Memory, c_type, sizes
from tinyt.compiler.export.values import Value

_FLOATS = {dtypes.float32, dtypes.float64}
_ROW = 128  # bytes: the most that a row of a panel has
_BLOCK = 64  # positions that the gradient of a source takes at once


@emits("conv", "conv_backward_input", "conv_backward_weight")
def _convolution(call: Call) -> None:
    y = call.y[0]
    if y.dtype in _FLOATS:
        return _write(call, call.dense(call.x[0], y.dtype), call.dense(call.x[1], y.dtype), y)
    wide = call.scratch(y.shape, dtypes.float32)
    first, second = (call.dense(x, dtypes.float32) for x in call.x)
    _write(call, first, second, wide)
    return call.cast(wide, y)


def _write(call: Call, first: Value, second: Value, made: Value) -> None:
    source, weight, output = {
        "conv": (first, second, made),
        "conv_backward_input": (made, second, first),
        "conv_backward_weight": (second, made, first),
    }[call.op]
    t, item = c_type(made.dtype), made.dtype.itemsize
    groups = call.attrs["groups"]
    border = _three(call.attrs["padding"], 0)
    size = _three(source.shape[2:], 1)
    outer = [n + 2 * p for n, p in zip(size, border, strict=True)]
    taps, positions = _three(weight.shape[2:], 1), _three(output.shape[2:], 1)
    channels = weight.shape[1]
    if made.numel == 0:
        return
    parts = (outer, taps, positions, _three(call.attrs["stride"], 1))
    geometry = ", ".join(_list(x) for x in (*parts, _three(call.attrs["dilation"], 1)))
    counts = source.shape[0], groups, weight.shape[0] // groups
    plan = (*counts, f"&(const tt_geometry){{{channels}, {geometry}}}", sizes(size), sizes(border))
    bordered = call.scratch_bytes(channels * prod(outer) * item + _ROW * parts[3][2], t)
    reads, rows = channels * prod(taps), prod(positions)

    def numbers(count: int) -> Memory:
        return call.scratch_bytes(8 * count, "int64_t")

    if call.op == "conv":
        panel = call.scratch_bytes(max(reads, counts[2] + 5) * _ROW, t)
        call.run(
            *("convolutions", "tt_convolution_T", source, weight, output, *plan),
            *(bordered, numbers(reads), panel),
            T=t,
        )
    elif call.op == "conv_backward_weight":
        panel = call.scratch_bytes(rows * _ROW, t)
        call.run(
            *("convolutions", "tt_convolution_weight_T", output, source, weight, *plan),
            *(bordered, panel, numbers(rows)),
            T=t,
        )
    else:
        columns = call.scratch_bytes(reads * _BLOCK * item, t)
        panel = call.scratch_bytes(counts[2] * (_ROW + 8), t)
        call.run(
            *("convolutions", "tt_convolution_input_T", output, weight, source, *plan),
            *(bordered, columns, panel),
            T=t,
        )


def _three(values: Sequence[int], missing: int) -> list[int]:
    return [missing] * (3 - len(values)) + list(values)


def _list(values: Sequence[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"
