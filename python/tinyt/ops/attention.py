"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.ops.arrange import tril
from tinyt.ops.dropout import dropout
from tinyt.ops.shape import transpose
from tinyt.tensor import Tensor, prim


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> None:
    op = "scaled_dot_product_attention"
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ShapeError(
            f"{op}: operands must have at least 2 dimensions, got {tuple(query.shape)}, "
            f"{tuple(key.shape)} and {tuple(value.shape)}"
        )
    if not query.dtype is key.dtype is value.dtype:
        raise DTypeError(
            f"{op}: query, key and value must have one dtype, got {query.dtype.name}, "
            f"{key.dtype.name} and {value.dtype.name}"
        )
    if mask is None:
        return
    if is_causal:
        raise RuntimeError(f"{op}: explicit attn_mask should not be set when is_causal=True")
    if mask.dtype.name not in ("bool", "float32", query.dtype.name):
        raise DTypeError(
            f"{op}: attn_mask must be bool, float32 or of the query's dtype, got {mask.dtype.name} "
            f"for {query.dtype.name}"
        )


def _split_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query heads in groups that share a key and value head, which broadcasts over the group."""
    heads = [x.shape[-3] if x.dim() > 2 else 0 for x in (query, key, value)]
    if min(heads) < 1 or heads[0] % heads[1] or heads[0] % heads[2]:
        raise ShapeError(
            "scaled_dot_product_attention: the numbers of key and value heads must divide the "
            f"query's, got shapes {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if heads[1] != heads[2]:
        few = heads[1] * heads[2] // math.gcd(heads[1], heads[2])
        key, value = (_repeat_heads(x, few // n) for x, n in ((key, heads[1]), (value, heads[2])))
        heads[1] = few
    shape = tuple(query.shape)
    grouped = (*shape[:-3], heads[1], heads[0] // heads[1], *shape[-2:])
    one = [(*x.shape[:-2], 1, *x.shape[-2:]) for x in (key, value)]
    return (
        prim.reshape(query, grouped),
        prim.reshape(key, one[0]),
        prim.reshape(value, one[1]),
    )


def _repeat_heads(x: Tensor, times: int) -> Tensor:
    """Every head ``times`` times in a row."""
    shape = tuple(x.shape)
    wide = prim.reshape(x, (*shape[:-2], 1, *shape[-2:]))
    many = prim.expand(wide, (*shape[:-2], times, *shape[-2:]))
    return prim.reshape(many, (*shape[:-3], shape[-3] * times, *shape[-2:]))


def _weights(scores: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
    """softmax(scores + mask) over the keys; zeros for a query that may attend to none."""
    if is_causal:
        keep = tril(prim.fill(tuple(scores.shape[-2:]), 0, 1.0, 1))
        return prim.softmax(prim.where(keep, scores, -math.inf), -1)
    if mask is None:
        return prim.softmax(scores, -1)
    if mask.dtype.name == "bool":
        scores = prim.where(mask, scores, -math.inf)
    else:
        scores = scores + (mask if mask.dtype is scores.dtype else prim.cast(mask, scores.dtype))
    if scores.numel() == 0:
        return scores
    none = prim.eq(prim.amax(scores, (-1,), True), -math.inf)
    # Such rows are taken out before the softmax as well: its gradient there would be NaN.
    return prim.where(none, 0.0, prim.softmax(prim.where(none, 0.0, scores), -1))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(q k^T * scale + mask) v (Vaswani et al., 2017): [.., L, E], [.., S, E], [.., S, D].

    ``attn_mask``: bool (false: not attended) or added to the scores; it broadcasts to [.., L, S].
    ``is_causal``: query i sees keys 0..i. ``scale`` defaults to 1 / sqrt(E). A query that sees no
    key gives zeros. ``enable_gqa``: groups of query heads share key and value heads (Ainslie et
    al., 2023), without copies of those. ``dropout_p`` drops weights, in evaluation too.
    """
    _check(query, key, value, attn_mask, is_causal)
    heads = tuple(query.shape[:-1])
    if enable_gqa:
        query, key, value = _split_heads(query, key, value)
    factor = 1.0 / math.sqrt(max(query.shape[-1], 1)) if scale is None else scale
    scores = prim.matmul(prim.mul(query, factor), transpose(key, -2, -1))
    grouped = tuple(scores.shape)
    if enable_gqa:
        scores = prim.reshape(scores, (*grouped[:-4], heads[-2], *grouped[-2:]))
    weights = dropout(_weights(scores, attn_mask, is_causal), dropout_p)
    if enable_gqa:
        weights = prim.reshape(weights, (*weights.shape[:-3], *grouped[-4:]))
    out = prim.matmul(weights, value)
    if enable_gqa:
        out = prim.reshape(out, (*out.shape[:-4], heads[-2], *out.shape[-2:]))
    return out


EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {"scaled_dot_product_attention": scaled_dot_product_attention}
