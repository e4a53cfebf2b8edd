"""Attention, block by block of queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.source import c_type, sizes
from tinyt.compiler.export.values import Value, broadcast

if TYPE_CHECKING:
    from tinyt._tensor import dtype

_ROWS, _KEYS = 192, 128  # of a block, at most
_PANEL_BYTES = 128  # of a row of what products pack, at most


@emits("attention")
def _attention(call: Call) -> None:
    if call.y[1].numel == 0:
        return
    t = call.y[1].dtype
    call.x[:3] = [_in(call, x, t) for x in call.x[:3]]
    y = call.y[0] if call.y[0].dtype is t else call.scratch(call.y[0].shape, t)
    n = _sizes(call.x[0], call.x[1], call.x[2])
    scratch = _scratch(call, n, t)
    arguments = [_both(x) for x in call.x[:3]]
    _prepare(call, t)
    call.run(
        "attention",
        "tt_attention_T",
        *[word for pair in arguments for word in pair],
        *_mask(call, call.x[3], t, (n[0], n[1], n[3], n[4])),
        *_settings(call),
        sizes(n),
        y,
        call.y[1],
        *scratch,
        T=c_type(t),
    )
    if y is not call.y[0]:
        call.cast(y, call.y[0])


@emits("attention_backward")
def _attention_backward(call: Call) -> None:
    g, query, key, value, mask, out, log_sum = call.x
    t = log_sum.dtype
    g, out, log_sum = (call.dense(x, t) for x in (g, out, log_sum))
    query, key, value = (_in(call, x, t) for x in (query, key, value))
    y = [v if v.dtype is t else call.scratch(v.shape, t) for v in call.y]
    n = _sizes(query, key, value)
    block, scores, panel, delta = _scratch(call, n, t)
    slopes = call.scratch((n[7] * n[8],), t)
    _prepare(call, t)
    call.run(
        "attention",
        "tt_attention_backward_T",
        g,
        *[word for x in (query, key, value) for word in _both(x)],
        *_mask(call, mask, t, (n[0], n[1], n[3], n[4])),
        out,
        log_sum,
        *_settings(call),
        sizes(n),
        *y,
        block,
        scores,
        slopes,
        panel,
        delta,
        T=c_type(t),
    )
    for made, wanted in zip(y, call.y, strict=True):
        if made is not wanted:
            call.cast(made, wanted)


def _prepare(call: Call, t: dtype) -> None:
    """Brings what the templates call of others."""
    call.out.scalar("log", t)
    if t is dtypes.float64:
        call.out.scalar("exp", t)


def _in(call: Call, x: Value, t: dtype) -> Value:
    """The operand itself, or dense in another dtype."""
    return x if x.dtype is t else call.dense(x, t)


def _both(x: Value) -> tuple[Value, str]:
    return x, sizes(x.stride)


def _sizes(query: Value, key: Value, value: Value) -> list[int]:
    """Batch, heads, groups, queries, keys, width of queries and of values; queries and keys of a
    block."""
    batch, heads, queries, width = query.shape
    groups, keys = key.shape[1:3]
    blocks = max(1, min(queries, _ROWS)), max(1, min(keys, _KEYS))
    return [batch, heads, groups, queries, keys, width, value.shape[3], *blocks]


def _scratch(call: Call, n: list[int], t: dtype) -> list[Value]:
    """A block of queries, one of scores, a panel of products, and a number for each query."""
    *_, width, out_width, rows, keys = n
    lanes = (_PANEL_BYTES + 8) // t.itemsize
    panel = max(width, keys, out_width, rows) * lanes
    return [call.scratch((k,), t) for k in (rows * width, rows * keys, panel, rows)]


def _settings(call: Call) -> tuple[str, int]:
    return float(call.attrs["scale"]).hex(), int(call.attrs["causal"])


def _mask(call: Call, mask: Value, t: dtype, shape: tuple[int, ...]) -> tuple[object, object, str]:
    """What is added, what is kept (one of them, or none), and the strides."""
    if not mask.shape:
        return "NULL", "NULL", sizes([0, 0, 0, 0])
    if mask.dtype is not dtypes.bool:
        mask = _in(call, mask, t)
    steps = sizes(broadcast(mask, shape))
    return ("NULL", mask, steps) if mask.dtype is dtypes.bool else (mask, "NULL", steps)
