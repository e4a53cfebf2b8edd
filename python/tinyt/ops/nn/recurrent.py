"""Long short-term memory in primitives: what its fused rows compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyt.autograd.rules.recurrent import lstm_slopes, lstm_steps
from tinyt.tensor import Tensor, prim


def _saved(values: Sequence[Tensor], memories: Sequence[Tensor], like: Tensor) -> Tensor:
    """A row for each time: the gates' values, then the memory."""
    if not values:
        return prim.fill((0, 5 * like.numel()), like.dtype, 0.0, 0)
    parts = zip(values, memories, strict=True)
    return prim.cat(tuple(prim.reshape(x, (1, x.numel())) for pair in parts for x in pair), 1)


def decompose_lstm(
    gates: Tensor, hidden: Tensor, memory: Tensor, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What the fused lstm computes, in primitives."""
    out, last, values, memories = lstm_steps(gates, hidden, memory, weight, reverse)
    saved = _saved(values, memories, hidden)
    return out, last, prim.reshape(saved, (gates.shape[0], 5 * hidden.numel()))


def decompose_lstm_backward(
    g: Tensor, of_last: Tensor, saved: Tensor, memory: Tensor, weight: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """What the fused lstm_backward computes, in primitives."""
    batch, width = memory.shape
    values, memories = [], []
    for t in range(saved.shape[0]):
        row = prim.slice(saved, 0, t, t + 1)
        cut = 4 * memory.numel()
        values.append(prim.reshape(prim.slice(row, 1, 0, cut), (batch, 4 * width)))
        memories.append(prim.reshape(prim.slice(row, 1, cut, row.shape[1]), (batch, width)))
    return lstm_slopes(g, of_last, values, memories, memory, weight, reverse)


# This family's part of `tinyt.ops.decompose`.
DECOMPOSE: dict[str, Callable[..., Any]] = {
    "lstm": decompose_lstm,
    "lstm_backward": decompose_lstm_backward,
}
