"""Gradient rules of scans, sorting and selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled
from tinyt.autograd.rules.common import OUT, SECOND, rule, scatter_back, wide_rule
from tinyt.decompositions.common import widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def from_behind(x: Tensor, dim: int) -> Tensor:
    """Running sums from the last element back."""
    return prim.flip(prim.cumsum(prim.flip(x, (dim,)), dim), (dim,))


def cumsum_grad(g: Tensor, n: Node) -> Tensor:
    """Every output at or after an element contains it."""
    (dim,) = n.attrs
    return from_behind(g, dim) if g.dim() else g


def cumprod_grad(g: Tensor, n: Node) -> Tensor:
    """The sum over later outputs of g times the product of the other factors.

    That is g * out / x up to the first zero of a line. For the first zero itself the products are
    those of the line with a one in its place; behind it they all contain a zero.
    """
    (dim,) = n.attrs
    x = n.input(0)
    if x.dim() == 0 or x.shape[dim] == 1:
        return g
    if is_grad_enabled():
        return _cumprod_grad_by_products(g, x, dim)
    is_zero = prim.eq(x, 0.0)
    zeros_so_far = prim.cumsum(is_zero, dim)
    first = prim.logical_and(is_zero, prim.eq(zeros_so_far, 1))
    before = from_behind(g * n.output(), dim) / prim.where(is_zero, 1.0, x)
    at_first = from_behind(g * prim.cumprod(prim.where(first, 1.0, x), dim), dim)
    return prim.where(prim.eq(zeros_so_far, 0), before, prim.where(first, at_first, 0.0))


def _cumprod_grad_by_products(g: Tensor, x: Tensor, dim: int) -> Tensor:
    """The same without division, which can be differentiated again at zeros too (O(n^2)).

    Row i of a line's matrix holds the product of the factors up to j without factor i, for j >= i.
    """
    order = [d for d in range(x.dim()) if d != dim] + [dim]
    back = sorted(range(x.dim()), key=order.__getitem__)
    row = prim.permute(x, order)
    size = row.shape[-1]
    index = prim.iota(size, 5, 0.0, 0.0, 0, 1)
    column = prim.reshape(index, (size, 1))
    wide = prim.reshape(row, (*row.shape[:-1], 1, size))
    others = prim.cumprod(prim.where(prim.eq(column, index), 1.0, wide), row.dim())
    upper = prim.where(prim.ge(index, column), others, 0.0)
    weights = prim.reshape(prim.permute(g, order), tuple(wide.shape))
    return prim.permute(prim.sum(upper * weights, (row.dim(),), False), back)


def logcumsumexp_grad(g: Tensor, n: Node) -> Tensor:
    """The sum over later outputs of g * exp(x - out), positive and negative g apart, in logarithms.

    exp(x - out) alone would be as good, but exp(-out) and exp(x) overflow when taken apart.
    """
    (dim,) = n.attrs
    x, out = n.input(0), n.output()
    if x.dim() == 0:
        return g
    if x.dtype.itemsize == 2:  # the rounding of their result would be a factor
        g, x = widen(g), widen(x)
        out = prim.logcumsumexp(x, dim)

    def part(sign: float) -> Tensor:
        size = g * sign
        positive = prim.gt(size, 0.0)
        logs = prim.log(prim.where(positive, size, 1.0)) - out
        logs = prim.where(positive, logs, float("-inf"))
        behind = prim.logcumsumexp(prim.flip(logs, (dim,)), dim)
        return prim.exp(prim.flip(behind, (dim,)) + x)

    return part(1.0) - part(-1.0)


def one_per_line(g: Tensor, n: Node) -> Tensor:
    """kthvalue (k, dim, keepdim) and median (dim, keepdim, ...): one element of a line gets all."""
    dim, keepdim = n.attrs[1:] if n.op_name == "kthvalue" else n.attrs[:2]
    index = n.second()
    if not keepdim and len(n.shape(0)):
        shape = list(n.shape(0))
        shape[dim] = 1
        g, index = prim.reshape(g, shape), prim.reshape(index, shape)
    return scatter_back(g, n, index, dim)


rule("cumsum", (cumsum_grad,))
wide_rule("cumprod", (cumprod_grad, 0, OUT))
rule("cummax", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[0]), SECOND))
rule("cummin", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[0]), SECOND))
rule("logcumsumexp", (logcumsumexp_grad, 0, OUT))
rule("sort", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[0]), SECOND))
rule("topk", (lambda g, n: scatter_back(g, n, n.second(), n.attrs[1]), SECOND))
rule("kthvalue", (one_per_line, SECOND))
rule("median", (one_per_line, SECOND))
