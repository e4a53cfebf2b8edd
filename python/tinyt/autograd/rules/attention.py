"""Attention: its formulas in primitives, and its gradient rule."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tinyt._autograd import is_grad_enabled, register_rule
from tinyt.autograd.rules.common import OUT, SECOND, transposed, widen
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def masked(scores: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """The scores with the mask added; -inf where a query may not attend to a key."""
    if causal:
        rows, columns = (prim.iota(n, 5, 0.0, 0.0, 0, 1) for n in scores.shape[-2:])
        keep = prim.ge(prim.reshape(rows, (rows.numel(), 1)), columns)
        scores = prim.where(keep, scores, -math.inf)
    if mask is None:
        return scores
    if mask.dtype.name == "bool":
        return prim.where(mask, scores, -math.inf)
    return scores + (mask if mask.dtype is scores.dtype else prim.cast(mask, scores.dtype))


def attention_weights(scores: Tensor) -> Tensor:
    """softmax over the keys; zeros for a query that may attend to none."""
    if scores.numel() == 0:
        return scores
    none = prim.eq(prim.amax(scores, (-1,), True), -math.inf)
    # Such rows are taken out before the softmax as well: its gradient there would be NaN.
    return prim.where(none, 0.0, prim.softmax(prim.where(none, 0.0, scores), -1))


def with_groups(x: Tensor, groups: int) -> Tensor:
    """[B, H, ..] as [B, G, H / G, ..]; one head stays one."""
    heads = x.shape[1]
    split = (groups, heads // max(groups, 1)) if heads != 1 else (1, 1)
    return prim.reshape(x, (x.shape[0], *split, *x.shape[2:]))


def attention_scores(
    query: Tensor, key: Tensor, mask: Tensor, causal: bool, scale: float
) -> Tensor:
    """Masked scores [B, G, H / G, L, S] of grouped queries and keys; a 0-d mask is none."""
    scores = prim.matmul(query * scale, transposed(key))
    return masked(scores, with_groups(mask, key.shape[1]) if mask.dim() else None, causal)


def attention_slopes(
    g: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    groups = key.shape[1]
    wide = [with_groups(widen(x), groups) for x in (g, query, key, value)]
    weights = attention_weights(attention_scores(wide[1], wide[2], mask, causal, scale))
    of_weights = prim.matmul(wide[0], transposed(wide[3]))
    slopes = weights * (of_weights - prim.sum(weights * of_weights, (-1,), True))
    of_query = prim.matmul(slopes, wide[2]) * scale
    of_key = prim.sum(prim.matmul(transposed(slopes), wide[1]), (2,), False) * scale
    of_value = prim.sum(prim.matmul(transposed(weights), wide[0]), (2,), False)
    found = (of_query, query), (of_key, key), (of_value, value)
    of_q, of_k, of_v = (prim.cast(prim.reshape(x, of.shape), of.dtype) for x, of in found)
    return of_q, of_k, of_v


def attention_grad(g: Tensor, n: Node, needed: tuple[bool, ...]) -> list[Tensor | None]:
    """Gradients of query, key and value: the fused row, unless it is differentiated too."""
    query, key, value, mask = (n.input(i) for i in range(4))
    causal, scale = n.attrs
    if is_grad_enabled():
        return [*attention_slopes(g, query, key, value, mask, causal, scale), None]
    saved = n.output(), n.second()
    return [*prim.attention_backward(g, query, key, value, mask, *saved, causal, scale), None]


register_rule("attention", attention_grad, ((0, 1, 2, 3, OUT, SECOND),) * 3 + ((),))
