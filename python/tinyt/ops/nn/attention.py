"""Scaled dot-product attention."""

from __future__ import annotations

import math
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.decompositions.attention import attention_weights, masked
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.ops.nn.dropout import dropout
from tinyt.ops.shape.reshape import transpose
from tinyt.tensor import Tensor, prim


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> None:
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
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ShapeError(
            f"{op}: query and key must agree in their last size, key and value in the one before, "
            f"got shapes {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if mask is None:
        return
    if mask.dtype.name not in ("bool", "float32", query.dtype.name):
        raise DTypeError(
            f"{op}: attn_mask must be bool, float32 or of the query's dtype, got {mask.dtype.name} "
            f"for {query.dtype.name}"
        )


def _same_groups(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Key and value with one number of heads, which divides the query's."""
    heads = [x.shape[-3] if x.dim() > 2 else 0 for x in (query, key, value)]
    if min(heads) < 1 or heads[0] % heads[1] or heads[0] % heads[2]:
        raise ShapeError(
            "scaled_dot_product_attention: the numbers of key and value heads must divide the "
            f"query's, got shapes {tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if heads[1] == heads[2]:
        return key, value
    few = math.lcm(heads[1], heads[2])
    return _repeat_heads(key, few // heads[1]), _repeat_heads(value, few // heads[2])


def _repeat_heads(x: Tensor, times: int) -> Tensor:
    """Every head ``times`` times in a row."""
    shape = tuple(x.shape)
    wide = prim.reshape(x, (*shape[:-2], 1, *shape[-2:]))
    many = prim.expand(wide, (*shape[:-2], times, *shape[-2:]))
    return prim.reshape(many, (*shape[:-3], shape[-3] * times, *shape[-2:]))


def _composite(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float,
    enable_gqa: bool,
) -> Tensor:
    """With all scores in memory: for weights that are dropped and masks that are learnt."""
    if enable_gqa:
        key, value = _same_groups(query, key, value)
        heads = query.shape[-3]
        key, value = (_repeat_heads(x, heads // x.shape[-3]) for x in (key, value))
    scores = prim.matmul(query * scale, transpose(key, -2, -1))
    weights = dropout(attention_weights(masked(scores, mask, is_causal)), dropout_p)
    return prim.matmul(weights, value)


def _four_dims(x: Tensor, lead: tuple[int, ...], heads: int) -> Tensor:
    """[.., n, m] broadcast to [lead, heads, n, m], with ``lead`` as one dimension."""
    shape, last = (*lead, heads, *x.shape[-2:]), tuple(x.shape[-2:])
    wide = x if tuple(x.shape) == shape else prim.expand(x, shape)
    return wide if len(lead) == 1 else prim.reshape(wide, (math.prod(lead), heads, *last))


def _broadcast(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool
) -> tuple[list[Tensor], tuple[int, ...]]:
    """The operands in four dimensions, and the output's shape without the last two."""
    operands = [query, key, value]
    if mask is not None:
        missing = (1,) * (2 - mask.dim())
        operands.append(prim.reshape(mask, (*missing, *mask.shape)) if missing else mask)
    skipped = 3 if enable_gqa else 2
    try:
        common: tuple[int, ...] = broadcast_shapes(*(tuple(x.shape[:-skipped]) for x in operands))
    except ShapeError as error:
        shapes = ", ".join(str(tuple(x.shape)) for x in operands)
        raise ShapeError(
            f"scaled_dot_product_attention: shapes {shapes} do not broadcast"
        ) from error
    if enable_gqa:
        common = (*common, query.shape[-3])
    lead, heads = common[:-1], common[-1] if common else 1
    four = [
        _four_dims(x, lead, x.shape[-3] if x.dim() > 2 and enable_gqa else heads)
        for x in operands[:3]
    ]
    four += [_four_dims(x, lead, x.shape[-3] if x.dim() > 2 else 1) for x in operands[3:]]
    return four, common


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
    ``is_causal``: query i sees keys 0..i, of those that ``attn_mask`` lets it see. ``scale``
    defaults to 1 / sqrt(E). A query that sees no key gives zeros. ``enable_gqa``: groups of query
    heads share key and value heads (Ainslie et al., 2023), without copies of those. ``dropout_p``
    drops weights, in evaluation too. Memory grows with L + S, except for dropped weights and masks
    that take part in differentiation.
    """
    sizes = query.shape
    alike = len(sizes) == 4 and sizes == key.shape == value.shape  # nothing to check or broadcast
    if not alike or attn_mask is not None:
        _check(query, key, value, attn_mask)
    factor = 1.0 / math.sqrt(max(sizes[-1], 1)) if scale is None else scale
    if dropout_p or (attn_mask is not None and attn_mask.requires_grad):
        options = (dropout_p, is_causal, factor, enable_gqa)
        return _composite(query, key, value, attn_mask, *options)
    mask = prim.fill((), query.dtype, 0.0, 0) if attn_mask is None else attn_mask
    if alike and (attn_mask is None or mask.dim() == 4):
        out: Tensor = prim.attention(query, key, value, mask, is_causal, factor)[0]
        return out
    if enable_gqa:
        key, value = _same_groups(query, key, value)
    four, common = _broadcast(query, key, value, attn_mask, enable_gqa)
    query, key, value, mask = four if len(four) == 4 else (*four, mask)
    out = prim.attention(query, key, value, mask, is_causal, factor)[0]
    return out if len(common) == 2 else prim.reshape(out, (*common, *out.shape[-2:]))


EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {"scaled_dot_product_attention": scaled_dot_product_attention}
