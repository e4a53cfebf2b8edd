"""Softmax, normalisation, losses and attention, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized


def _softmaxes() -> dict[str, Row]:
    import numpy as np

    def weights(x: Array, dim: int) -> tuple[Array, Array]:
        """e^(x - max), and its sum."""
        top = x.max(dim, keepdims=True, initial=-np.inf)
        e = np.exp(x - top)
        return e, e.sum(dim, keepdims=True)

    def size_of(x: Array, dim: int) -> Array:
        top = x.max(dim, keepdims=True, initial=-np.inf)
        return abs(x - top) + x.shape[dim] if x.ndim else np.ones(())

    def softmax(x: Array, dim: int) -> Any:
        if x.ndim == 0:
            return np.where(np.isfinite(x), 1.0, np.nan)
        e, total = weights(x, dim)
        return Sized(e / total, np.nan_to_num(e / total * size_of(x, dim)), below=1.0)

    def log_softmax(x: Array, dim: int) -> Any:
        if x.ndim == 0:
            return np.where(np.isfinite(x), 0.0, np.nan)
        top = x.max(dim, keepdims=True, initial=-np.inf)
        _, total = weights(x, dim)
        return Sized(x - top - np.log(total), abs(np.nan_to_num(x - top)) + x.shape[dim])

    def softmax_backward(g: Array, y: Array, dim: int) -> Any:
        g, y = (a.reshape(1) if a.ndim == 0 else a for a in (g, y))
        inner = (g * y).sum(dim, keepdims=True)
        size = (abs(g * y).sum(dim, keepdims=True) + abs(g)) * abs(y) * y.shape[dim]
        return Sized(y * (g - inner), size)

    def log_softmax_backward(g: Array, y: Array, dim: int) -> Any:
        g, y = (a.reshape(1) if a.ndim == 0 else a for a in (g, y))
        total, e = g.sum(dim, keepdims=True), np.exp(y)
        size = abs(g).sum(dim, keepdims=True) * e * (y.shape[dim] + abs(np.nan_to_num(y)))
        return Sized(g - e * total, abs(g) + size)

    def fit(row: Callable[..., Any]) -> Callable[..., Any]:
        def call(g: Array, y: Array, dim: int) -> Any:
            found = row(g, y, dim)
            return Sized(found.want.reshape(y.shape), found.scale.reshape(y.shape))

        return call

    return {
        "softmax": Row(softmax),
        "log_softmax": Row(log_softmax),
        "softmax_backward": Row(fit(softmax_backward)),
        "log_softmax_backward": Row(fit(log_softmax_backward)),
    }


def rows() -> dict[str, Row]:
    """Their rows."""
    return _softmaxes() | {
        "layer_norm": Row(_layer_norm, 2),
        "layer_norm_backward": Row(_layer_norm_backward, 2),
        "group_norm": Row(_group_norm, 2),
        "group_norm_backward": Row(_group_norm_backward, 2),
        "batch_norm": Row(_batch_norm, 2),
        "batch_norm_backward": Row(_batch_norm_backward, 2),
        "softmax_nll": Row(_nll),
        "softmax_nll_input": Row(_nll_input),
        "attention": Row(_attention),
        "attention_backward": Row(_attention_backward),
    }


def _standardised(x: Array, axes: tuple[int, ...], center: bool, eps: float) -> Any:
    """(x - mean) / sqrt(var + eps), mean, scale, variance; and the size of each but the last."""
    import numpy as np

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
    return tuple(
        Sized(x.reshape(shape), size.reshape(shape)) for x, size in zip(parts, sizes, strict=True)
    )


def _layer_norm(
    x: Array, weight: Array, bias: Array, dims: int, center: bool, eps: float
) -> tuple[Sized, ...]:
    axes = tuple(range(x.ndim - dims, x.ndim))
    (h, *parts), (size, *sizes) = _standardised(x, axes, center, eps)
    rows = x.shape[: x.ndim - dims]
    out = _affine(h, size, weight, bias, x.shape[x.ndim - dims :])
    return out, *_statistics(parts[:2], sizes, rows)


def _grouped(x: Array, groups: int) -> tuple[int, ...]:
    return (x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def _group_norm(x: Array, weight: Array, bias: Array, groups: int, eps: float) -> tuple[Sized, ...]:
    shape = _grouped(x, groups)
    (h, *parts), (size, *sizes) = _standardised(x.reshape(shape), (2, 3), True, eps)
    per_channel = (-1, *(1,) * (x.ndim - 2))
    out = _affine(h.reshape(x.shape), size.reshape(x.shape), weight, bias, per_channel)
    return out, *_statistics(parts[:2], sizes, shape[:2])


def _batch_norm(
    x: Array, weight: Array, bias: Array, mean: Array, variance: Array, eps: float
) -> tuple[Sized, ...]:
    import numpy as np

    axes = tuple(d for d in range(x.ndim) if d != 1)
    column = (-1, *(1,) * (x.ndim - 2))
    if mean.ndim:
        mean, variance = mean.reshape(column), variance.reshape(column)
        scale = 1 / np.sqrt(variance + eps)
        parts = mean, scale, variance
        h, size = (x - mean) * scale, 4 * (abs(x) + abs(mean)) * scale
        sizes = [0 * mean, 4 * scale, 0 * mean]
    else:
        (h, *parts), (size, *sizes) = _standardised(x, axes, True, eps)
        n = math.prod(x.shape[a] for a in axes)
        largest = abs(x).max(axes, keepdims=True, initial=0.0)
        sizes = [*sizes, largest * largest * (n + 4)]
    out = _affine(h, size, weight, bias, column)
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


def _sums(g: Array, h: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Sized, Sized]:
    """Those of g h and of g."""
    n = math.prod(h.shape[a] for a in axes) + 4
    dot, total = (
        Sized(x.sum(axes).reshape(shape), (abs(x).sum(axes) * n).reshape(shape)) for x in (g * h, g)
    )
    return dot, total


def _none() -> Sized:
    import numpy as np

    return Sized(np.zeros((0,)))


def _layer_norm_backward(
    g: Array,
    x: Array,
    mean: Array,
    scale: Array,
    weight: Array,
    dims: int,
    center: bool,
    dx: bool,
    params: bool,
) -> tuple[Sized, Sized, Sized]:
    lead = x.ndim - dims
    rows = (*mean.shape, *(1,) * dims)
    mean, scale = mean.reshape(rows), scale.reshape(rows)
    h = (x - mean) * scale
    axes = tuple(range(lead, x.ndim))
    w = weight if weight.ndim else 1.0
    of_input = _norm_input(g, h, scale, w, axes, center) if dx else _none()
    if not params:
        return of_input, _none(), _none()
    return of_input, *_sums(g, h, tuple(range(lead)), x.shape[lead:])


def _group_norm_backward(
    g: Array, x: Array, mean: Array, scale: Array, weight: Array, groups: int, dx: bool
) -> tuple[Sized, Sized, Sized]:
    shape = _grouped(x, groups)
    mean, scale = (part.reshape(*shape[:2], 1, 1) for part in (mean, scale))
    h, g = (x.reshape(shape) - mean) * scale, g.reshape(shape)
    of_input = _none()
    if dx:
        w = weight.reshape(1, *shape[1:3], 1) if weight.ndim else 1.0
        found = _norm_input(g, h, scale, w, (2, 3), True)
        of_input = Sized(*(a.reshape(x.shape) for a in found[:2]))
    return of_input, *_sums(g, h, (0, 3), (x.shape[1],))


def _batch_norm_backward(
    g: Array, x: Array, mean: Array, scale: Array, weight: Array, training: bool, dx: bool
) -> tuple[Sized, Sized, Sized]:
    column = (-1, *(1,) * (x.ndim - 2))
    mean, scale = mean.reshape(column), scale.reshape(column)
    h = (x - mean) * scale
    axes = tuple(d for d in range(x.ndim) if d != 1)
    w = weight.reshape(column) if weight.ndim else 1.0
    of_input = _none()
    if dx and training:
        of_input = _norm_input(g, h, scale, w, axes, True)
    elif dx:
        of_input = Sized(g * w * scale)
    return of_input, *_sums(g, h, axes, (x.shape[1],))


def _targets(x: Array, target: Array, weight: Array, ignored: int) -> tuple[Array, Array, int]:
    """Indices and weights of the targets, 0 where ignored, with a dimension of classes."""
    import numpy as np

    dim = 1 if x.ndim > 1 else 0
    used = target != ignored
    safe = np.where(used, target, 0)
    of_class = weight if weight.ndim else np.ones(x.shape[dim])
    weights = np.where(used, of_class[safe], 0.0)
    return np.expand_dims(safe, dim), np.expand_dims(weights, dim), dim


def _nll(
    x: Array, target: Array, weight: Array, ignored: int, reduction: int
) -> tuple[Sized, Sized]:
    import numpy as np

    index, weights, dim = _targets(x, target, weight, ignored)
    used = np.expand_dims(target != ignored, dim)
    top = x.max(dim, keepdims=True, initial=-np.inf)
    logs = np.log(np.exp(x - top).sum(dim, keepdims=True))
    value = np.take_along_axis(x, index, dim)
    losses = np.where(used, logs - (value - top), 0.0) * weights
    size = np.where(used, logs + abs(top) + abs(value) + x.shape[dim], 0.0) * abs(weights)
    total, n = weights.sum(), max(losses.size, 1)
    loss = Sized(losses.reshape(target.shape), size.reshape(target.shape))
    if reduction:
        by = total if reduction == 1 else 1.0
        loss = Sized(losses.sum() / by, (size.sum() * n + abs(weights).sum()) / abs(by))
    rows = [np.where(used, part, 0.0).reshape(-1, 1) for part in (top, logs)]
    stats = np.append(np.concatenate(rows, 1).reshape(-1), total)
    return loss, Sized(stats, np.append(np.full(stats.size - 1, x.shape[dim]), total * n))


def _nll_input(
    g: Array, x: Array, target: Array, weight: Array, stats: Array, ignored: int, reduction: int
) -> Sized:
    import numpy as np

    index, weights, dim = _targets(x, target, weight, ignored)
    if reduction == 0:
        g = np.expand_dims(g, dim)
    by = weights.sum() if reduction == 1 else 1.0
    top = x.max(dim, keepdims=True, initial=-np.inf)
    e = np.exp(x - top)
    p = e / e.sum(dim, keepdims=True)
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, index, 1.0, dim)
    factor = abs(weights * g / by)
    size = (p * (x.shape[dim] + abs(x - top) + abs(top)) + wanted) * factor
    return Sized((p - wanted) * weights * g / by, size * (4 + weights.size), below=factor)


def _scores(
    q: Array, k: Array, mask: Array, causal: bool, scale: float
) -> tuple[Array, Array, Array, Array]:
    """The weights, their largest score, the sum of exponentials, and how far each row's weights may
    be off, relative to them."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

    wild = (~np.isfinite(v)).astype(np.float64)
    met = np.einsum("bhls,bhsd->bhld", (p == 0).astype(np.float64), wild)
    return np.where(met > 0, np.inf, 0.0)


def _attention(
    q: Array, k: Array, v: Array, mask: Array, causal: bool, scale: float
) -> tuple[Sized, Sized]:
    import numpy as np

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
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    output: Array,
    sums: Array,
    causal: bool,
    scale: float,
) -> tuple[Sized, Sized, Sized]:
    import numpy as np

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
