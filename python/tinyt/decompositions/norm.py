"""Softmax and normalisation. A 0-d weight, bias or statistic is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tinyt.decompositions.common import mean_over, widen, zeros
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.tensor import Tensor


def softmax_slopes(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """y * (g - sum(g * y))."""
    return y * (g - prim.sum(g * y, (dim,), True))


def log_softmax_slopes(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """g - exp(y) * sum(g)."""
    return g - prim.exp(y) * prim.sum(g, (dim,), True)


def norm_input(
    g: Tensor, h: Tensor, scale: Tensor, weight: Tensor | None, axes: tuple[int, ...], center: bool
) -> Tensor:
    """Gradient of x: scale (u - mean(u) - h mean(u h)) with u = g w."""
    u = g if weight is None else g * weight
    slope = h * mean_over(u * h, axes)
    return scale * ((u - mean_over(u, axes) - slope) if center else (u - slope))


def standardised_channels(x: Tensor, mean: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
    """(x - mean) * scale with given statistics of the channels, and the scale."""
    wide = (1, mean.shape[0], *(1,) * (x.dim() - 2))
    average, scale = (prim.reshape(part, wide) for part in (mean, scale))
    return (widen(x) - average) * scale, scale


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: dtype) -> Tensor:
    """``x * weight + bias`` in another dtype."""
    if weight is not None:
        x = x * weight
    return prim.cast(x if bias is None else x + bias, dtype)


def _per_channel(part: Tensor, rank: int) -> Tensor:
    """A vector with one value per channel, to be broadcast against [N, C, ...]."""
    return prim.reshape(part, (part.numel(),) + (1,) * (rank - 2))


def _affine_channels(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: dtype) -> Tensor:
    """``x * weight + bias`` per channel in another dtype."""
    wide = [None if part is None else _per_channel(part, x.dim()) for part in (weight, bias)]
    return _affine(x, wide[0], wide[1], dtype)


def _in_groups(x: Tensor, groups: int) -> tuple[int, ...]:
    """The shape [N, groups, channels of a group, space] of channels."""
    return (x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def _standardised_by(x: Tensor, mean: Tensor, scale: Tensor, dims: int) -> tuple[Tensor, Tensor]:
    """(x - mean) * scale with given statistics, and the scale."""
    rows = (*mean.shape, *(1,) * dims)
    average, scale = (prim.reshape(part, rows) for part in (mean, scale))
    return (widen(x) - average) * scale, scale


def softmax(input: Tensor, dim: int) -> Tensor:
    """exp(x) / sum(exp(x)), shifted by the largest value."""
    if input.numel() == 0:
        return prim.copy(input)
    x = widen(input)
    e = prim.exp(x - prim.amax(x, (dim,), True))
    return prim.cast(e * prim.reciprocal(prim.sum(e, (dim,), True)), input.dtype)


def log_softmax(input: Tensor, dim: int) -> Tensor:
    """x - log(sum(exp(x))), shifted by the largest value."""
    if input.numel() == 0:
        return prim.copy(input)
    x = widen(input)
    shifted = x - prim.amax(x, (dim,), True)
    total = prim.log(prim.sum(prim.exp(shifted), (dim,), True))
    return prim.cast(shifted - total, input.dtype)


def softmax_backward(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """The gradient of the input, from that of the output and the output."""
    return prim.cast(softmax_slopes(widen(g), widen(y), dim), y.dtype)


def log_softmax_backward(g: Tensor, y: Tensor, dim: int) -> Tensor:
    """The gradient of the input, from that of the output and the output."""
    return prim.cast(log_softmax_slopes(widen(g), widen(y), dim), y.dtype)


def layer_norm(
    input: Tensor, weight: Tensor, bias: Tensor, dims: int, center: bool, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the mean and the scale of each row."""
    x = widen(input)
    axes = tuple(range(x.dim() - dims, x.dim()))
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    average = mean_over(x, axes) if center else zeros(kept, x)
    shifted = x - average
    scale = prim.rsqrt(mean_over(prim.square(shifted), axes) + eps)
    parts = [widen(part) if part.dim() else None for part in (weight, bias)]
    out = _affine(shifted * scale, parts[0], parts[1], input.dtype)
    rows = tuple(x.shape[: x.dim() - dims])
    return out, prim.reshape(average, rows), prim.reshape(scale, rows)


