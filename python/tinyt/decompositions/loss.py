"""Cross-entropy of logits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor


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


def softmax_nll(
    x: Tensor, target: Tensor, weight: Tensor, ignored: int, reduction: int
) -> tuple[Tensor, Tensor]:
    """The loss; then maximum and log-sum of each row that counts, and the sum of the weights."""
    wide, dim = widen(x), 1 if x.dim() > 1 else 0
    part = weight if weight.dim() else None
    index, weights = class_shares(wide, target, part, ignored)
    top = prim.amax(wide, (dim,), True)
    log_sum = prim.log(prim.sum(prim.exp(wide - top), (dim,), True))
    used = prim.reshape(prim.ne(target, ignored), index.shape)
    value = prim.gather(wide, index, dim)
    losses = prim.where(used, log_sum - (value - top), 0.0) * weights
    total = prim.sum(weights, (), False)
    if reduction:
        loss = prim.sum(losses, (), False)
        loss = loss / total if reduction == 1 else loss
    else:
        loss = prim.reshape(losses, target.shape)
    rows = [prim.reshape(prim.where(used, part, 0.0), (-1, 1)) for part in (top, log_sum)]
    flat = prim.reshape(prim.cat(tuple(rows), 1), (-1,))
    stats = prim.cat((flat, prim.cast(prim.reshape(total, (1,)), flat.dtype)), 0)
    return prim.cast(loss, x.dtype), stats


def softmax_nll_input(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor,
    stats: Tensor,
    ignored: int,
    reduction: int,
) -> Tensor:
    """The gradient of the logits; it needs no statistics."""
    part = weight if weight.dim() else None
    return cross_entropy_slopes(g, x, target, part, ignored, reduction)


ROWS: dict[str, Callable[..., Any]] = {
    "softmax_nll": softmax_nll,
    "softmax_nll_input": softmax_nll_input,
}
