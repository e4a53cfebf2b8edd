"""Softmax, losses and distances."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinyt.testing.reference.elementwise import sigmoid
from tinyt.testing.reference.form import Array, Formula, Row, Sized, line, sized

_shifted: Formula = lambda x, dim: x - x.max(dim, keepdims=True, initial=-np.inf)


def softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.where(np.isfinite(x), 1.0, np.nan)
    e = np.exp(_shifted(x, dim))
    return e / e.sum(dim, keepdims=True)


def log_softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.where(np.isfinite(x), 0.0, np.nan)
    shifted = _shifted(x, dim)
    return shifted - np.log(np.exp(shifted).sum(dim, keepdims=True))


softmin: Formula = lambda x, dim: softmax(-x, dim)


def _reduced(losses: Array, reduction: str, weight: Any = None) -> Array:
    if reduction == "none":
        return losses
    if reduction == "batchmean":
        return np.sum(losses) / (len(losses) if losses.ndim else 1)
    if reduction == "sum":
        return np.sum(losses)
    return np.sum(losses) / (losses.size if weight is None else np.sum(weight))


def _targets(x: Array, target: Array, weight: Array | None, ignored: int) -> tuple[Any, ...]:
    """Indices and weights of the targets, 0 where ignored, with a dimension of classes."""
    dim = 1 if x.ndim > 1 else 0
    used = target != ignored
    safe = np.where(used, target, 0)
    of_class = np.ones(x.shape[dim]) if weight is None or not weight.ndim else weight
    weights = np.where(used, of_class[safe], 0.0)
    return np.expand_dims(safe, dim), np.expand_dims(weights, dim), np.expand_dims(used, dim), dim


def nll_loss(
    x: Array, target: Array, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"
) -> Array:
    index, weights, used, dim = _targets(x, target, weight, ignore_index)
    losses = np.where(used, -np.take_along_axis(x, index, dim), 0.0) * weights
    return _reduced(losses.reshape(target.shape), reduction, weights)


def cross_entropy(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    axis = 1 if x.ndim > 1 else 0
    logp, classes = log_softmax(x, axis), x.shape[axis]
    if target.dtype.kind != "f" and not label_smoothing:
        return nll_loss(logp, target, weight, ignore_index, reduction)
    w = np.ones(classes) if weight is None else weight
    weighted = logp * w.reshape([classes if d == axis else 1 for d in range(x.ndim)])
    uniform = -np.sum(weighted, axis=axis) / classes * label_smoothing
    if target.dtype.kind == "f":  # class probabilities
        losses = uniform - np.sum(weighted * target, axis=axis) * (1 - label_smoothing)
        return _reduced(losses, reduction)
    _, weights, used, _ = _targets(x, target, w, ignore_index)
    plain = nll_loss(logp, target, w, ignore_index, "none") * (1 - label_smoothing)
    losses = plain + np.where(used.reshape(target.shape), uniform, 0.0)
    return _reduced(losses, reduction, weights)


def _elementwise(losses: Callable[..., Array], by_weight: bool = False) -> Callable[..., Array]:
    """A loss of one element made one of tensors: with `weight`, by which some divide the mean, and
    `reduction`."""

    def loss(*args: Any, reduction: str = "mean", weight: Any = None, **kwargs: Any) -> Array:
        values = losses(*args, **kwargs) * (1.0 if weight is None else weight)
        return _reduced(values, reduction, weight if by_weight else None)

    return loss


mse_loss = _elementwise(lambda x, t: (x - t) ** 2, True)
l1_loss = _elementwise(lambda x, t: np.abs(x - t), True)
soft_margin_loss = _elementwise(lambda x, t: np.log(1 + np.exp(-t * x)))
margin_ranking_loss = _elementwise(lambda x, y, t, margin=0.0: np.maximum(0, margin - t * (x - y)))
hinge_embedding_loss = _elementwise(
    lambda x, t, margin=1.0: np.where(t == 1, x, np.maximum(0, margin - x))
)
binary_cross_entropy = _elementwise(
    lambda x, t: -(t * np.maximum(np.log(x), -100) + (1 - t) * np.maximum(np.log1p(-x), -100))
)


@_elementwise
def smooth_l1_loss(x: Array, t: Array, beta: float = 1.0) -> Array:
    d = np.abs(x - t)
    return np.where(d < beta, d**2 / (2 * beta or 1), d - beta / 2)


@_elementwise
def huber_loss(x: Array, t: Array, delta: float = 1.0) -> Array:
    d = np.abs(x - t)
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


def _sigmoid_nll(x: Array, t: Array, pos_weight: Any = 1.0) -> Array:
    """-pos_weight t log(sigmoid(x)) - (1 - t) log(sigmoid(-x))."""
    outside = np.where(x < 0, -pos_weight * t, 1 - t) * x
    return outside + (1 + (pos_weight - 1) * t) * np.log1p(np.exp(-abs(x)))


binary_cross_entropy_with_logits = _elementwise(_sigmoid_nll)


@_elementwise
def kl_div(x: Array, t: Array, log_target: bool = False) -> Array:
    p = np.exp(t) if log_target else t
    return np.where(p == 0, 0, p * (np.log(p) - x))


@_elementwise
def poisson_nll_loss(
    x: Array, t: Array, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Array:
    losses = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    many = np.maximum(t, 1)
    stirling = many * np.log(many) - many + np.log(2 * np.pi * many) / 2
    return losses + np.where(t > 1, stirling, 0) if full else losses


@_elementwise
def gaussian_nll_loss(x: Array, t: Array, var: Any, full: bool = False, eps: float = 1e-6) -> Array:
    var = np.asarray(var)
    var = np.maximum(var[..., None] if var.ndim == x.ndim - 1 else var, eps)
    return (np.log(var) + (x - t) ** 2 / var + (np.log(2 * np.pi) if full else 0)) / 2


def multilabel_soft_margin_loss(
    x: Array, t: Array, weight: Array | float = 1.0, reduction: str = "mean"
) -> Array:
    p = sigmoid(x)
    losses = -weight * (t * np.log(p) + (1 - t) * np.log(1 - p))
    return _reduced(np.mean(losses, axis=-1), reduction)


def multi_margin_loss(
    x: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    reduction: str = "mean",
) -> Array:
    index = target[..., None]
    losses = np.maximum(0, margin - np.take_along_axis(x, index, -1) + x) ** p
    losses = np.where(np.arange(x.shape[-1]) == index, 0, losses).mean(-1)
    return _reduced(losses if weight is None else losses * weight[target], reduction)


def multilabel_margin_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    rows = x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])
    losses = []
    for row, listed in zip(*rows, strict=True):
        listed = listed[: np.argmax(np.append(listed, -1) < 0)]
        others = np.delete(row, listed)
        losses.append(np.maximum(0, 1 - row[listed, None] + others).sum() / len(row))
    return _reduced(np.array(losses, np.float64).reshape(x.shape[:-1]), reduction)


def _length(x: Array, p: float, axis: int, keepdims: bool = False) -> Array:
    return np.sum(np.abs(x) ** p, axis=axis, keepdims=keepdims) ** (1 / p)


def cosine_similarity(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(x, y)
    lengths = [np.maximum(_length(v, 2, dim), eps) for v in (x, y)]
    return np.sum(x * y, axis=dim) / (lengths[0] * lengths[1])


def pairwise_distance(
    x: Array, y: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    return _length(x - y + eps, p, -1, keepdim)


normalize: Formula = lambda x, p=2.0, dim=1, eps=1e-12: (
    x / np.maximum(_length(x, p, dim, True), eps)
)


@_elementwise
def cosine_embedding_loss(x: Array, y: Array, t: Array, margin: float = 0.0) -> Array:
    # The constant is part of PyTorch's definition.
    squares = [np.sum(v * v, axis=-1) + 1e-12 for v in (x, y)]
    cosine = np.sum(x * y, axis=-1) / np.sqrt(squares[0] * squares[1])
    return np.where(t == 1, 1 - cosine, np.maximum(0, cosine - margin))


@_elementwise
def triplet_margin_loss(
    anchor: Array, near: Array, far: Array, margin: float = 1.0, swap: bool = False, **p: Any
) -> Array:
    close, apart = (pairwise_distance(anchor, x, **p) for x in (near, far))
    apart = np.minimum(apart, pairwise_distance(near, far, **p)) if swap else apart
    return np.maximum(0, close - apart + margin)


triplet_margin_with_distance_loss = triplet_margin_loss


def _softmax(x: Array, dim: int) -> Sized:
    want = softmax(x, dim)
    size = np.nan_to_num(want * (abs(_shifted(x, dim)) + x.shape[dim])) if x.ndim else 0.0
    return Sized(want, size, below=1.0 if x.ndim else 0.0)


_log_size: Formula = lambda _, x, dim: (
    abs(np.nan_to_num(_shifted(x, dim))) + x.shape[dim] if x.ndim else 0.0
)


def _softmax_backward(g: Array, y: Array, dim: int) -> Sized:
    shape, g, y = y.shape, line(g), line(y)
    inner = (g * y).sum(dim, keepdims=True)
    size = (abs(g * y).sum(dim, keepdims=True) + abs(g)) * abs(y) * y.shape[dim]
    return Sized((y * (g - inner)).reshape(shape), size.reshape(shape))


def _log_softmax_backward(g: Array, y: Array, dim: int) -> Sized:
    shape, g, y = y.shape, line(g), line(y)
    total, e = g.sum(dim, keepdims=True), np.exp(y)
    size = abs(g).sum(dim, keepdims=True) * e * (y.shape[dim] + abs(np.nan_to_num(y)))
    return Sized((g - e * total).reshape(shape), (abs(g) + size).reshape(shape))


_REDUCTIONS = ("none", "mean", "sum")


def _softmax_nll(
    x: Array, target: Array, weight: Array, ignored: int, reduction: int
) -> tuple[Sized, Sized]:
    index, weights, used, dim = _targets(x, target, weight, ignored)
    top = x.max(dim, keepdims=True, initial=-np.inf)
    logs = np.log(np.exp(x - top).sum(dim, keepdims=True))
    value = np.take_along_axis(x, index, dim)
    size = np.where(used, logs + abs(top) + abs(value) + x.shape[dim], 0.0) * abs(weights)
    total, n = weights.sum(), max(size.size, 1)
    losses = nll_loss(log_softmax(x, dim), target, weight, ignored, _REDUCTIONS[reduction])
    loss = Sized(losses, size.reshape(target.shape))
    if reduction:
        by = total if reduction == 1 else 1.0
        loss = Sized(losses, (size.sum() * n + abs(weights).sum()) / abs(by))
    rows = [np.where(used, part, 0.0).reshape(-1, 1) for part in (top, logs)]
    stats = np.append(np.concatenate(rows, 1).reshape(-1), total)
    return loss, Sized(stats, np.append(np.full(stats.size - 1, x.shape[dim]), total * n))


def _softmax_nll_input(
    g: Array, x: Array, target: Array, weight: Array, stats: Array, ignored: int, reduction: int
) -> Sized:
    index, weights, used, dim = _targets(x, target, weight, ignored)
    g = g if reduction else np.expand_dims(g, dim)
    by = weights.sum() if reduction == 1 else 1.0
    p, top = softmax(x, dim), x.max(dim, keepdims=True, initial=-np.inf)
    wanted = np.zeros_like(x)
    np.put_along_axis(wanted, index, 1.0, dim)
    scale = np.where(used, weights * g / by, 0.0)
    found, size = p - wanted, p * (x.shape[dim] + abs(x - top) + abs(top)) + wanted
    found, size = (np.where(used, part, 0.0) for part in (found, size))  # NaN in ignored rows, too
    return Sized(found * scale, size * abs(scale) * (4 + weights.size), below=abs(scale))


def _sigmoid_nll_backward(g: Array, x: Array, t: Array) -> Sized:
    slope = np.where(x < 0, sigmoid(x) - t, 1 - t - sigmoid(-x))
    return Sized(g * slope, abs(g) * np.maximum(abs(t), abs(1 - t)))


ROWS = {
    "softmax": Row(_softmax),
    "log_softmax": Row(sized(log_softmax, _log_size)),
    "softmax_backward": Row(_softmax_backward),
    "log_softmax_backward": Row(_log_softmax_backward),
    "softmax_nll": Row(_softmax_nll),
    "softmax_nll_input": Row(_softmax_nll_input),
    "sigmoid_nll": Row(sized(_sigmoid_nll, lambda _, x, t: abs(x) * (1 + abs(t)))),
    "sigmoid_nll_backward": Row(_sigmoid_nll_backward),
}
