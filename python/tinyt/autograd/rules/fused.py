"""Gradient rules of the fused rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._tensor import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, SECOND, rule, widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._tensor import Node
    from tinyt.tensor import Tensor


def softmax_slopes(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """y * (g - sum(g * y))."""
    return y * (g - prim.sum(g * y, (dim,), True))


def log_softmax_slopes(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """g - exp(y) * sum(g)."""
    return g - prim.exp(y) * prim.sum(g, (dim,), True)


def softmax_grad(g: Tensor, n: Node) -> Tensor:
    """The fused row, unless it is differentiated too."""
    return (softmax_slopes if is_grad_enabled() else prim.softmax_input)(g, n.output(), *n.attrs)


def log_softmax_grad(g: Tensor, n: Node) -> Tensor:
    """The fused row, unless it is differentiated too."""
    slopes = log_softmax_slopes if is_grad_enabled() else prim.log_softmax_input
    return slopes(g, n.output(), *n.attrs)


rule("softmax", (softmax_grad, OUT))
rule("log_softmax", (log_softmax_grad, OUT))


# ---- cross_entropy


def class_shares(
    x: Tensor, target: Tensor, weight: Tensor | None, ignored: int
) -> tuple[Tensor, Tensor]:
    """Safe indices and the weights of the targets (0 where ignored), with a class dimension of
    size 1."""
    shape = tuple(x.shape)
    dim = 1 if len(shape) > 1 else 0
    used = prim.ne(target, ignored)
    safe = prim.where(used, target, 0)
    flat = prim.reshape(safe, (safe.numel(),))
    of_class = prim.fill((shape[dim],), x.dtype, 1.0, 0) if weight is None else widen(weight)
    weights = prim.where(used, prim.reshape(prim.gather(of_class, flat, 0), used.shape), 0.0)
    kept = (*shape[:dim], 1, *shape[dim + 1 :])
    return prim.reshape(safe, kept), prim.reshape(weights, kept)


def cross_entropy_slopes(
    g: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, ignored: int, reduction: int
) -> Tensor:
    """(softmax(x) - one_hot) times the weight of each target, over all weights for "mean"."""
    wide = widen(x)
    shape = tuple(x.shape)
    dim = 1 if len(shape) > 1 else 0
    index, weights = class_shares(wide, target, weight, ignored)
    upstream = prim.cast(g, wide.dtype)
    if reduction == 0:
        upstream = prim.reshape(upstream, index.shape)
    if reduction == 1:
        upstream = upstream / prim.sum(weights, (), False)
    classes = prim.iota(shape[dim], target.dtype, 0.0, 0.0, 0, 1)
    classes = prim.reshape(classes, (-1, *(1,) * (len(shape) - 1 - dim)))
    wanted = prim.cast(prim.eq(classes, index), wide.dtype)
    surplus = prim.exp(prim.log_softmax(wide, dim)) - wanted
    return prim.cast(surplus * (weights * upstream), x.dtype)


def softmax_nll_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradient of the logits: the fused row, unless it is differentiated too."""
    x, target, weight = n.input(0), n.input(1), n.input(2)
    if is_grad_enabled():
        part = weight if n.shape(2) else None
        return [cross_entropy_slopes(g, x, target, part, *n.attrs), None, None]
    return [prim.softmax_nll_input(g, x, target, weight, n.second(), *n.attrs), None, None]


register_rule("softmax_nll", softmax_nll_grad, ((0, 1, 2, SECOND), (), ()))


# ---- layer_norm: y = h w + b with h = (x - mean) scale


def mean_over(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The mean over some dimensions, kept as size 1."""
    total = prim.sum(x, axes, True)
    return total / (x.numel() / max(total.numel(), 1))


def norm_input(
    g: Tensor, h: Tensor, scale: Tensor, weight: Tensor | None, axes: tuple[int, ...], center: bool
) -> Tensor:
    """Gradient of x: scale (u - mean(u) - h mean(u h)) with u = g w."""
    u = g if weight is None else g * weight
    slope = h * mean_over(u * h, axes)
    return scale * ((u - mean_over(u, axes) - slope) if center else (u - slope))


def _recorded(
    g: Tensor,
    n: Node,
    needed: tuple[bool, ...],
    axes: tuple[int, ...],
    wide: tuple[int, ...],
    center: bool,
    eps: float,
) -> list[Tensor | None]:
    """The gradients in operations on the inputs, which can be differentiated again.

    ``axes`` are normalised together; ``wide`` is the parameters' shape against the input.
    """
    g = widen(g)
    summed = tuple(d for d in range(g.dim()) if wide[d] == 1 and g.shape[d] != 1)
    found: list[Tensor | None] = [None, None, None]
    terms: list[Tensor | None] = [None, None, g]
    if needed[0] or needed[1]:  # the bias alone saves no input
        x = widen(n.input(0))
        shifted = x - mean_over(x, axes) if center else x
        scale = prim.rsqrt(mean_over(prim.square(shifted), axes) + eps)
        h = shifted * scale
        terms[1] = g * h
        if needed[0]:
            weight = prim.reshape(widen(n.input(1)), wide) if n.shape(1) else None
            found[0] = norm_input(g, h, scale, weight, axes, center)
    for i, values in enumerate(terms):
        if values is not None and needed[i]:
            total = prim.sum(values, summed, True) if summed else values
            found[i] = prim.reshape(total, n.shape(i))
    return [None if f is None else prim.cast(f, n.dtype(i)) for i, f in enumerate(found)]


def layer_norm_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of input, weight and bias: the fused rows, unless they are differentiated too."""
    dims, center, eps = n.attrs
    shape = n.shape(0)
    lead = len(shape) - dims
    if is_grad_enabled():
        wide = (1,) * lead + tuple(shape[lead:])
        return _recorded(g, n, needed, tuple(range(lead, len(shape))), wide, center, eps)
    found: list[Tensor | None] = [None, None, None]
    if needed[0]:
        found[0] = prim.layer_norm_input(g, n.input(0), n.second(), n.input(1), dims, center)
    if needed[1]:
        found[1], found[2] = prim.layer_norm_params(g, n.input(0), n.second(), dims)
    elif needed[2]:
        found[2] = prim.sum(g, tuple(range(lead)), False) if lead else g
    return found


register_rule("layer_norm", layer_norm_grad, ((0, 1, SECOND), (0, SECOND), ()))


def batch_norm_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of input, weight and bias: the fused rows, unless they are differentiated too."""
    shape = n.shape(0)
    if is_grad_enabled():
        axes = tuple(d for d in range(len(shape)) if d != 1)
        wide = tuple(shape[d] if d == 1 else 1 for d in range(len(shape)))
        return _recorded(g, n, needed, axes, wide, True, n.attrs[0])
    x, stats = n.input(0), n.second()
    of_weight, of_bias = prim.batch_norm_params(g, x, stats)
    found: list[Tensor | None] = [None, None, None]
    if needed[0]:
        found[0] = prim.batch_norm_input(g, x, stats, n.input(1), of_weight, of_bias)
    for i, total in ((1, of_weight), (2, of_bias)):
        if needed[i]:
            found[i] = prim.cast(total, n.dtype(i))
    return found


register_rule("batch_norm", batch_norm_grad, ((0, 1, SECOND), (0, SECOND), (0, SECOND)))
