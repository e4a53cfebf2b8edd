"""Attention, and its gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Row, Sized


def scaled_dot_product_attention(
    *operands: Array, attn_mask: Any = None, is_causal: bool = False, scale: Any = None, **_: bool
) -> Array:
    """Of queries, keys and values; with fewer heads of the latter each serves several queries."""
    query, *pair = (x[None] if x.ndim == 3 else x for x in operands)
    key, value = (np.repeat(x, query.shape[1] // x.shape[1], 1) for x in pair)
    mask = np.zeros(()) if attn_mask is None else attn_mask
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    found = _attention(query, key, value, mask, is_causal, scale)[0].want
    return found[0] if operands[0].ndim == 3 else found


def _scores(
    q: Array, k: Array, mask: Array, causal: bool, scale: float
) -> tuple[Array, Array, Array, Array]:
    """The weights, their largest score, the sum of exponentials, and how far each row's weights may
    be off, relative to them."""
    scores = np.einsum("bhle,bhse->bhls", q, k) * scale
    size = np.einsum("bhle,bhse->bhls", abs(q), abs(k)) * abs(scale) * q.shape[-1]
    if mask.ndim:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    seen = np.tri(*scores.shape[-2:]) > 0 if causal else True
    scores = np.where(seen, scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(top == -np.inf, 0.0, top))  # a row with +inf is NaN
    total = e.sum(-1, keepdims=True)
    p = np.where(seen & (total != 0), e / np.where(total == 0, 1, total), 0.0)
    spread = np.where(np.isfinite(scores), abs(scores - top) + size, 0.0)
    spread = 4 * (spread.max(-1, initial=0.0, keepdims=True) + scores.shape[-1] + 4)
    return p, top, total, spread


def _weighed(p: Array, v: Array) -> Array:
    """p @ v without the terms of keys that weigh nothing, which need not be finite."""
    if np.isfinite(v).all():
        return np.einsum("bhls,bhsd->bhld", p, v)
    found = np.zeros((*p.shape[:3], v.shape[3]))
    for s in range(p.shape[3]):
        of_key = p[..., s, None]
        found += np.where(of_key == 0, 0.0, of_key * v[:, :, None, s])
    return found


def _unsure(p: Array, v: Array) -> Array:
    """Infinite where what is not finite weighs nothing in p @ v: whether it is a term of a sum is
    not told, so that NaN is right, too."""
    wild = (~np.isfinite(v)).astype(np.float64)
    met = np.einsum("bhls,bhsd->bhld", (p == 0).astype(np.float64), wild)
    return np.where(met > 0, np.inf, 0.0)


def _attention(
    q: Array, k: Array, v: Array, mask: Array, causal: bool, scale: float
) -> tuple[Sized, Sized]:
    times = q.shape[1] // max(k.shape[1], 1)
    k, v = (np.repeat(x, times, 1) for x in (k, v))
    p, top, total, spread = _scores(q, k, mask, causal, scale)
    found = _weighed(p, v)
    weighed = _weighed(p, abs(v))  # bfloat16 products round the weights, too
    sums = np.where(np.isinf(top), 0.0, top) + np.log(total)
    sizes = spread + abs(np.where(np.isinf(sums), 0.0, sums))
    return Sized(found, weighed * spread + _unsure(p, v), weighed), Sized(
        sums[..., 0], sizes[..., 0]
    )


def _attention_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array, output: Array, sums: Array, *options: Any
) -> tuple[Sized, Sized, Sized]:
    causal, scale = options
    heads = k.shape[1]
    k, v = (np.repeat(x, q.shape[1] // max(heads, 1), 1) for x in (k, v))
    p, _, _, spread = _scores(q, k, mask, causal, scale)
    # Slopes where nothing is weighed are 0, or NaN: 0 (g v - g output), where that is not finite.
    unsure = (p == 0) & ~np.isfinite(v).all(-1)[:, :, None]
    unsure = np.where(unsure | ~np.isfinite(g * output).all(-1, keepdims=True), np.inf, 0.0)

    def run(g: Array, q: Array, k: Array, v: Array, sign: float) -> tuple[Array, Array, Array]:
        d = np.where(p == 0, 0.0, np.einsum("bhld,bhsd->bhls", g, v))
        s = p * (d + sign * (d * p).sum(-1, keepdims=True)) * abs(scale)
        w = p
        if sign > 0:  # sizes
            s, w = s * spread, np.where(p == 0, 0.0, p * spread)
        else:
            s = s * math.copysign(1.0, scale)
        s = np.where(p == 0, 0.0, s)  # also in rows of NaN
        turned = s.swapaxes(2, 3), w.swapaxes(2, 3)
        parts = [_weighed(turned[0], q), _weighed(turned[1], g)]
        first = _weighed(s, k)
        if sign > 0:
            parts = [x + _unsure(t, y) for x, t, y in zip(parts, turned, (q, g), strict=True)]
            parts[0] = parts[0] + unsure.max(2, initial=0.0)[..., None]
            first = first + _unsure(s, k) + unsure.max(3, initial=0.0, keepdims=True)
        of_key, of_value = (
            x.reshape(x.shape[0], heads, x.shape[1] // heads, *x.shape[2:]).sum(2) if heads else x
            for x in parts
        )
        return first, of_key, of_value

    found = run(g, q, k, v, -1.0)
    sizes = run(abs(g), abs(q), abs(k), abs(v), 1.0)
    terms = 4 + g.shape[-1] + g.shape[-2]
    of_query, of_key, of_value = (
        Sized(x, size * terms, size) for x, size in zip(found, sizes, strict=True)
    )
    return of_query, of_key, of_value


ROWS = {"attention": Row(_attention), "attention_backward": Row(_attention_backward)}
