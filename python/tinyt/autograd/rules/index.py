"""Gradient rules of indexing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled
from tinyt.autograd.rules.common import OUT, blank, rule, scatter_back, wide_rule
from tinyt.decompositions.common import zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def source_grad(g: Tensor, n: Node) -> Tensor:
    """Gradient of a scatter's source, whose part beyond the index was not used."""
    return padded(prim.gather(g, n.input(1), n.attrs[0]), n.shape(2))


def padded(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """x with zeros behind it in every dimension, up to a shape."""
    pads: list[int] = []
    for have, want in zip(x.shape, shape, strict=True):
        pads += [0, want - have]
    return prim.pad(x, pads) if any(pads) else x


PROD = 0


def picked(x: Tensor, n: Node) -> Tensor:
    """What the index of a scatter reads in its output."""
    return prim.gather(x, n.input(1), n.attrs[0])


def used(n: Node) -> Tensor:
    """The part of a scatter's source that has an index."""
    src, shape = n.input(2), n.shape(1)
    for d, size in enumerate(shape):
        src = prim.slice(src, d, 0, size) if src.shape[d] != size else src
    return src


def added(x: Tensor, n: Node) -> Tensor:
    """x, which has the index's shape, summed where the index says."""
    return prim.scatter_add(blank(n.shape(0), x), n.input(1), x, n.attrs[0])


def zeros_and_rest(n: Node) -> tuple[Tensor, Tensor]:
    """Of every product: how many of its factors are zero, and the product of the others."""
    dim, reduce = n.attrs
    x, src, index = n.input(0), used(n), n.input(1)
    count = prim.add(prim.cast(x == 0.0, x.dtype), added(prim.cast(src == 0.0, x.dtype), n))
    rest = prim.scatter_reduce(
        prim.where(x == 0.0, 1.0, x), index, prim.where(src == 0.0, 1.0, src), dim, reduce
    )
    return count, rest


def factor_grad(g: Tensor, value: Tensor, count: Tensor, rest: Tensor) -> Tensor:
    """g times the product of the factors other than ``value``; exact where factors are zero."""
    is_zero = value == 0.0
    others = prim.where(is_zero, rest, rest / prim.where(is_zero, 1.0, value))
    alone = prim.eq(count, prim.cast(is_zero, value.dtype))
    return g * prim.where(alone, others, 0.0)


def others_product(n: Node) -> Tensor:
    """For each used element of the source the product of the other factors, without division.

    Can be differentiated again where factors are zero. The elements are sorted by index; products
    of those before and behind each in its run double their reach with every step (O(n log n)).
    """
    dim, _ = n.attrs
    if not n.shape(1):
        return prim.reshape(n.input(0), ())
    run, order = prim.sort(n.input(1), dim, False)
    factors = prim.gather(used(n), order, dim)
    before = run_product(factors, run, dim)
    behind = run_product(prim.flip(factors, (dim,)), prim.flip(run, (dim,)), dim)
    others = before * prim.flip(behind, (dim,))
    return prim.scatter(blank(n.shape(1), others), order, others, dim) * picked(n.input(0), n)


def run_product(x: Tensor, run: Tensor, dim: int) -> Tensor:
    """For each element the product of those before it in its run of equal numbers."""
    size = x.shape[dim]
    out, step = x, 0
    while step < size:
        reach = max(step, 1)
        earlier = shifted(out, dim, reach, 1.0)
        same = prim.eq(shifted(run, dim, reach, -1.0), run)
        earlier = prim.where(same, earlier, 1.0)
        out = earlier if step == 0 else out * earlier
        step = 2 * step or 1
    return out


def shifted(x: Tensor, dim: int, by: int, blank_value: float) -> Tensor:
    """x moved back along a dimension, with a value in front."""
    kept = prim.slice(x, dim, 0, max(x.shape[dim] - by, 0))
    pads = [0] * (2 * dim) + [min(by, x.shape[dim]), 0] + [0] * (2 * (x.dim() - dim - 1))
    return prim.pad(kept, pads, blank_value)


def shares(n: Node) -> Tensor:
    """How many of the values behind each extremum attain it."""
    src_hit = prim.cast(used(n) == picked(n.output(), n), n.output_dtype)
    return prim.add(prim.cast(n.input(0) == n.output(), n.output_dtype), added(src_hit, n))


def reduce_input(g: Tensor, n: Node) -> Tensor:
    """Of a product: the other factors; of an extremum: an even share where attained."""
    if n.attrs[1] == PROD:
        if is_grad_enabled():
            one = prim.fill(n.shape(0), g.dtype, 1.0, 0)
            return g * prim.scatter_reduce(one, n.input(1), n.input(2), *n.attrs)
        return factor_grad(g, n.input(0), *zeros_and_rest(n))
    return prim.where(n.input(0) == n.output(), g / shares(n), 0.0)


def reduce_source(g: Tensor, n: Node) -> Tensor:
    """The same for each element of the source; zero for those without an index."""
    if n.attrs[1] == PROD and is_grad_enabled():
        part = picked(g, n) * others_product(n)
    elif n.attrs[1] == PROD:
        count, rest = zeros_and_rest(n)
        part = factor_grad(picked(g, n), used(n), picked(count, n), picked(rest, n))
    else:
        hit = used(n) == picked(n.output(), n)
        part = prim.where(hit, picked(g / shares(n), n), 0.0)
    return padded(part, n.shape(2))


def selected_back(g: Tensor, n: Node) -> Tensor:
    """Rows back where the mask is true, zeros elsewhere."""
    mask, shape = n.input(1), n.shape(0)
    count, row = mask.numel(), shape[mask.dim() :]
    places = prim.nonzero(prim.reshape(mask, (count,)))
    index = prim.expand(prim.reshape(places, (g.shape[0], *(1 for _ in row))), tuple(g.shape))
    return prim.reshape(prim.scatter(blank((count, *row), g), index, g, 0), shape)


rule("masked_select", (selected_back, 1), None)
rule("gather", (lambda g, n: scatter_back(g, n, n.input(1), n.attrs[0]), 1), None)
rule(
    "scatter",
    (lambda g, n: prim.scatter(g, n.input(1), zeros(n.shape(1), g), n.attrs[0]), 1),
    None,
    (source_grad, 1),
)
rule("scatter_add", (lambda g, n: g,), None, (source_grad, 1))
wide_rule(
    "scatter_reduce",
    (reduce_input, 0, 1, 2, OUT),
    None,
    (reduce_source, 0, 1, 2, OUT),
)
