"""Softmax, normalisation and attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt._core import ShapeError
from tinyt._tensor import dtype as DType
from tinyt.ops.common import to_dtype
from tinyt.ops.random import dropout
from tinyt.ops.reduce import mean
from tinyt.ops.shape import transpose, tril
from tinyt.tensor import Tensor, method, prim


@method
def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.softmax(to_dtype(input, dtype), dim)


@method
def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """x - log(sum(exp(x))) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.log_softmax(to_dtype(input, dtype), dim)


def decompose_softmax(input: Tensor, dim: int) -> Tensor:
    """What the fused softmax computes, in primitives."""
    if input.numel() == 0:
        return prim.copy(input)
    e = prim.exp(input - prim.amax(input, (dim,), True))
    return e / prim.sum(e, (dim,), True)


def decompose_log_softmax(input: Tensor, dim: int) -> Tensor:
    """What the fused log_softmax computes, in primitives."""
    if input.numel() == 0:
        return prim.copy(input)
    shifted = input - prim.amax(input, (dim,), True)
    return shifted - prim.log(prim.sum(prim.exp(shifted), (dim,), True))


# The oracle of every fused row of the op table, and its fallback on devices without the kernel.
DECOMPOSE: dict[str, Callable[..., Tensor]] = {
    "softmax": decompose_softmax,
    "log_softmax": decompose_log_softmax,
}


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions (Ba et al., 2016)."""
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"layer_norm: normalized_shape {shape} must be the last dimensions of the input, got "
            f"shape {tuple(input.shape)}"
        )
    for name, part in (("weight", weight), ("bias", bias)):
        if part is not None and tuple(part.shape) != shape:
            raise ShapeError(f"layer_norm: {name} must have shape {shape}, got {tuple(part.shape)}")
    dims = tuple(range(-len(shape), 0))
    center = input - mean(input, dims, True)
    out = center * prim.rsqrt(mean(prim.square(center), dims, True) + eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel over batch and space (Ioffe & Szegedy, 2015): [N, C, ...].

    Training uses the batch's mean and variance and moves the running ones by ``momentum`` (the
    running variance is the unbiased one); otherwise the running ones are used.
    """
    if input.dim() < 2:
        raise ShapeError(f"batch_norm: needs at least 2 dimensions, got {tuple(input.shape)}")
    channels = input.shape[1]
    wide = (channels,) + (1,) * (input.dim() - 2)
    if training:
        dims = tuple(d for d in range(input.dim()) if d != 1)
        count = math.prod(input.shape[d] for d in dims)
        if count <= 1:
            raise ValueError(
                "batch_norm: expected more than 1 value per channel when training, got shape "
                f"{tuple(input.shape)}"
            )
        center = mean(input, dims, True)
        shifted = input - center
        variance = mean(prim.square(shifted), dims, True)
        _track(running_mean, center, momentum)
        _track(running_var, variance.detach() * (count / (count - 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: running statistics are needed when not training")
        shifted = input - prim.reshape(running_mean, wide)
        variance = prim.reshape(running_var, wide)
    out = shifted * prim.rsqrt(variance + eps)
    if weight is not None:
        out = out * prim.reshape(weight, wide)
    return out if bias is None else out + prim.reshape(bias, wide)


def _track(running: Tensor | None, now: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * now."""
    if running is not None:
        value = prim.reshape(now.detach(), tuple(running.shape))
        running._assign(running * (1 - momentum) + value * momentum)


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

    ``attn_mask``: bool (false: not attended) or added to the scores. ``is_causal``: query i sees
    keys 0..i. ``scale`` defaults to 1 / sqrt(E). ``enable_gqa`` repeats key and value heads.
    """
    if min(query.dim(), key.dim(), value.dim()) < 2:
        raise ShapeError(
            "scaled_dot_product_attention: operands must have at least 2 dimensions, got "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True"
        )
    if enable_gqa:
        groups = query.shape[-3] // max(key.shape[-3], 1)
        key, value = _repeat_heads(key, groups), _repeat_heads(value, groups)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = prim.matmul(query * factor, transpose(key, -2, -1))
    if is_causal:
        keep = tril(prim.fill(tuple(scores.shape[-2:]), 0, 1.0, 1))
        scores = prim.where(keep, scores, -math.inf)
    elif attn_mask is not None:
        if attn_mask.dtype.name == "bool":
            scores = prim.where(attn_mask, scores, -math.inf)
        else:
            scores = scores + attn_mask
    weights = prim.softmax(scores, -1)
    return prim.matmul(dropout(weights, dropout_p), value)


def _repeat_heads(x: Tensor, groups: int) -> Tensor:
    """Every head ``groups`` times in a row."""
    shape = tuple(x.shape)
    wide = prim.reshape(x, (*shape[:-2], 1, *shape[-2:]))
    many = prim.expand(wide, (*shape[:-2], groups, *shape[-2:]))
    return prim.reshape(many, (*shape[:-3], shape[-3] * groups, *shape[-2:]))


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (softmax, log_softmax, layer_norm, batch_norm, scaled_dot_product_attention)
}
