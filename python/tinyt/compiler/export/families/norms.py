"""Softmax and normalisations."""

from __future__ import annotations

from math import prod

import tinyt
from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.families.reductions import permuted
from tinyt.compiler.export.source import c_type
from tinyt.compiler.export.values import Value


class Results:
    """Results as functions write them in the dtype that they compute in, and in another order of
    dimensions; `finish` gives them their own."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self._found: list[tuple[Value, Value]] = []

    def add(self, y: Value, t: tinyt.dtype) -> Value:
        """Where to write a result, which is dense."""
        made = y if y.is_dense and y.dtype is t else self.call.scratch(y.shape, t)
        self._found.append((made, y))
        return made

    def finish(self) -> None:
        """Copies what is not in its place."""
        for made, y in self._found:
            if made is not y:
                self.call.copy(made, y)


def compute_of(x: Value) -> tinyt.dtype:
    """The dtype of floats that functions compute in."""
    return tinyt.float64 if x.dtype is tinyt.float64 else tinyt.float32


def functions_of(call: Call, t: tinyt.dtype) -> dict[str, str]:
    """The words of templates: type, exponential below 0, logarithm."""
    is_single = t is tinyt.float32
    below = "tt_exp_below_f32" if is_single else call.out.scalar("exp", t)
    return {"T": c_type(t), "E": below, "L": call.out.scalar("log", t)}


def lines(x: Value, dim: int) -> Value:
    """A value with a dimension as the last one."""
    return permuted(x, [*(d for d in range(len(x.shape)) if d != dim), dim]) if x.shape else x


@emits("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
def _softmax(call: Call) -> None:
    y, dim = call.y[0], call.attrs["dim"]
    if y.numel == 0:
        return
    t, results = compute_of(y), Results(call)
    operands = [call.dense(lines(x, dim), t) for x in call.x]
    to = results.add(lines(y, dim), t)
    n = y.shape[dim] if y.shape else 1
    function = f"tt_{call.op}_T"
    call.run("rows", function, *operands, to, y.numel // n, n, **functions_of(call, t))
    results.finish()


def _given(call: Call, x: Value, t: tinyt.dtype) -> Value | str:
    """A weight or bias, dense; one of no dimensions is none."""
    return call.dense(x, t) if x.shape else "NULL"


@emits("layer_norm")
def _layer_norm(call: Call) -> None:
    x, y = call.x[0], call.y[0]
    t, results = compute_of(x), Results(call)
    lead = len(x.shape) - call.attrs["dims"]
    rows, n = prod(x.shape[:lead]), prod(x.shape[lead:])
    if rows == 0:
        return
    w, b = (_given(call, part, t) for part in call.x[1:])
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
    weight = _given(call, call.x[4], t)
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
    from tinyt.compiler.export.source import Memory
    from tinyt.compiler.passes.views import contiguous

    assert isinstance(x.at, Memory)
    at = x.at._replace(offset=x.at.offset + first * x.dtype.itemsize)
    return Value(shape, contiguous(shape), x.dtype, at)
