"""Gradient rules of reductions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp, is_grad_enabled
from tinyt.autograd.rules.common import OUT, keep_dims, rule, wide_rule
from tinyt.autograd.rules.movement import inverse
from tinyt.decompositions.common import widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def prod_grad(g: Tensor, n: Node) -> Tensor:
    """The product of all other elements; exact also where elements are zero."""
    x = n.input(0)
    dims = n.attrs[0] or tuple(range(x.dim()))
    if all(x.shape[d] == 1 for d in dims):
        return keep_dims(g, n)  # whatever x is
    if is_grad_enabled():
        return keep_dims(g, n) * _others_product(x, dims)
    # p / x would fail at zeros: with one zero only its own place gets the rest's product.
    is_zero = x == 0.0
    rest = prim.prod(prim.where(is_zero, 1.0, x), dims, True)
    count = prim.sum(is_zero, dims, True)
    alone = prim.where(is_zero, rest, 0.0)
    nonzero = rest / prim.where(is_zero, 1.0, x)
    others = prim.where(count == 0, nonzero, prim.where(count == 1, alone, 0.0))
    return keep_dims(g, n) * others


def _others_product(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """For every element the product of the others over ``dims``, from products alone (O(n^2))."""
    keep = tuple(d for d in range(x.dim()) if d not in dims)
    order = keep + tuple(dims)
    moved = prim.permute(x, order)
    lead = tuple(x.shape[d] for d in keep)
    count = math.prod(x.shape[d] for d in dims)
    row = prim.reshape(moved, (*lead, 1, count))
    index = prim.iota(count, 5, 0.0, 0.0, 0, 1)
    diagonal = prim.eq(prim.reshape(index, (count, 1)), index)
    others = prim.prod(prim.where(diagonal, 1.0, row), (len(keep) + 1,), False)
    shape = tuple(x.shape[d] for d in order)
    return prim.permute(prim.reshape(others, shape), inverse(order))


def extremum_grad(g: Tensor, n: Node) -> Tensor:
    """Shared evenly between the elements that attain the extremum, or are what made it a NaN."""
    x = n.input(0)
    hit = x == keep_dims(n.output(), n)
    if x.dtype.is_floating_point:
        hit = prim.logical_or(hit, prim.isnan(x))
    hit = prim.cast(hit, g.dtype)
    count = prim.sum(hit, n.attrs[0], True)
    return hit * (keep_dims(g, n) / count)


def nansum_grad(g: Tensor, n: Node) -> Tensor:
    """Zero for the elements that were left out."""
    return prim.where(prim.isnan(n.input(0)), 0.0, keep_dims(g, n))


def norm_grad(g: Tensor, n: Node) -> Tensor:
    """x / |x| for p = 2, zero at zero; else the signs, for an extremum of the elements there."""
    x, p = widen(n.input(0)), n.attrs[2]
    g = widen(keep_dims(g, n))
    if p == 1:
        return g * prim.sign(x)
    size = widen(keep_dims(n.output(), n))
    if p == 2:
        zero = prim.eq(size, 0.0)
        return x * prim.where(zero, 0.0, g / prim.where(zero, 1.0, size))
    hit = prim.cast(prim.eq(prim.abs(x), size), x.dtype)
    return hit * prim.sign(x) * (g / prim.sum(hit, n.attrs[0], True))


def var_grad(g: Tensor, n: Node) -> Tensor:
    """2 (x - mean) over the degrees of freedom; none: infinite, as in PyTorch.

    Of the root that over twice the root, zero where it is zero.
    """
    x, dims = widen(n.input(0)), n.attrs[0]
    g = widen(keep_dims(g, n))
    if n.attrs[3]:
        size = prim.var(x, dims, True, n.attrs[2], True)
        zero = prim.eq(size, 0.0)
        g = prim.where(zero, 0.0, g / (prim.where(zero, 1.0, size) * 2.0))
    mean = prim.sum(x, dims, True) / float(_count(n))
    freedom = _count(n) - n.attrs[2]
    return g * (x - mean) * (2 / freedom if freedom > 0 else math.inf)


def _count(n: Node) -> int:
    """Elements that one result is made from."""
    dims = n.attrs[0] or range(len(n.shape(0)))
    return math.prod(n.shape(0)[d] for d in dims if n.shape(0))


def logsumexp_grad(g: Tensor, n: Node) -> Tensor:
    """The softmax; zero where every element is -inf. Of halves the result's rounding, which grows
    with its size, would be a factor of it: they take the sum anew."""
    x = widen(n.input(0))
    half = n.input(0).dtype.itemsize == 2
    found = prim.logsumexp(x, n.attrs[0], True) if half else keep_dims(n.output(), n)
    shift = prim.where(prim.eq(found, -math.inf), 0.0, found)
    return widen(keep_dims(g, n)) * prim.exp(x - shift)


rule("var", (var_grad, 0))
rule("logsumexp", (logsumexp_grad, 0, OUT))
rule("nansum", (nansum_grad, 0))
rule("norm", (norm_grad, 0, OUT))
rule("sum", (compiled_vjp("sum"),))
wide_rule("prod", (prod_grad, 0))
rule("amax", (extremum_grad, 0, OUT))
rule("amin", (extremum_grad, 0, OUT))
