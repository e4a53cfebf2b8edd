"""Gradient rules of the fused rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.autograd.rules.common import OUT, rule
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._tensor import Node
    from tinyt.tensor import Tensor


def softmax_grad(g: Tensor, n: Node) -> Tensor:
    """s * (g - sum(g * s))."""
    s = n.output()
    return s * (g - prim.sum(g * s, n.attrs[0], True))


rule("softmax", (softmax_grad, OUT))
rule(
    "log_softmax",
    (lambda g, n: g - prim.exp(n.output()) * prim.sum(g, n.attrs[0], True), OUT),
)
