"""Softmax and normalisations."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tinyt import dtypes
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.families.reductions import permuted, reduce_columns
from tinyt.compiler.export.source import Memory, c_type
from tinyt.compiler.export.values import Value
from tinyt.compiler.passes.views import contiguous

if TYPE_CHECKING:
    from tinyt._tensor import dtype

_STRIP = 64  # columns that are worked on side by side
_SHORTEST = 16  # elements of a channel that is worked on as one row


class Results:
    """Results as functions write them in the dtype that they compute in, and in another order of
    dimensions; `finish` gives them their own."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._found: list[tuple[Value, Value]] = []

    def add(self, y: Value, t: dtype) -> Value:
        """Where to write a result, which is dense."""
        made = y if y.is_dense and y.dtype is t else self.call.scratch(y.shape, t)
        self._found.append((made, y))
        return made

    def finish(self) -> None:
        """Copies what is not in its place."""
        for made, y in self._found:
            if made is not y:
                self.call.copy(made, y)


def compute_of(x: Value) -> dtype:
    """The dtype of floats that functions compute in."""
    return dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32


def functions_of(call: Call, t: dtype, *names: str) -> dict[str, str]:
    """The words of templates: the type; and exponential below 0 (E), logarithm (L), where named."""
    words = {"T": c_type(t)}
    if "E" in names:
        words["E"] = "tt_exp_below_f32" if t is dtypes.float32 else call.out.scalar("exp", t)
    if "L" in names:
        words["L"] = call.out.scalar("log", t)
    return words


_NAMES = {"softmax": "E", "log_softmax": "EL", "log_softmax_backward": "E"}


def lines(x: Value, dim: int) -> Value:
    """A value with a dimension as the last one."""
    return permuted(x, [*(d for d in range(len(x.shape)) if d != dim), dim]) if x.shape else x


