"""Gradient rules of contractions, pooling and convolution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp
from tinyt.autograd.rules.common import SAME, SECOND, as_column, as_row, blank, rule
from tinyt.decompositions.common import transposed
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def matmul_left(g: Tensor, n: Node) -> Tensor:
    """Gradient of a in a @ b, for every mix of vectors and (batched) matrices."""
    b = n.input(1)
    vector_a, vector_b = len(n.shape(0)) == 1, b.dim() == 1
    if vector_a and vector_b:
        return g * b
    if vector_b:
        return as_column(g) * b
    if vector_a:
        out = prim.matmul(b, as_column(g))
        return prim.reshape(out, tuple(out.shape[:-1]))
    return prim.matmul(g, transposed(b))


def matmul_right(g: Tensor, n: Node) -> Tensor:
    """Gradient of b in a @ b, for every mix of vectors and (batched) matrices."""
    a = n.input(0)
    vector_a, vector_b = a.dim() == 1, len(n.shape(1)) == 1
    if vector_a and vector_b:
        return g * a
    if vector_b:
        out = prim.matmul(transposed(a), as_column(g))
        return prim.reshape(out, tuple(out.shape[:-1]))
    if vector_a:
        return as_column(a) * as_row(g)
    return prim.matmul(transposed(a), g)


def max_pool_grad(g: Tensor, n: Node) -> Tensor:
    """Adds each window's gradient to the element it chose."""
    shape = n.shape(0)
    lead = shape[:2]
    flat = (*lead, math.prod(g.shape[2:]))
    index = prim.reshape(n.second(), flat)
    planes = blank((*lead, math.prod(shape[2:])), g)
    return prim.reshape(prim.scatter_add(planes, index, prim.reshape(g, flat), 2), shape)


def resample_grad(g: Tensor, n: Node) -> Tensor:
    """The matrices of the other direction."""
    _, taps, index, transposed = n.attrs
    return prim.resample(g, n.input(1), n.shape(0)[2:], taps, index, not transposed)


FACTORS = (
    (compiled_vjp("matmul_left", matmul_left), 1),
    (compiled_vjp("matmul_right", matmul_right), 0),
)
rule("matmul", *FACTORS)
rule("matmul_add", *FACTORS, (SAME,))
rule("linear", (compiled_vjp("linear_input"), 1), (compiled_vjp("linear_weight"), 0), (SAME,))
rule(
    "conv",
    (lambda g, n: prim.conv_backward_input(g, n.input(1), n.shape(0), *n.attrs), 1),
    (lambda g, n: prim.conv_backward_weight(g, n.input(0), n.shape(1), *n.attrs), 0),
)
# Both backward forms are linear in each operand; their rules are the other two forms.
rule(
    "conv_backward_input",
    (lambda g, n: prim.conv(g, n.input(1), *n.attrs[1:]), 1),
    (lambda g, n: prim.conv_backward_weight(n.input(0), g, n.shape(1), *n.attrs[1:]), 0),
)
rule(
    "conv_backward_weight",
    (lambda g, n: prim.conv(n.input(1), g, *n.attrs[1:]), 1),
    (lambda g, n: prim.conv_backward_input(n.input(0), g, n.shape(1), *n.attrs[1:]), 0),
)
rule("max_pool", (max_pool_grad, SECOND))
rule("resample", (resample_grad, 1), None)
