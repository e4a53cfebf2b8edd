"""Multi-head attention as a function: projections, heads, masks (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.common import named, to_dtype
from tinyt.ops.linalg import products
from tinyt.ops.linalg.products import public_matmul
from tinyt.ops.nn import attention
from tinyt.ops.nn.dropout import dropout
from tinyt.ops.reduce.reductions import mean
from tinyt.ops.shape.join import cat
from tinyt.ops.shape.pad import pad
from tinyt.ops.shape.reshape import transpose
from tinyt.ops.shape.split import chunk, split
from tinyt.tensor import Tensor, prim

OP = "multi_head_attention_forward"
# As users call them: `autocast` has a policy for each.
linear = named(products.linear)
scaled_dot_product_attention = named(attention.scaled_dot_product_attention)


def _need(mask_name: str, mask: Tensor, allowed: tuple[tuple[int, ...], ...]) -> None:
    if tuple(mask.shape) not in allowed:
        shapes = " or ".join(map(str, allowed))
        raise ShapeError(f"{OP}: {mask_name} must have shape {shapes}, got {tuple(mask.shape)}")


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """A mask that is added: bool ones give -inf where true."""
    if mask.dtype.name != "bool":
        return mask
    zero = prim.fill((), like.dtype, 0.0, 0)
    return prim.where(mask, -math.inf, zero)


def _projected(
    inputs: tuple[Tensor, Tensor, Tensor],
    together: Tensor | None,
    separate: tuple[Tensor | None, Tensor | None, Tensor | None],
    bias: Tensor | None,
) -> list[Tensor]:
    """Query, key and value through their projections: one product for inputs that are the same."""
    query, key, value = inputs
    if together is not None and query is key is value:
        return list(chunk(linear(query, together, bias), 3, -1))
    if together is not None and key is value:
        sizes = [query.shape[-1], 2 * query.shape[-1]]
        first, rest = split(together, sizes)
        of_first, of_rest = (None, None) if bias is None else split(bias, sizes)
        return [linear(query, first, of_first), *chunk(linear(key, rest, of_rest), 2, -1)]
    weights = separate if together is None else chunk(together, 3)
    biases = (None, None, None) if bias is None else chunk(bias, 3)
    found = []
    for x, weight, part in zip(inputs, weights, biases, strict=True):
        if weight is None:
            raise AssertionError(f"{OP}: a projection's weight is None")
        found.append(linear(x, weight, part))
    return found


def _heads(x: Tensor, count: int, batch_first: bool) -> Tensor:
    """[time, batch, features], or batch first, as [batch, heads, time, features of a head]."""
    first, second, features = x.shape
    split = prim.reshape(x, (first, second, count, features // count))
    return prim.permute(split, (0, 2, 1, 3) if batch_first else (1, 2, 0, 3))


def _replaced(projected: Tensor, static: Tensor | None) -> Tensor:
    """A static key or value [batch * heads, time, features] in the place of the projected one."""
    if static is None:
        return projected
    batch, heads, _, features = projected.shape
    return prim.reshape(static, (batch, heads, static.shape[1], features))


def _merged_mask(
    attn_mask: Tensor | None, padding: Tensor | None, q: Tensor, keys: int, extra: int
) -> Tensor | None:
    """Both masks as one that is added to [batch, heads, query time, key time].

    ``extra`` keys at the end are always seen.
    """
    batch, heads, times, _ = q.shape
    if attn_mask is not None:
        _need("attn_mask", attn_mask, ((times, keys), (batch * heads, times, keys)))
    if padding is not None:
        _need("key_padding_mask", padding, ((batch, keys),))
    merged = None
    if attn_mask is not None:
        merged = pad(_additive(attn_mask, q), (0, extra)) if extra else _additive(attn_mask, q)
        if merged.dim() == 3:
            merged = prim.reshape(merged, (batch, heads, *merged.shape[1:]))
    if padding is not None:
        rows = pad(_additive(padding, q), (0, extra)) if extra else _additive(padding, q)
        wide = prim.reshape(rows, (batch, 1, 1, rows.shape[1]))
        merged = wide if merged is None else merged + wide
    return merged


def _check(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, separate: bool
) -> None:
    """The shapes of the inputs against each other and the module's sizes."""
    shapes = tuple(tuple(x.shape) for x in (query, key, value))
    if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
        raise AssertionError(
            f"{OP}: query, key and value must be all 3-d (batched) or 2-d, got {shapes}"
        )
    if query.shape[-1] != embed_dim or (not separate and key.shape[-1] != embed_dim):
        raise AssertionError(f"{OP}: expected an embedding of size {embed_dim}, got {shapes}")
    if embed_dim % num_heads:
        raise AssertionError(f"{OP}: embed_dim {embed_dim} not divisible by {num_heads} heads")
    if tuple(key.shape[:-1]) != tuple(value.shape[:-1]):
        raise AssertionError(f"{OP}: key's sequence and batch sizes must be value's, got {shapes}")


