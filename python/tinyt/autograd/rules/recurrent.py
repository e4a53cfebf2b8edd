"""Long short-term memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, THIRD
from tinyt.decompositions.common import transposed, zeros
from tinyt.decompositions.recurrent import lstm_slopes, lstm_steps
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


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
