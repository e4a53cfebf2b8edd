"""Long short-term memory, one time after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import transposed, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
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


def _saved(values: Sequence[Tensor], memories: Sequence[Tensor], like: Tensor) -> Tensor:
    """A row for each time: the gates' values, then the memory."""
    if not values:
        return zeros((0, 5 * like.numel()), like)
    parts = zip(values, memories, strict=True)
    return prim.cat(tuple(prim.reshape(x, (1, x.numel())) for pair in parts for x in pair), 1)


def lstm(
    gates: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The hidden states, the last memory, and what the gradient needs of each time."""
    out, last, values, memories = lstm_steps(gates, hidden, memory, weight, reverse)
    saved = _saved(values, memories, hidden)
    return out, last, prim.reshape(saved, (gates.shape[0], 5 * hidden.numel()))


def lstm_backward(
    g: Tensor, of_last: Tensor, saved: Tensor, memory: Tensor, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the gates, and of the first hidden state and memory."""
    batch, width = memory.shape
    values, memories = [], []
    for t in range(saved.shape[0]):
        row = prim.slice(saved, 0, t, t + 1)
        cut = 4 * memory.numel()
        values.append(prim.reshape(prim.slice(row, 1, 0, cut), (batch, 4 * width)))
        memories.append(prim.reshape(prim.slice(row, 1, cut, row.shape[1]), (batch, width)))
    return lstm_slopes(g, of_last, values, memories, memory, weight, reverse)


ROWS: dict[str, Callable[..., Any]] = {
    "lstm": lstm,
    "lstm_backward": lstm_backward,
}
