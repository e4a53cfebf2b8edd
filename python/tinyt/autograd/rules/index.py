"""Gradient rules of scans, order and indexing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.autograd.rules.common import SECOND, flipped, rule, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._tensor import Node
    from tinyt.tensor import Tensor


def cumsum_grad(g: Tensor, n: Node) -> Tensor:
    """Every output at or after an element contains it."""
    (dim,) = n.attrs
    if g.dim() == 0:
        return g
    return flipped(prim.cumsum(flipped(g, dim), dim), dim)


def source_grad(g: Tensor, n: Node) -> Tensor:
    """Gradient of a scatter's source, whose part beyond the index was not used."""
    picked = prim.gather(g, n.input(1), n.attrs[0])
    shape = n.shape(2)
    pads: list[int] = []
    for have, want in zip(picked.shape, shape, strict=True):
        pads += [0, want - have]
    return prim.pad(picked, pads) if any(pads) else picked


def scatter_back(g: Tensor, n: Node, index: Tensor, dim: int) -> Tensor:
    """Adds gradients into zeros of the input's shape."""
    return prim.scatter_add(zeros(n.shape(0), g), index, g, dim)


rule("cumsum", (cumsum_grad,))
rule("sort", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[0]), SECOND))
rule("gather", (lambda g, n: scatter_back(g, n, n.input(1), n.attrs[0]), 1), None)
rule(
    "scatter",
    (lambda g, n: prim.scatter(g, n.input(1), zeros(n.shape(1), g), n.attrs[0]), 1),
    None,
    (source_grad, 1),
)
rule("scatter_add", (lambda g, n: g,), None, (source_grad, 1))
