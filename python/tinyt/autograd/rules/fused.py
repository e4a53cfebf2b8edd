"""Gradient rules of the fused rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, SECOND, THIRD, rule
from tinyt.decompositions.common import mean_over, widen
from tinyt.decompositions.loss import cross_entropy_slopes
from tinyt.decompositions.norm import (
    log_softmax_slopes,
    norm_input,
    softmax_slopes,
    standardised_channels,
)
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def softmax_grad(g: Tensor, n: Node) -> Tensor:
    """The fused row, unless it is differentiated too."""
    return (softmax_slopes if is_grad_enabled() else prim.softmax_backward)(g, n.output(), *n.attrs)


def log_softmax_grad(g: Tensor, n: Node) -> Tensor:
    """The fused row, unless it is differentiated too."""
    slopes = log_softmax_slopes if is_grad_enabled() else prim.log_softmax_backward
    return slopes(g, n.output(), *n.attrs)


rule("softmax", (softmax_grad, OUT))
rule("log_softmax", (log_softmax_grad, OUT))


# ---- cross_entropy


def softmax_nll_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradient of the logits: the fused row, unless it is differentiated too."""
    x, target, weight = n.input(0), n.input(1), n.input(2)
    if is_grad_enabled():
        part = weight if n.shape(2) else None
        return [cross_entropy_slopes(g, x, target, part, *n.attrs), None, None]
    return [prim.softmax_nll_input(g, x, target, weight, n.second(), *n.attrs), None, None]


register_rule("softmax_nll", softmax_nll_grad, ((0, 1, 2, SECOND), (), ()))


# ---- layer_norm: y = h w + b with h = (x - mean) scale


def _recorded(
    g: Tensor,
    n: Node,
    needed: tuple[bool, ...],
    axes: tuple[int, ...],
    wide: tuple[int, ...],
    center: bool,
    eps: float,
    view: tuple[int, ...] | None = None,
) -> list[Tensor | None]:
    """The gradients in operations on the inputs, which can be differentiated again.

    ``axes`` of the input, seen in the shape ``view``, are normalised together; ``wide`` is the
    parameters' shape against that.
    """
    shape = view or n.shape(0)
    g = prim.reshape(widen(g), shape)
    found: list[Tensor | None] = [None, None, None]
    h: Tensor | None = None
    if needed[0] or needed[1]:  # the bias alone saves no input
        x = prim.reshape(widen(n.input(0)), shape)
        shifted = x - mean_over(x, axes) if center else x
        scale = prim.rsqrt(mean_over(prim.square(shifted), axes) + eps)
        h = shifted * scale
        if needed[0]:
            weight = prim.reshape(widen(n.input(1)), wide) if n.shape(1) else None
            found[0] = prim.reshape(norm_input(g, h, scale, weight, axes, center), n.shape(0))
    return _with_parameters(found, g, h, n, needed, wide)


def _with_parameters(
    found: list[Tensor | None],
    g: Tensor,
    h: Tensor | None,
    n: Node,
    needed: tuple[bool, ...],
    wide: tuple[int, ...],
) -> list[Tensor | None]:
    """Adds the gradients of weight and bias, from those of the output and h."""
    summed = tuple(d for d in range(g.dim()) if wide[d] == 1 and g.shape[d] != 1)
    for i, values in ((1, None if h is None else g * h), (2, g)):
        if values is not None and needed[i]:
            total = prim.sum(values, summed, True) if summed else values
            found[i] = prim.reshape(total, n.shape(i))
    return [None if f is None else prim.cast(f, n.dtype(i)) for i, f in enumerate(found)]


def _fused(
    of_input: Tensor, of_weight: Tensor, of_bias: Tensor, n: Node, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients that are needed of those of a fused row; a 0-d parameter is none."""
    found: list[Tensor | None] = [of_input if needed[0] else None, None, None]
    for i, part in ((1, of_weight), (2, of_bias)):
        if needed[i] and n.shape(i):
            found[i] = prim.cast(part, n.dtype(i))
    return found


def layer_norm_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of input, weight and bias: the fused row, unless it is differentiated too."""
    dims, center, eps = n.attrs
    shape = n.shape(0)
    lead = len(shape) - dims
    if is_grad_enabled():
        wide = (1,) * lead + tuple(shape[lead:])
        return _recorded(g, n, needed, tuple(range(lead, len(shape))), wide, center, eps)
    if not (needed[0] or needed[1]):
        return [None, None, prim.sum(g, tuple(range(lead)), False) if lead else g]
    params = needed[1] or needed[2]
    found = prim.layer_norm_backward(
        g, n.input(0), n.second(), n.third(), n.input(1), dims, center, needed[0], params
    )
    return _fused(*found, n, needed)


register_rule("layer_norm", layer_norm_grad, ((0, 1, SECOND, THIRD), (0, 1, SECOND, THIRD), ()))


# ---- normalisation of channels


def group_norm_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of input, weight and bias: the fused row, unless it is differentiated too."""
    groups, eps = n.attrs
    if is_grad_enabled():
        batch, channels, *space = n.shape(0)
        view = (batch, groups, channels // groups, math.prod(space))
        return _recorded(g, n, needed, (2, 3), (1, *view[1:3], 1), True, eps, view)
    found = prim.group_norm_backward(
        g, n.input(0), n.second(), n.third(), n.input(1), groups, needed[0]
    )
    return _fused(*found, n, needed)


register_rule("group_norm", group_norm_grad, ((0, 1, SECOND, THIRD),) * 3)


def batch_norm_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of input, weight and bias: the fused row, unless it is differentiated too.

    Statistics that were given are constants.
    """
    shape = n.shape(0)
    training = not n.shape(3)
    if not is_grad_enabled():
        found = prim.batch_norm_backward(
            g, n.input(0), n.second(), n.third(), n.input(1), training, needed[0]
        )
        return [*_fused(*found, n, needed), None, None]
    wide = tuple(size if d == 1 else 1 for d, size in enumerate(shape))
    if training:
        axes = tuple(d for d in range(len(shape)) if d != 1)
        return [*_recorded(g, n, needed, axes, wide, True, n.attrs[0]), None, None]
    g = widen(g)
    h, scale = standardised_channels(n.input(0), n.second(), n.third())
    factor = scale * prim.reshape(widen(n.input(1)), wide) if n.shape(1) else scale
    return [*_with_parameters([g * factor, None, None], g, h, n, needed, wide), None, None]


register_rule("batch_norm", batch_norm_grad, ((0, 1, SECOND, THIRD),) * 3 + ((), ()))
