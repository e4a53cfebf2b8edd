"""Loss functions."""

from __future__ import annotations

import math
from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.reduce import mean
from tinyt.ops.reduce import sum as sum_
from tinyt.tensor import Tensor, prim


def _reduce(op: str, values: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return values
    if reduction == "mean":
        return mean(values)
    if reduction == "sum":
        return sum_(values)
    raise ValueError(f"{op}: {reduction!r} is not a valid value for reduction")


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Squared difference, averaged ("mean"), added ("sum") or as it is ("none")."""
    return _reduce("mse_loss", prim.square(input - target), reduction)


def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Absolute difference, averaged ("mean"), added ("sum") or as it is ("none")."""
    return _reduce("l1_loss", prim.abs(input - target), reduction)


def _check_target(op: str, input: Tensor, target: Tensor) -> tuple[int, ...]:
    """The shape of a class-index target: the input's without its class dimension."""
    shape = tuple(input.shape)
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    if tuple(target.shape) != expected:
        raise ShapeError(
            f"{op}: target must have shape {expected} for input {shape}, got {tuple(target.shape)}"
        )
    if target.dtype.name != "int64":
        raise RuntimeError(f"{op}: class indices must be int64, got {target.dtype.name}")
    return expected


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of class indices: input [N, C, ...] of log-probabilities.

    "mean" divides by the sum of the weights of the targets that are not ignored. IndexError for
    a target outside [0, C).
    """
    if input.dim() == 0:
        raise ShapeError("nll_loss: needs at least 1 dimension, got shape ()")
    _check_target("nll_loss", input, target)
    dim = 1 if input.dim() > 1 else 0
    used = prim.ne(target, ignore_index)
    safe = prim.where(used, target, 0)
    where = tuple(input.shape)
    index_shape = (*where[:dim], 1, *where[dim + 1 :])
    index = prim.reshape(safe, index_shape)
    picked = prim.reshape(prim.gather(input, index, dim), tuple(target.shape))
    weights = prim.cast(used, input.dtype)
    if weight is not None:
        if tuple(weight.shape) != (where[dim],):
            raise ShapeError(
                f"nll_loss: weight must have shape ({where[dim]},), got {tuple(weight.shape)}"
            )
        flat = prim.reshape(safe, (safe.numel(),))
        weights = weights * prim.reshape(prim.gather(weight, flat, 0), tuple(target.shape))
    # Ignored positions give zero even where the log-probability is infinite.
    losses = prim.where(used, -picked * weights, 0.0)
    if reduction == "mean":
        return sum_(losses) / sum_(weights)
    return _reduce("nll_loss", losses, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of logits [N, C, ...] with class indices, or with probabilities of its shape.

    ``label_smoothing`` mixes the target with the uniform distribution (Szegedy et al., 2016).
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"cross_entropy: label_smoothing must be between 0 and 1, got {label_smoothing}"
        )
    if input.dim() == 0:
        raise ShapeError("cross_entropy: needs at least 1 dimension, got shape ()")
    dim = 1 if input.dim() > 1 else 0
    logp = prim.log_softmax(input, dim)
    if target.dtype.is_floating_point and tuple(target.shape) == tuple(input.shape):
        return _soft_cross_entropy(logp, target, weight, reduction, label_smoothing, dim)
    hard = nll_loss(logp, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return hard
    classes = input.shape[dim]
    used = prim.ne(target, ignore_index)
    wide = [1] * input.dim()
    wide[dim] = classes
    weighted = logp if weight is None else logp * prim.reshape(weight, tuple(wide))
    smooth = prim.where(used, -prim.sum(weighted, (dim,), False), 0.0)
    if reduction == "mean":
        counts = prim.cast(used, logp.dtype)
        if weight is not None:
            safe = prim.reshape(prim.where(used, target, 0), (target.numel(),))
            counts = counts * prim.reshape(prim.gather(weight, safe, 0), tuple(target.shape))
        smooth = sum_(smooth) / sum_(counts)
    else:
        smooth = _reduce("cross_entropy", smooth, reduction)
    return hard * (1.0 - label_smoothing) + smooth * (label_smoothing / classes)


def _soft_cross_entropy(
    logp: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    label_smoothing: float,
    dim: int,
) -> Tensor:
    classes = logp.shape[dim]
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        wide = [1] * logp.dim()
        wide[dim] = classes
        logp = logp * prim.reshape(weight, tuple(wide))
    losses = -prim.sum(logp * target, (dim,), False)
    if reduction == "mean":
        return sum_(losses) / (math.prod(logp.shape) / classes)
    return _reduce("cross_entropy", losses, reduction)


EXPORTS: dict[str, Any] = {f.__name__: f for f in (mse_loss, l1_loss, nll_loss, cross_entropy)}