def layer_norm_backward(
    g: Tensor,
    input: Tensor,
    mean: Tensor,
    scale: Tensor,
    weight: Tensor,
    dims: int,
    center: bool,
    dx: bool,
    params: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input (``dx``), and of weight and bias (``params``)."""
    h, scale = _standardised_by(input, mean, scale, dims)
    lead = h.dim() - dims
    of_input = zeros((0,), h)
    if dx:
        part = widen(weight) if weight.dim() else None
        of_input = norm_input(widen(g), h, scale, part, tuple(range(lead, h.dim())), center)
    shape = tuple(h.shape[lead:])
    if not params:
        none = zeros((0,), h)
        return prim.cast(of_input, input.dtype), none, none
    rows = (math.prod(h.shape[:lead]), *shape)
    dot, total = (prim.sum(prim.reshape(x, rows), (0,), False) for x in (widen(g) * h, widen(g)))
    return prim.cast(of_input, input.dtype), dot, total


def group_norm(
    input: Tensor, weight: Tensor, bias: Tensor, groups: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, and the mean and the scale of each group."""
    x = prim.reshape(widen(input), _in_groups(input, groups))
    average = mean_over(x, (2, 3))
    shifted = x - average
    scale = prim.rsqrt(mean_over(prim.square(shifted), (2, 3)) + eps)
    parts = [widen(part) if part.dim() else None for part in (weight, bias)]
    h = prim.reshape(shifted * scale, tuple(input.shape))
    average, scale = (prim.reshape(part, tuple(x.shape[:2])) for part in (average, scale))
    return _affine_channels(h, parts[0], parts[1], input.dtype), average, scale


def group_norm_backward(
    g: Tensor, input: Tensor, mean: Tensor, scale: Tensor, weight: Tensor, groups: int, dx: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input (``dx``), weight and bias."""
    shape = _in_groups(input, groups)
    x, g = (prim.reshape(widen(t), shape) for t in (input, g))
    average, scale = (prim.reshape(part, (*shape[:2], 1, 1)) for part in (mean, scale))
    h = (x - average) * scale
    of_input = zeros((0,), h)
    if dx:
        part = prim.reshape(widen(weight), (1, *shape[1:3], 1)) if weight.dim() else None
        of_input = prim.reshape(norm_input(g, h, scale, part, (2, 3), True), tuple(input.shape))
    dot, total = (prim.reshape(prim.sum(t, (0, 3), False), (-1,)) for t in (g * h, g))
    return prim.cast(of_input, input.dtype), dot, total


def batch_norm(
    input: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The result, the mean, the scale and the variance of each channel."""
    x = widen(input)
    if mean.dim():
        average, variance = (_per_channel(widen(part), x.dim()) for part in (mean, var))
    else:
        axes = tuple(d for d in range(x.dim()) if d != 1)
        average = mean_over(x, axes)
        variance = mean_over(prim.square(x - average), axes)
    scale = prim.rsqrt(variance + eps)
    parts = [widen(part) if part.dim() else None for part in (weight, bias)]
    out = _affine_channels((x - average) * scale, parts[0], parts[1], input.dtype)
    average, scale, variance = (
        prim.reshape(part, (x.shape[1],)) for part in (average, scale, variance)
    )
    return out, average, scale, variance


def batch_norm_backward(
    g: Tensor, input: Tensor, mean: Tensor, scale: Tensor, weight: Tensor, training: bool, dx: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of input (``dx``), weight and bias."""
    h, scale = standardised_channels(input, mean, scale)
    g = widen(g)
    axes = tuple(d for d in range(h.dim()) if d != 1)
    part = _per_channel(widen(weight), h.dim()) if weight.dim() else None
    if not dx:
        of_input = zeros((0,), h)
    elif training:
        of_input = norm_input(g, h, scale, part, axes, True)
    else:
        of_input = g * scale if part is None else g * part * scale
    dot, total = (prim.sum(t, axes, False) for t in (g * h, g))
    return prim.cast(of_input, input.dtype), dot, total


ROWS: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "softmax_backward": softmax_backward,
    "log_softmax_backward": log_softmax_backward,
    "layer_norm": layer_norm,
    "layer_norm_backward": layer_norm_backward,
    "group_norm": group_norm,
    "group_norm_backward": group_norm_backward,
    "batch_norm": batch_norm,
    "batch_norm_backward": batch_norm_backward,
}
