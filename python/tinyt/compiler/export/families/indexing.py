"""Elements by their indices."""

from __future__ import annotations

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import bits_type, c_type, sizes
from tinyt.compiler.export.values import Value, broadcast, merged, pointer, wide

_RANGE = "an index is out of range"


def at_least_1d(x: Value) -> Value:
    """A value, of one dimension if it has none."""
    return x if x.shape else x.view((1,), (1,))


def _along(x: Value, shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """The strides of a value in the space of an index, which moves along a dimension."""
    stride = [0 if n == 1 else s for n, s in zip(shape, x.stride, strict=True)]
    stride[dim] = 0
    return tuple(stride)


@emits("gather")
def _gather(call: Call) -> None:
    x, index, y = (at_least_1d(v) for v in (*call.x, call.y[0]))
    dim = call.attrs["dim"]
    if y.numel == 0:
        return
    strides = [_along(x, y.shape, dim), broadcast(index, y.shape), y.stride]
    shape, (a, b, _) = merged(y.shape, strides)
    source = x.as_bits(), sizes(a), x.stride[dim], x.shape[dim]
    space = index, sizes(b), y.as_bits(), sizes(shape), len(shape)
    call.check("gather", "tt_gather_T", _RANGE, *source, *space, T=bits_type(x.dtype))


@emits("linear_index")
def _linear_index(call: Call) -> None:
    y, shape = call.y[0], tuple(call.attrs["shape"])
    for k, (x, size) in enumerate(zip(call.x, call.attrs["sizes"], strict=True)):
        if y.numel == 0:
            return
        spread = x.view(shape, broadcast(x, shape))
        index = call.dense(spread, dtypes.int64)
        numbers = index, size, int(k == 0), y, y.numel
        call.check("gather", "tt_linear_index", _RANGE, *numbers)


_HOW = {"scatter": 0, "scatter_add": 1}
_REDUCE = (2, 3, 4)  # product, larger, smaller


@emits("scatter", "scatter_add", "scatter_reduce")
def _scatter(call: Call) -> None:
    x, index, source, y = (at_least_1d(v) for v in (*call.x, call.y[0]))
    how = _HOW[call.op] if call.op in _HOW else _REDUCE[call.attrs["reduce"]]
    if index.numel:
        once = [min(1, n) if s == 0 else n for n, s in zip(index.shape, index.stride, strict=True)]
        looked_at = call.dense(index.view(once, index.stride))
        size = y.shape[call.attrs["dim"]]
        call.check("gather", "tt_out_of_range", _RANGE, looked_at, looked_at.numel, size)
    made = y
    if how != 0 and wide(y.dtype) is not y.dtype:
        made = call.scratch(y.shape, wide(y.dtype))
        source = call.dense(source.view(index.shape, source.stride), made.dtype)
    if x.at != made.at:
        call.copy(x, made)
    _combine(call, source, index, made, how)
    if made is not y:
        call.cast(made, y)


def _combine(call: Call, source: Value, index: Value, y: Value, how: int) -> None:
    if index.numel == 0:
        return
    dim, t = call.attrs["dim"], y.dtype
    strides = [
        broadcast(source.view(index.shape, source.stride), index.shape),
        broadcast(index, index.shape),
        _along(y, index.shape, dim),
    ]
    shape, (a, b, c) = merged(index.shape, strides)
    if t is dtypes.bool and how in (1, 2):
        how += 2  # a sum of bools is the larger one, a product the smaller one
    kind, held = c_type(t), c_type(t) if t.is_floating_point else "uint64_t"
    if how == 0 or (how < 3 and not t.is_floating_point):  # unsigned integers wrap
        kind, held = bits_type(t), "uint64_t"
    given = pointer(source.at, kind), sizes(a), index, sizes(b)
    target = pointer(y.at, kind), sizes(c), y.stride[dim], sizes(shape), len(shape)
    call.run("scatter", "tt_scatter_T_U", *given, *target, how, T=kind, U=held)
