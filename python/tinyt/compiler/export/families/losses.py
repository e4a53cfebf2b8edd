"""Cross-entropy of logits."""

from __future__ import annotations

from math import prod

from tinyt.compiler.export.calls import Call, emits
from tinyt.compiler.export.families.norms import (
    Results,
    compute_of,
    functions_of,
    given,
    lines,
)

_NONE, _MEAN = 0, 1  # reductions


@emits("softmax_nll")
def _softmax_nll(call: Call) -> None:
    x, target, weight = call.x
    t, results = compute_of(x), Results(call)
    words = functions_of(call, t, "E", "L")
    dim = 1 if len(x.shape) > 1 else 0
    classes, ignored, reduction = x.shape[dim], call.attrs["ignored"], call.attrs["reduction"]
    rows = prod(target.shape)
    x, target, w = call.dense(lines(x, dim), t), call.dense(target), given(call, weight, t)
    out, stats = (results.add(y, t) for y in call.y)
    losses = out if reduction == _NONE else call.scratch(target.shape, t)
    call.check(
        "softmax", "tt_check_classes", "a class is out of range", target, rows, classes, ignored
    )
    operands = x, target, w, losses, stats
    call.run("softmax", "tt_softmax_nll_T", *operands, rows, classes, ignored, **words)
    loss = "NULL" if reduction == _NONE else out
    total = f"{stats} + {2 * rows}"
    call.run(
        "softmax", "tt_sum_losses_T", losses, target, w, total, loss, rows, ignored,
        int(reduction == _MEAN), T=words["T"],
    )  # fmt: skip
    results.finish()


@emits("softmax_nll_input")
def _softmax_nll_input(call: Call) -> None:
    g, x, target, weight, stats = call.x
    y = call.y[0]
    if y.numel == 0:
        return
    t, results = compute_of(x), Results(call)
    words = functions_of(call, t, "E")
    dim = 1 if len(x.shape) > 1 else 0
    classes, ignored, reduction = x.shape[dim], call.attrs["ignored"], call.attrs["reduction"]
    rows = prod(target.shape)
    x, target, w = call.dense(lines(x, dim), t), call.dense(target), given(call, weight, t)
    g, stats = call.dense(g, t), call.dense(stats, t)
    dx = results.add(lines(y, dim), t)
    call.check(
        "softmax", "tt_check_classes", "a class is out of range", target, rows, classes, ignored
    )
    call.run(
        "softmax", "tt_softmax_nll_input_T", g, x, target, w, stats, dx, rows, classes, ignored,
        int(reduction == _NONE), int(reduction == _MEAN), **words,
    )  # fmt: skip
    results.finish()
