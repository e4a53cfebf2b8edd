"""Losses and distances from their definitions, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from references import log_softmax, sigmoid

Array = np.ndarray


def reduced(losses: Array, reduction: str, weight: Any = None) -> Array:
    if reduction == "none":
        return losses
    if reduction == "sum":
        return np.sum(losses)
    return np.sum(losses) / (losses.size if weight is None else np.sum(weight))


def nll_loss(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    classes = x.shape[1] if x.ndim > 1 else x.shape[0]
    rows = np.moveaxis(x, 1, -1).reshape(-1, classes) if x.ndim > 1 else x.reshape(1, -1)
    picked = target.reshape(-1)
    used = picked != ignore_index
    index = np.where(used, picked, 0)
    w = np.where(used, 1.0 if weight is None else weight[index], 0.0)
    losses = np.where(used, -w * rows[np.arange(len(rows)), index], 0.0)
    return reduced(losses.reshape(target.shape), reduction, w)


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
    w = np.ones(classes) if weight is None else weight
    w = w.reshape([classes if d == axis else 1 for d in range(x.ndim)])
    if target.dtype.kind == "f":  # class probabilities
        smooth = target * (1 - label_smoothing) + label_smoothing / classes
        losses = -np.sum(w * smooth * logp, axis=axis)
        return reduced(losses, reduction, np.ones(losses.size) if losses.size else None)
    plain = nll_loss(logp, target, None if weight is None else w.reshape(-1), ignore_index, "none")
    used = target != ignore_index
    uniform = np.where(used, -np.sum(w * logp, axis=axis) / classes, 0.0)
    losses = (1 - label_smoothing) * plain + label_smoothing * uniform
    counts = np.where(used, w.reshape(-1)[np.where(used, target, 0)], 0.0)
    return reduced(losses, reduction, counts)


def elementwise(losses: Callable[..., Array]) -> Callable[..., Array]:
    """A loss of one element made one of tensors: with `weight` and `reduction`."""

    def loss(
        x: Array,
        target: Array,
        *args: Any,
        reduction: str = "mean",
        weight: Array | None = None,
        **kwargs: Any,
    ) -> Array:
        values = losses(x, target, *args, **kwargs)
        if weight is not None:
            values = values * weight
        if reduction == "batchmean":
            return np.sum(values) / (len(x) if x.ndim else 1)
        with np.errstate(invalid="ignore"):
            return reduced(values, reduction)

    return loss


def weighted_mean(losses: Callable[..., Array]) -> Callable[..., Array]:
    """As `elementwise`, but the mean divides by the weights."""

    def loss(
        x: Array, target: Array, *, reduction: str = "mean", weight: Array | None = None
    ) -> Array:
        if weight is None or reduction != "mean":
            return elementwise(losses)(x, target, reduction=reduction, weight=weight)
        return np.sum(losses(x, target) * weight) / np.sum(weight)

    return loss


mse_loss = weighted_mean(lambda x, t: (x - t) ** 2)
l1_loss = weighted_mean(lambda x, t: np.abs(x - t))


@elementwise
def smooth_l1_loss(x: Array, t: Array, beta: float = 1.0) -> Array:
    d = np.abs(x - t)
    return np.where(d < beta, d**2 / (2 * beta or 1), d - beta / 2)


@elementwise
def huber_loss(x: Array, t: Array, delta: float = 1.0) -> Array:
    d = np.abs(x - t)
    return np.where(d <= delta, d**2 / 2, delta * (d - delta / 2))


@elementwise
def binary_cross_entropy(x: Array, t: Array) -> Array:
    with np.errstate(divide="ignore"):
        yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
    return -(t * yes + (1 - t) * no)


def binary_cross_entropy_with_logits(
    x: Array, t: Array, *, pos_weight: Array | float = 1.0, **kwargs: Any
) -> Array:
    def losses(x: Array, t: Array) -> Array:
        return t * pos_weight * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)

    return elementwise(losses)(x, t, **kwargs)


@elementwise
def kl_div(x: Array, t: Array, log_target: bool = False) -> Array:
    p = np.exp(t) if log_target else t
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p == 0, 0, p * (np.log(p) - x))


@elementwise
def poisson_nll_loss(
    x: Array, t: Array, log_input: bool = True, full: bool = False, eps: float = 1e-8
) -> Array:
    losses = np.exp(x) - t * x if log_input else x - t * np.log(x + eps)
    if full:
        many = np.maximum(t, 1)
        stirling = many * np.log(many) - many + np.log(2 * np.pi * many) / 2
        losses = losses + np.where(t > 1, stirling, 0)
    return losses


@elementwise
def gaussian_nll_loss(
    x: Array, t: Array, var: Array | float, full: bool = False, eps: float = 1e-6
) -> Array:
    var = np.asarray(var)
    if var.ndim == x.ndim - 1:
        var = var[..., None]
    var = np.maximum(var, eps)
    return (np.log(var) + (x - t) ** 2 / var + (np.log(2 * np.pi) if full else 0)) / 2


@elementwise
def hinge_embedding_loss(x: Array, t: Array, margin: float = 1.0) -> Array:
    return np.where(t == 1, x, np.maximum(0, margin - x))


@elementwise
def soft_margin_loss(x: Array, t: Array) -> Array:
    return np.log(1 + np.exp(-t * x))


def multilabel_soft_margin_loss(
    x: Array, t: Array, weight: Array | float = 1.0, reduction: str = "mean"
) -> Array:
    p = sigmoid(x)
    losses = -weight * (t * np.log(p) + (1 - t) * np.log(1 - p))
    return reduced(np.mean(losses, axis=-1), reduction)


def multi_margin_loss(
    x: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    reduction: str = "mean",
) -> Array:
    rows, classes = x.reshape(-1, x.shape[-1]), x.shape[-1]
    losses = []
    for row, y in zip(rows, target.reshape(-1), strict=True):
        total = sum(max(0, margin - row[y] + row[i]) ** p for i in range(classes) if i != y)
        losses.append(total / classes * (1 if weight is None else weight[y]))
    return reduced(np.array(losses).reshape(target.shape), reduction)


def multilabel_margin_loss(x: Array, target: Array, reduction: str = "mean") -> Array:
    losses = []
    for row, listed in zip(
        x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1]), strict=True
    ):
        end = np.flatnonzero(listed < 0)
        listed = listed[: end[0]] if len(end) else listed
        others = [i for i in range(len(row)) if i not in listed]
        losses.append(sum(max(0, 1 - row[j] + row[i]) for j in listed for i in others) / len(row))
    return reduced(np.array(losses, np.float64).reshape(x.shape[:-1]), reduction)


# ------------------------------------------------------------------ distances


def length(x: Array, p: float, axis: int, keepdims: bool = False) -> Array:
    return np.sum(np.abs(x) ** p, axis=axis, keepdims=keepdims) ** (1 / p)


def cosine_similarity(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(x, y)
    lengths = (np.maximum(length(v, 2, dim), eps) for v in (x, y))
    return np.sum(x * y, axis=dim) / np.prod(list(lengths), axis=0)


def pairwise_distance(
    x: Array, y: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    return length(x - y + eps, p, -1, keepdim)


def normalize(x: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    return x / np.maximum(length(x, p, dim, True), eps)


def cosine_embedding_loss(
    x: Array, y: Array, t: Array, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    # The constant is part of PyTorch's definition.
    squares = (np.sum(v * v, axis=-1) + 1e-12 for v in (x, y))
    cosine = np.sum(x * y, axis=-1) / np.sqrt(np.prod(list(squares), axis=0))
    return reduced(np.where(t == 1, 1 - cosine, np.maximum(0, cosine - margin)), reduction)


def margin_ranking_loss(
    x: Array, y: Array, t: Array, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    return reduced(np.maximum(0, margin - t * (x - y)), reduction)


def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(np.maximum(0, near - far + margin), reduction)


triplet_margin_with_distance_loss = triplet_margin_loss
