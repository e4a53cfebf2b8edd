"""Gradient rules of conversions and movement."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt._autograd import compiled_vjp, register_rule
from tinyt.autograd.rules.common import SAME, blank, contiguous_strides, rule
from tinyt.decompositions.common import zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def as_strided_grad(g: Tensor, n: Node) -> Tensor:
    """Adds every element's gradient where it came from; elements may repeat."""
    size, stride, offset = n.attrs
    shape = n.shape(0)
    count = math.prod(shape)
    index = prim.as_strided(prim.iota(count, 5, 0.0, 0.0, 0, 1), size, stride, offset)
    total = math.prod(size)
    flat = prim.scatter_add(
        blank((count,), g), prim.reshape(index, (total,)), prim.reshape(g, (total,)), 0
    )
    return prim.reshape(flat, shape)


def update_base(g: Tensor, n: Node) -> Tensor:
    """The overwritten region of the base has no influence."""
    size, stride, offset = n.attrs
    return prim.update(g, zeros(size, g), size, stride, offset)


def slice_grad(g: Tensor, n: Node) -> Tensor:
    """Puts the gradient back where the slice lay."""
    dim, start, end, step = n.attrs
    shape = n.shape(0)
    if step == 1:
        pads = [0] * (2 * len(shape))
        pads[2 * dim : 2 * dim + 2] = [start, shape[dim] - end]
        return prim.pad(g, pads)
    strides = list(contiguous_strides(shape))
    offset = start * strides[dim]
    if step < 2**40:  # the steps of memory: a longer one was not taken
        strides[dim] *= step
    return prim.update(blank(shape, g), g, tuple(g.shape), strides, offset if g.numel() else 0)


def cat_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Cuts the gradient into the pieces that were joined."""
    (dim,) = n.attrs
    pieces: list[Tensor | None] = []
    at = 0
    for i in range(len(n.edges)):
        shape = n.shape(i)
        if shape == (0,) and g.dim() != 1:
            pieces.append(zeros(shape, g) if needed[i] else None)
            continue
        end = at + shape[dim]
        piece = prim.slice(g, dim, at, end) if needed[i] else None
        pieces.append(None if piece is None else prim.cast(piece, n.dtype(i)))
        at = end
    return pieces


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes ``order``."""
    back = [0] * len(order)
    for i, d in enumerate(order):
        back[d] = i
    return tuple(back)


rule("cast", (SAME,))
# The second input is what a write replaced (`overwriting`).
rule("to_device", (lambda g, n: prim.to_device(g, n.device_code(0)),))
rule("copy", (SAME,), (lambda g, n: zeros(n.shape(1), g),))
rule("as_strided", (as_strided_grad,))
rule("reshape", (compiled_vjp("reshape"),))
rule("permute", (compiled_vjp("permute"),))
rule("expand", (SAME,))
rule("slice", (slice_grad,))
rule("flip", (lambda g, n: prim.flip(g, n.attrs[0]),))
rule("pad", (lambda g, n: prim.pad(g, [-p for p in n.attrs[0]]),))


REFLECT, REPLICATE, CIRCULAR = range(3)


def border_part(g: Tensor, d: int, first: int, count: int, n: int, mode: int) -> Tensor:
    """What the border [first, first + count) of dimension d adds to the n elements it came from."""
    part = prim.slice(g, d, first, first + count)
    if mode == REPLICATE:
        part = prim.sum(part, (d,), True)
    elif mode == REFLECT:
        part = prim.flip(part, (d,))
    edge = int(mode == REFLECT)  # which is not repeated
    rest = n - part.shape[d] - edge
    start = edge if (first == 0) != (mode == CIRCULAR) else rest
    pads = [0] * (2 * g.dim())
    pads[2 * d : 2 * d + 2] = start, edge + rest - start
    return prim.pad(part, pads)


def border_back(g: Tensor, n: Node) -> Tensor:
    """Dimension by dimension, first to last: the interior, and what its borders were made from."""
    pads, mode = n.attrs
    for d, size in enumerate(n.shape(0)):
        before, after = pads[2 * d : 2 * d + 2]
        inner = prim.slice(g, d, before, before + size)
        if before:
            inner = inner + border_part(g, d, 0, before, size, mode)
        if after:
            inner = inner + border_part(g, d, before + size, after, size, mode)
        g = inner
    return g


rule("pad_border", (border_back,))
register_rule("cat", cat_grad, None)
rule("update", (update_base,), (lambda g, n: prim.as_strided(prim.copy(g), *n.attrs),))
