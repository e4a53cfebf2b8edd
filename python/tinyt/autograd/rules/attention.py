"""Attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, SECOND
from tinyt.decompositions.attention import attention_slopes
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def attention_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of query, key and value: the fused row, unless it is differentiated too."""
    query, key, value, mask = (n.input(i) for i in range(4))
    causal, scale = n.attrs
    if is_grad_enabled():
        return [*attention_slopes(g, query, key, value, mask, causal, scale), None]
    saved = n.output(), n.second()
    return [*prim.attention_backward(g, query, key, value, mask, *saved, causal, scale), None]


register_rule("attention", attention_grad, ((0, 1, 2, 3, OUT, SECOND),) * 3 + ((),))
