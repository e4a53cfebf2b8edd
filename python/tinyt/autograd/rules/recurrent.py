"""Long short-term memory in primitives, and its gradient rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, THIRD, transposed, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def _at(x: Tensor, t: int) -> Tensor:
    """x[t]."""
    return prim.reshape(prim.slice(x, 0, t, t + 1), tuple(x.shape[1:]))


def _quarters(gates: Tensor) -> list[Tensor]:
    width = gates.shape[1] // 4
    return [prim.slice(gates, 1, i * width, (i + 1) * width) for i in range(4)]


def _stacked(parts: Sequence[Tensor]) -> Tensor:
    """The parts along a new first dimension."""
    return prim.cat(tuple(prim.reshape(p, (1, *p.shape)) for p in parts), 0)


def _times(count: int, reverse: bool) -> range:
    return range(count - 1, -1, -1) if reverse else range(count)


def lstm_steps(
    gates: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, list[Tensor], list[Tensor]]:
    """The hidden states and the last memory, and at each time the gates' values and the memory."""
    count = gates.shape[0]
    hiddens, values, memories = ([hidden] * count for _ in range(3))
    for t in _times(count, reverse):
        sums = prim.matmul_add(hidden, transposed(weight), _at(gates, t))
        entry, forget, cell, output = _quarters(sums)
        entry, forget, output = map(prim.sigmoid, (entry, forget, output))
        cell = prim.tanh(cell)
        memory = forget * memory + entry * cell
        hidden = prim.tanh(memory) * output
        hiddens[t], memories[t] = hidden, memory
        values[t] = prim.cat((entry, forget, cell, output), 1)
    states = _stacked(hiddens) if count else zeros((0, *hidden.shape), hidden)
    return states, memory, values, memories


def lstm_slopes(
    g: Tensor,
    of_last: Tensor,
    values: Sequence[Tensor],
    memories: Sequence[Tensor],
    first: Tensor,
    weight: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the gates, and of the first hidden state and memory."""
    count = len(values)
    dh, dc = zeros(tuple(first.shape), g), of_last
    found = [dh] * count
    order = list(_times(count, reverse))
    for i in range(count - 1, -1, -1):
        t = order[i]
        entry, forget, cell, output = _quarters(values[t])
        before = memories[order[i - 1]] if i else first
        shown = prim.tanh(memories[t])
        dh = dh + _at(g, t)
        dc = dc + dh * output * (1.0 - shown * shown)
        slopes = (
            dc * cell * (entry * (1.0 - entry)),
            dc * before * (forget * (1.0 - forget)),
            dc * entry * (1.0 - cell * cell),
            dh * shown * (output * (1.0 - output)),
        )
        found[t] = prim.cat(slopes, 1)
        dc = dc * forget
        dh = prim.matmul(found[t], weight)
    if not count:
        return zeros((0, first.shape[0], 4 * first.shape[1]), g), dh, dc
    return _stacked(found), dh, dc


def lstm_grad(grads: list[Tensor | None], n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of gates, states and weight, from those of the hidden states and the last memory:
    the fused row, unless it is differentiated too."""
    (reverse,) = n.attrs
    hidden, memory, weight, out = n.input(1), n.input(2), n.input(3), n.output()
    g = zeros(tuple(out.shape), out) if grads[0] is None else grads[0]
    of_last = zeros(tuple(memory.shape), out) if grads[1] is None else grads[1]
    if is_grad_enabled():
        out, _, values, memories = lstm_steps(n.input(0), hidden, memory, weight, reverse)
        gates, dh, dc = lstm_slopes(g, of_last, values, memories, memory, weight, reverse)
    else:
        gates, dh, dc = prim.lstm_backward(g, of_last, n.third(), memory, weight, reverse)
    count, batch, width = gates.shape
    of_weight = None
    if needed[3] and count:
        first = prim.reshape(hidden, (1, *hidden.shape))
        kept = prim.slice(out, 0, 1, count) if reverse else prim.slice(out, 0, 0, count - 1)
        before = prim.cat((kept, first) if reverse else (first, kept), 0)
        rows = prim.reshape(gates, (count * batch, width))
        of_weight = prim.matmul(transposed(rows), prim.reshape(before, (count * batch, width // 4)))
    elif needed[3]:
        of_weight = zeros(n.shape(3), g)
    return [gates, dh, dc, of_weight]


register_rule("lstm", lstm_grad, ((0, 1, 2, 3, OUT, THIRD),) * 4)
