"""Attention of grouped heads. A 0-d mask is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import transposed, widen
from tinyt.tensor import prim

if TYPE_CHECKING:
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


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    """The result, and the log-sum of the scores of each query."""
    q, k, v = (with_groups(widen(x), key.shape[1]) for x in (query, key, value))
    scores = attention_scores(q, k, mask, causal, scale)
    shape = (*query.shape[:-1], value.shape[-1])
    out = prim.reshape(prim.matmul(attention_weights(scores), v), shape)
    if scores.numel():
        top = prim.amax(scores, (-1,), True)
        base = prim.where(prim.eq(top, -math.inf), 0.0, top)
        sums = top + prim.log(prim.sum(prim.exp(scores - base), (-1,), True))
    else:
        sums = prim.fill((*query.shape[:-1], 1), q.dtype, -math.inf, 0)
    return prim.cast(out, query.dtype), prim.reshape(sums, query.shape[:-1])


def attention_backward(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    output: Tensor,
    sums: Tensor,
    causal: bool,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value; they need no saved output."""
    return attention_slopes(g, query, key, value, mask, causal, scale)


ROWS: dict[str, Callable[..., Any]] = {
    "attention": attention,
    "attention_backward": attention_backward,
}