@emits("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
def _softmax(call: Call) -> None:
    y, dim = call.y[0], call.attrs["dim"]
    if y.numel == 0:
        return
    t, results = compute_of(y), Results(call)
    words = functions_of(call, t, *_NAMES.get(call.op, ""))
    n = y.shape[dim] if y.shape else 1
    outer, columns = prod(y.shape[:dim]), prod(y.shape[dim + 1 :])
    operands = [call.dense(x, t) for x in call.x]
    to = results.add(y, t)
    if columns == 1:
        call.run("softmax", f"tt_{call.op}_T", *operands, to, outer, n, **words)
    else:
        function = "tt_strips_backward_K_T" if len(operands) > 1 else "tt_strips_K_T"
        levels = 35 + max(1, -(-n // 4096)).bit_length()
        work = call.scratch((levels, _STRIP), t)
        words |= {"K": call.op.removesuffix("_backward"), "W": str(_STRIP)}
        call.run("softmax", function, *operands, to, outer, n, columns, work, **words)
    results.finish()


def given(call: Call, x: Value, t: dtype) -> Value | str:
    """A weight or bias, dense; one of no dimensions is none."""
    return call.dense(x, t) if x.shape else "NULL"


@emits("layer_norm")
def _layer_norm(call: Call) -> None:
    x = call.x[0]
    t, results = compute_of(x), Results(call)
    lead = len(x.shape) - call.attrs["dims"]
    rows, n = prod(x.shape[:lead]), prod(x.shape[lead:])
    if rows == 0:
        return
    w, b = (given(call, part, t) for part in call.x[1:])
    to = [results.add(v, t) for v in call.y]
    center, eps = int(call.attrs["center"]), float(call.attrs["eps"]).hex()
    call.run(
        "rows", "tt_layer_norm_T", call.dense(x, t), w, b, *to, rows, n, center, eps, T=c_type(t)
    )
    results.finish()


@emits("layer_norm_backward")
def _layer_norm_backward(call: Call) -> None:
    wanted, summed = call.attrs["dx"], call.attrs["params"]
    x = call.x[1]
    t, results = compute_of(x), Results(call)
    lead = len(x.shape) - call.attrs["dims"]
    rows, n = prod(x.shape[:lead]), prod(x.shape[lead:])
    operands = [call.dense(v, t) for v in call.x[:4]]
    weight = given(call, call.x[4], t)
    dx = results.add(call.y[0], t) if wanted else "NULL"
    block = max(32, min(65536 // max(n, 1), 128))
    blocks = max(1, -(-rows // block))
    sums = call.scratch((blocks, 2, n), t) if summed else "NULL"
    if rows == 0 and isinstance(sums, Value) and n:
        call.out.call("memset", sums, 0, 2 * n * t.itemsize)
    g, x, mean, scale = operands
    center = int(call.attrs["center"])
    call.run(
        "rows", "tt_layer_norm_backward_T", g, x, mean, scale, weight, dx, sums, rows, n, center,
        block, T=c_type(t),
    )  # fmt: skip
    results.finish()
    if isinstance(sums, Value) and n:
        call.run("rows", "tt_add_parts_T", sums, blocks, 2 * n, T=c_type(t))
        for i, y in enumerate(call.y[1:]):
            call.copy(part_of(sums, i * n, y.shape), y)


def part_of(x: Value, first: int, shape: tuple[int, ...]) -> Value:
    """Elements of a dense value in scratch memory, from one on, as a dense value of a shape."""
    assert isinstance(x.at, Memory)
    at = x.at._replace(offset=x.at.offset + first * x.dtype.itemsize)
    return Value(shape, contiguous(shape), x.dtype, at)


# ---- channels: x [outer, channels, n]


@emits("batch_norm")
def _batch_norm(call: Call) -> None:
    x = call.x[0]
    t, results = compute_of(x), Results(call)
    outer, channels, n = x.shape[0], x.shape[1], prod(x.shape[2:])
    if channels == 0:
        return
    x = call.dense(x, t)
    w, b = (given(call, part, t) for part in call.x[1:3])
    y, mean, scale, var = (results.add(v, t) for v in call.y)
    if call.x[3].shape:
        call.copy(call.x[3], mean)
        call.copy(call.x[4], var)
    elif _by_columns(n):
        _moments_of_columns(call, x, mean, var)
    else:
        call.run("channels", "tt_batch_moments_T", x, mean, var, outer, channels, n, T=c_type(t))
    eps = float(call.attrs["eps"]).hex()
    call.run("channels", "tt_scales_T", var, scale, channels, eps, T=c_type(t))
    call.run(
        "channels", "tt_scale_channels_T", x, mean, scale, w, b, y, outer, channels, n, 1, 0,
        T=c_type(t),
    )  # fmt: skip
    results.finish()


def _by_columns(n: int) -> bool:
    return 0 < n < _SHORTEST


def _moments_of_columns(call: Call, x: Value, mean: Value, var: Value) -> None:
    outer, channels, n = x.shape[0], x.shape[1], prod(x.shape[2:])
    type_ = c_type(x.dtype)
    _sum_columns(call, x, mean, outer * n)
    squares = call.scratch(x.shape, x.dtype)
    call.run("channels", "tt_channel_squares_T", x, mean, squares, outer, channels, n, T=type_)
    _sum_columns(call, squares, var, outer * n)


def _sum_columns(call: Call, x: Value, y: Value, divisor: int = 1) -> None:
    """The sums of each channel over the others: columns first, then those of a channel."""
    sums = call.scratch(x.shape[1:], x.dtype)
    inner = list(range(1, len(x.shape)))
    reduce_columns(call, "sum", x, sums, ([], [0], inner))
    channels, n = x.shape[1], prod(x.shape[2:])
    call.run("channels", "tt_sum_places_T", sums, y, channels, n, divisor, T=c_type(x.dtype))


@emits("batch_norm_backward")
def _batch_norm_backward(call: Call) -> None:
    x = call.x[1]
    t, results = compute_of(x), Results(call)
    outer, channels, n = sizes = x.shape[0], x.shape[1], prod(x.shape[2:])
    if channels == 0:
        return
    g, x, mean, scale = (call.dense(v, t) for v in call.x[:4])
    w = given(call, call.x[4], t)
    dot, total = (results.add(v, t) for v in call.y[1:])
    type_ = c_type(t)
    if _by_columns(n):
        dots = call.scratch(x.shape, t)
        call.run("channels", "tt_channel_dots_T", g, x, mean, scale, dots, *sizes, T=type_)
        _sum_columns(call, dots, dot)
        _sum_columns(call, g, total)
    else:
        call.run("channels", "tt_batch_sums_T", g, x, mean, scale, dot, total, *sizes, T=type_)
    if call.attrs["dx"]:
        dx = results.add(call.y[0], t)
        if call.attrs["training"]:
            shares = [call.scratch((channels,), t) for _ in range(2)]
            for share, found in zip(shares, (total, dot), strict=True):
                call.run("channels", "tt_shares_T", found, w, share, channels, outer * n, T=type_)
            operands = g, x, mean, scale, w, *shares, dx
            call.run("channels", "tt_channels_input_T", *operands, *sizes, 1, 0, T=type_)
        else:
            call.run("channels", "tt_channels_given_T", g, scale, w, dx, *sizes, T=type_)
    results.finish()


@emits("group_norm")
def _group_norm(call: Call) -> None:
    x, groups = call.x[0], call.attrs["groups"]
    t, results = compute_of(x), Results(call)
    outer, channels, n = x.shape[0], x.shape[1], prod(x.shape[2:])
    rows, members = outer * groups, channels // groups
    if rows == 0:
        return
    x = call.dense(x, t)
    w, b = (given(call, part, t) for part in call.x[1:])
    y, mean, scale = (results.add(v, t) for v in call.y)
    eps, type_ = float(call.attrs["eps"]).hex(), c_type(t)
    call.run("channels", "tt_rows_stats_T", x, mean, scale, rows, members * n, eps, T=type_)
    call.run(
        "channels", "tt_scale_channels_T", x, mean, scale, w, b, y, outer, channels, n, members,
        groups, T=type_,
    )  # fmt: skip
    results.finish()


@emits("group_norm_backward")
def _group_norm_backward(call: Call) -> None:
    x, groups = call.x[1], call.attrs["groups"]
    t, results = compute_of(x), Results(call)
    outer, channels, n = x.shape[0], x.shape[1], prod(x.shape[2:])
    rows, members = outer * groups, channels // max(groups, 1)
    g, x, mean, scale = (call.dense(v, t) for v in call.x[:4])
    w = given(call, call.x[4], t)
    dot, total = (results.add(v, t) for v in call.y[1:])
    sums = call.scratch((outer, channels, 2), t)
    shift, slope = (call.scratch((max(rows, 1),), t) for _ in range(2))
    few, type_ = n < _SHORTEST, c_type(t)
    weight = w
    if few and isinstance(w, Value):
        weight = call.dense(Value((channels, n), (1, 0), t, w.at))
    call.run(
        "channels", "tt_group_sums_few_T" if few else "tt_group_sums_T", g, x, mean, scale, weight,
        sums, shift, slope, rows, groups, members, n, T=type_,
    )  # fmt: skip
    if call.attrs["dx"]:
        dx = results.add(call.y[0], t)
        operands = g, x, mean, scale, w, shift, slope, dx
        layout = outer, channels, n, members, groups
        call.run("channels", "tt_channels_input_T", *operands, *layout, T=type_)
    call.run("channels", "tt_add_samples_T", sums, dot, total, outer, channels, T=type_)
    results.finish()
