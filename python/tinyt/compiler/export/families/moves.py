"""Copies, and what moves elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import bits_type
from tinyt.compiler.export.values import Value
from tinyt.compiler.passes.views import contiguous
from tinyt.ops.creation.filled import full

if TYPE_CHECKING:
    from tinyt._tensor import dtype


@emits("copy", "cast", "to_device")
def _copy(call: Call) -> None:
    call.copy(call.x[0], call.y[0])


@emits("reshape")
def _reshape(call: Call) -> None:
    """Of what is no view of the other shape."""
    x, y = call.x[0], call.y[0]
    call.copy(x, y.view(x.shape, contiguous(x.shape)))


@emits("cat")
def _cat(call: Call) -> None:
    y, dim = call.y[0], call.attrs["dim"]
    at = 0
    for x in call.x:
        if x.numel == 0:
            continue
        call.copy(x, y.view(x.shape, y.stride, at * y.stride[dim]))
        at += x.shape[dim]


@emits("flip")
def _flip(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    if x.numel == 0:
        return
    stride, offset = list(x.stride), 0
    for d in call.attrs["dims"]:
        offset += (x.shape[d] - 1) * stride[d]
        stride[d] = -stride[d]
    call.copy(x.view(x.shape, stride, offset), y)


@emits("update")
def _update(call: Call) -> None:
    base, value = call.x
    y = call.y[0]
    if base.at != y.at:
        call.copy(base, y)
    call.copy(value, y.view(call.attrs["size"], call.attrs["stride"], call.attrs["offset"]))


# ---- constants


def _bits(value: float, t: dtype) -> str:
    """A number in a dtype, as the bits that are stored."""
    size = t.itemsize
    stored = full((1,), value, dtype=t).view(dtypes.uint8).tolist()
    return f"0x{int.from_bytes(bytes(stored), 'little'):0{2 * size}x}u"


def fill(call: Call, y: Value, value: float) -> None:
    """Fills a dense value with a number in its dtype."""
    if y.numel:
        bits = _bits(value, y.dtype)
        call.run("fill", "tt_fill_T", y.as_bits(), bits, y.numel, T=bits_type(y.dtype))


@emits("fill")
def _fill(call: Call) -> None:
    y = call.y[0]
    value = call.attrs["value"] if y.dtype.is_floating_point else call.attrs["ivalue"]
    fill(call, y, value)


@emits("iota")
def _iota(call: Call) -> None:
    y = call.y[0]
    floating = y.dtype.is_floating_point
    computed = dtypes.float64 if floating else dtypes.int64
    made = y if y.dtype is computed else call.scratch(y.shape, computed)
    if y.numel == 0:
        return
    if floating:
        start, step = repr(float(call.attrs["start"])), repr(float(call.attrs["step"]))
        call.run("fill", "tt_iota_T_U", made, start, step, y.numel, T="double", U="double")
    else:
        start, step = (f"{call.attrs[name] % 2**64}u" for name in ("istart", "istep"))
        call.run("fill", "tt_iota_T_U", made, start, step, y.numel, T="int64_t", U="uint64_t")
    if made is not y:
        call.cast(made, y)


# ---- borders


def _part(x: Value, first: Sequence[int], last: Sequence[int]) -> Value:
    """Elements [first, last) of each dimension."""
    offset = sum(i * s for i, s in zip(first, x.stride, strict=True))
    return x.view([b - a for a, b in zip(first, last, strict=True)], x.stride, offset)


@emits("pad")
def _pad(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    pads = list(zip(call.attrs["pad"][::2], call.attrs["pad"][1::2], strict=True))
    begin = [max(0, -a) for a, _ in pads]
    inner = _part(x, begin, [n - max(0, -b) for n, (_, b) in zip(x.shape, pads, strict=True)])
    last = [n - max(0, b) for n, (_, b) in zip(y.shape, pads, strict=True)]
    if inner.numel != y.numel:
        fill(call, y, _number(call.attrs["value"], y.dtype))
    if inner.numel:
        call.copy(inner, _part(y, [max(0, a) for a, _ in pads], last))


def _number(value: float, t: dtype) -> float:
    """A constant as casts from float64 make it of the dtype."""
    return value if t.is_floating_point else int(full((), value, dtype=dtypes.float64).to(t))


_REFLECT, _REPLICATE = 0, 1


@emits("pad_border")
def _pad_border(call: Call) -> None:
    """From the last dimension to the first: what lies beside the interior is there already, and
    moves outwards along with it."""
    x, y, pad = call.x[0], call.y[0], call.attrs["pad"]
    if y.numel == 0:
        return
    first = list(pad[::2])
    last = [a + n for a, n in zip(first, x.shape, strict=True)]
    call.copy(x, _part(y, first, last))
    for d in reversed(range(len(first))):
        for start, count, source, step in _slabs(call.attrs["mode"], first[d], last[d], y.shape[d]):
            if count == 0:
                continue
            begin, end, stride = list(first), list(last), list(y.stride)
            begin[d], end[d] = start, start + count
            slab = _part(y, begin, end)
            stride[d] *= step
            begin[d] = source
            call.copy(_part(y, begin, begin).view(slab.shape, stride), slab)
        first[d], last[d] = 0, y.shape[d]


def _slabs(mode: int, first: int, last: int, size: int) -> list[tuple[int, int, int, int]]:
    """What lies before and after the interior: start, count, and where it comes from, in steps."""
    after = size - last
    if mode == _REFLECT:
        return [(0, first, 2 * first, -1), (last, after, last - 2, -1)]
    if mode == _REPLICATE:
        return [(0, first, first, 0), (last, after, last - 1, 0)]
    return [(0, first, last - first, 1), (last, after, first, 1)]
