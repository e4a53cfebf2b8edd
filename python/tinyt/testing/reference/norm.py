"""Normalisations, and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Formula, Row, Sized

_NONE: Array = np.zeros(())  # a weight, bias or statistic that is not there


_given: Formula = lambda part: _NONE if part is None else part


def layer_norm(
    x: Array, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Array:
    return _layer_norm(x, _given(weight), _given(bias), len(normalized_shape), True, eps)[0].want


def rms_norm(x: Array, normalized_shape: Any, weight: Any = None, eps: float = 0.0) -> Array:
    return _layer_norm(x, _given(weight), _NONE, len(normalized_shape), False, eps)[0].want


def group_norm(
    x: Array, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Array:
    return _group_norm(x, _given(weight), _given(bias), num_groups, eps)[0].want


def instance_norm(x: Array, *stats: Array, use_input_stats: bool = True, **affine: Any) -> Array:
    if use_input_stats:
        return group_norm(x, x.shape[1], **affine)
    return batch_norm(x, *stats, **affine)


def batch_norm(
    x: Array,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    eps: float = 1e-5,
) -> Array:
    mean, var = (_NONE, _NONE) if training else (running_mean, running_var)
    return _batch_norm(x, _given(weight), _given(bias), mean, var, eps)[0].want


def _standardised(x: Array, axes: tuple[int, ...], center: bool, eps: float) -> Any:
    """(x - mean) / sqrt(var + eps), mean, scale, variance; and the size of each but the last."""
    n = math.prod(x.shape[a] for a in axes)
    total = x.sum(axes, keepdims=True)
    mean = total / n if center else np.zeros_like(total)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    scale = 1 / np.sqrt(variance + eps)
    largest = abs(x).max(axes, keepdims=True, initial=0.0)
    spread = (n + 4) * (1 + largest * scale)
    sizes = (abs(x) + largest) * scale * spread, largest * n, scale * spread * (1 + largest * scale)
    return ((x - mean) * scale, mean, scale, variance), sizes


def _affine(h: Array, size: Array, weight: Array, bias: Array, shape: tuple[int, ...]) -> Sized:
    w = weight.reshape(shape) if weight.ndim else 1.0
    b = bias.reshape(shape) if bias.ndim else 0.0
    return Sized(h * w + b, size * abs(w) + abs(b))


def _statistics(
    parts: Sequence[Array], sizes: Sequence[Array], shape: tuple[int, ...]
) -> tuple[Sized, ...]:
    """Each with its size, in a shape."""
    pairs = zip(parts, sizes, strict=True)
    return tuple(Sized(x.reshape(shape), size.reshape(shape)) for x, size in pairs)


def _layer_norm(
    x: Array, weight: Array, bias: Array, dims: int, center: bool, eps: float
) -> tuple[Sized, ...]:
    lead = x.ndim - dims
    (h, *parts), (size, *sizes) = _standardised(x, tuple(range(lead, x.ndim)), center, eps)
    out = _affine(h, size, weight, bias, x.shape[lead:])
    return out, *_statistics(parts[:2], sizes, x.shape[:lead])


_grouped: Formula = lambda x, groups: (
    x.shape[0],
    groups,
    x.shape[1] // groups,
    math.prod(x.shape[2:]),
)


def _column(x: Array) -> tuple[int, ...]:
    """The shape of what broadcasts along the channels."""
    return (-1, *(1,) * (x.ndim - 2))


def _group_norm(x: Array, weight: Array, bias: Array, groups: int, eps: float) -> tuple[Sized, ...]:
    shape = _grouped(x, groups)
    (h, *parts), (size, *sizes) = _standardised(x.reshape(shape), (2, 3), True, eps)
    out = _affine(h.reshape(x.shape), size.reshape(x.shape), weight, bias, _column(x))
    return out, *_statistics(parts[:2], sizes, shape[:2])


def _batch_norm(
    x: Array, weight: Array, bias: Array, mean: Array, variance: Array, eps: float
) -> tuple[Sized, ...]:
    axes = (0, *range(2, x.ndim))
    if mean.ndim:
        mean, variance = mean.reshape(_column(x)), variance.reshape(_column(x))
        scale = 1 / np.sqrt(variance + eps)
        parts = mean, scale, variance
        h, size = (x - mean) * scale, 4 * (abs(x) + abs(mean)) * scale
        sizes = [0 * mean, 4 * scale, 0 * mean]
    else:
        (h, *parts), (size, *sizes) = _standardised(x, axes, True, eps)
        n = math.prod(x.shape[a] for a in axes)
        largest = abs(x).max(axes, keepdims=True, initial=0.0)
        sizes = [*sizes, largest * largest * (n + 4)]
    out = _affine(h, size, weight, bias, _column(x))
    return out, *_statistics(parts, sizes, (x.shape[1],))


def _norm_input(
    g: Array, h: Array, scale: Array, weight: Any, axes: tuple[int, ...], center: bool
) -> Sized:
    """scale (u - mean(u) - h mean(u h)) with u = g w. Mean and scale are given, so that h is within
    two roundings of its own size."""
    n = math.prod(h.shape[a] for a in axes)
    u = g * weight
    slope = h * (u * h).mean(axes, keepdims=True)
    mean = u.mean(axes, keepdims=True) if center else 0.0
    size = abs(u) + abs(u).mean(axes, keepdims=True)
    size = size + (1 + abs(h)) * abs(u * h).mean(axes, keepdims=True)
    return Sized(scale * (u - mean - slope), abs(scale) * size * (n + 8))


def _sums(g: Array, h: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> list[Sized]:
    """Those of g h and of g."""
    n = math.prod(h.shape[a] for a in axes) + 4
    return [
        Sized(x.sum(axes).reshape(shape), (abs(x).sum(axes) * n).reshape(shape)) for x in (g * h, g)
    ]


_NOTHING = Sized(np.zeros((0,)))


def _layer_norm_backward(
    g: Array, x: Array, mean: Array, scale: Array, weight: Array, dims: int, *flags: bool
) -> tuple[Sized, ...]:
    center, dx, params = flags
    lead = x.ndim - dims
    mean, scale = (part.reshape(*part.shape, *(1,) * dims) for part in (mean, scale))
    h, w = (x - mean) * scale, weight if weight.ndim else 1.0
    axes = tuple(range(lead, x.ndim))
    of_input = _norm_input(g, h, scale, w, axes, center) if dx else _NOTHING
    if not params:
        return of_input, _NOTHING, _NOTHING
    return of_input, *_sums(g, h, tuple(range(lead)), x.shape[lead:])


def _group_norm_backward(
    g: Array, x: Array, mean: Array, scale: Array, weight: Array, groups: int, dx: bool
) -> tuple[Sized, ...]:
    shape = _grouped(x, groups)
    mean, scale = (part.reshape(*shape[:2], 1, 1) for part in (mean, scale))
    h, g = (x.reshape(shape) - mean) * scale, g.reshape(shape)
    of_input = _NOTHING
    if dx:
        w = weight.reshape(1, *shape[1:3], 1) if weight.ndim else 1.0
        found = _norm_input(g, h, scale, w, (2, 3), True)
        of_input = Sized(*(a.reshape(x.shape) for a in found[:2]))
    return of_input, *_sums(g, h, (0, 3), (x.shape[1],))


def _batch_norm_backward(
    g: Array, x: Array, mean: Array, scale: Array, weight: Array, training: bool, dx: bool
) -> tuple[Sized, ...]:
    mean, scale = mean.reshape(_column(x)), scale.reshape(_column(x))
    h, axes = (x - mean) * scale, (0, *range(2, x.ndim))
    w = weight.reshape(_column(x)) if weight.ndim else 1.0
    of_input = _NOTHING
    if dx:
        of_input = Sized(g * w * scale)
        of_input = _norm_input(g, h, scale, w, axes, True) if training else of_input
    return of_input, *_sums(g, h, axes, (x.shape[1],))


ROWS = {
    "layer_norm": Row(_layer_norm, 2),
    "layer_norm_backward": Row(_layer_norm_backward, 2),
    "group_norm": Row(_group_norm, 2),
    "group_norm_backward": Row(_group_norm_backward, 2),
    "batch_norm": Row(_batch_norm, 2),
    "batch_norm_backward": Row(_batch_norm_backward, 2),
}