def _with_more_keys(
    k: Tensor, v: Tensor, bias_k: Tensor | None, bias_v: Tensor | None, zero: bool
) -> tuple[Tensor, Tensor]:
    """Keys and values [batch, heads, time, features] and those that every query may see."""
    if bias_k is not None and bias_v is not None:
        wide = (k.shape[0], k.shape[1], 1, k.shape[3])
        more = [prim.expand(_heads(x, k.shape[1], False), wide) for x in (bias_k, bias_v)]
        k, v = cat([k, more[0]], 2), cat([v, more[1]], 2)
    return (pad(k, (0, 0, 0, 1)), pad(v, (0, 0, 0, 1))) if zero else (k, v)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    probability: float,
    is_causal: bool,
    need_weights: bool,
) -> tuple[Tensor, Tensor | None]:
    """The heads' outputs, and their weights where they are needed."""
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, probability, is_causal), None
    scores = public_matmul(q * (1.0 / math.sqrt(q.shape[-1])), transpose(k, -2, -1))
    if mask is not None:
        scores = scores + to_dtype(mask, scores.dtype)
    weights = prim.softmax(scores, -1)
    if probability:
        weights = dropout(weights, probability)
    return public_matmul(weights, v), weights


def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool,
    key_padding_mask: Tensor | None,
    need_weights: bool,
    attn_mask: Tensor | None,
    use_separate_proj_weight: bool,
    q_proj_weight: Tensor | None,
    k_proj_weight: Tensor | None,
    v_proj_weight: Tensor | None,
    average_attn_weights: bool,
    is_causal: bool,
    batch_first: bool,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """:func:`multi_head_attention_forward`; ``batch_first``: of [N, L, E] and [N, S, *]."""
    _check(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if is_causal and attn_mask is None:
        raise RuntimeError(f"{OP}: need attn_mask if specifying the is_causal hint")
    batched = query.dim() == 3
    q, k, v = _projected(
        (query, key, value), None if use_separate_proj_weight else in_proj_weight,
        (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias,
    )  # fmt: skip
    if not batched:
        q, k, v = (prim.reshape(x, (x.shape[0], 1, x.shape[1])) for x in (q, k, v))
        if key_padding_mask is not None:
            key_padding_mask = prim.reshape(key_padding_mask, (1, key_padding_mask.numel()))
    lead = tuple(q.shape[:2])
    q, k, v = (_heads(x, num_heads, batch_first) for x in (q, k, v))
    k, v = _replaced(k, static_k), _replaced(v, static_v)
    keys = k.shape[2]
    k, v = _with_more_keys(k, v, bias_k, bias_v, add_zero_attn)
    hint = is_causal and key_padding_mask is None and not need_weights
    mask = None if hint else _merged_mask(attn_mask, key_padding_mask, q, keys, k.shape[2] - keys)
    out, weights = _attend(q, k, v, mask, dropout_p if training else 0.0, hint, need_weights)
    if weights is not None and average_attn_weights:
        weights = mean(weights, 1)
    rows = prim.permute(out, (0, 2, 1, 3) if batch_first else (2, 0, 1, 3))
    out = linear(prim.reshape(rows, (*lead, embed_dim_to_check)), out_proj_weight, out_proj_bias)
    if not batched:
        out = prim.reshape(out, (out.shape[0], out.shape[2]))
        weights = None if weights is None else prim.reshape(weights, tuple(weights.shape[1:]))
    return out, weights


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Output [L, N, E] and weights of attention of query [L, N, E] to key and value [S, N, *].

    The batch dimension N may be missing. ``attn_mask`` [L, S] or [N * heads, L, S] and
    ``key_padding_mask`` [N, S] are true where attention is not allowed, or are added to the
    scores. ``is_causal`` says that ``attn_mask``, which it needs, is the causal one. ``static_k``
    and ``static_v`` [N * heads, S, E / heads] replace the projected key and value.
    """
    return multi_head_attention(**locals(), batch_first=False)


EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {"multi_head_attention_forward": multi_head_attention_forward}
