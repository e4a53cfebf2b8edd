"""Losses that compare two tensors element by element.

``reduction`` is "mean", "sum" or "none"; ``size_average`` and ``reduce`` are the booleans that
PyTorch had before it and still takes.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from tinyt._autograd import is_grad_enabled
from tinyt._core import DTypeError, is_recording
from tinyt._tensor import dtype as DType
from tinyt.dtypes import promote_types
from tinyt.ops.common import to_dtype, wide, wide_together
from tinyt.ops.elementwise.bounded import clamp_min
from tinyt.ops.nn.activation import logsigmoid
from tinyt.ops.reduce.reductions import mean
from tinyt.ops.reduce.reductions import sum as sum_
from tinyt.tensor import Tensor, prim

Flag = bool | None


def reduction_of(op: str, size_average: Flag, reduce: Flag, reduction: str, *more: str) -> str:
    """The reduction that the arguments ask for; ValueError for one that there is not.

    The two booleans, where given, decide and bring a deprecation warning. ``more`` names what is
    valid beside "mean", "sum" and "none".
    """
    if size_average is not None or reduce is not None:
        whole = "sum" if size_average is False else "mean"
        reduction = "none" if reduce is False else whole
        warnings.warn(
            f"{op}: size_average and reduce are deprecated, use reduction={reduction!r}",
            stacklevel=3,
        )
    if reduction not in ("mean", "sum", "none", *more):
        raise ValueError(f"{op}: {reduction!r} is not a valid value for reduction")
    return reduction


def reduced(
    losses: Tensor, reduction: str, total: Tensor | None = None, *, dtype: DType | None = None
) -> Tensor:
    """Losses as a reduction wants them, in ``dtype`` at last (default: that of the losses).

    "mean" divides by ``total`` if it is given.
    """
    if reduction == "sum":
        losses = sum_(losses)
    elif reduction == "mean":
        losses = mean(losses) if total is None else sum_(losses) / total
    return to_dtype(losses, dtype)


def _need_real(op: str, *tensors: Tensor) -> None:
    """DTypeError for complex numbers, of which there is no such loss."""
    for x in tensors:
        if x.dtype.is_complex:
            raise DTypeError(f"{op}: not defined for dtype {x.dtype.name}")


def _need_float(op: str, *tensors: Tensor) -> None:
    """DTypeError for integers, bool and complex numbers."""
    for x in tensors:
        if not x.dtype.is_floating_point:
            raise DTypeError(f"{op}: not defined for dtype {x.dtype.name}; use a float dtype")


def _either_float(op: str, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The two where one has a float dtype, to which a bool is converted; else DTypeError."""
    _need_real(op, input, target)
    if not (input.dtype.is_floating_point or target.dtype.is_floating_point):
        raise DTypeError(
            f"{op}: input or target must have a float dtype, got {input.dtype.name} and "
            f"{target.dtype.name}"
        )
    if input.dtype.name == "bool":
        input = to_dtype(input, target.dtype)
    elif target.dtype.name == "bool":
        target = to_dtype(target, input.dtype)
    return input, target


def _difference(op: str, input: Tensor, target: Tensor) -> Tensor:
    """input - target, with a warning where the shapes differ."""
    if tuple(input.shape) == tuple(target.shape):
        return input - target
    # They are broadcast first, so that a 0-d tensor counts in the promotion.
    dtype = promote_types(input.dtype, target.dtype)
    out = to_dtype(input, dtype) - to_dtype(target, dtype)
    warnings.warn(
        f"{op}: the target has shape {tuple(target.shape)}, the input {tuple(input.shape)}; "
        "they are broadcast, which is rarely meant",
        stacklevel=3,
    )
    return out


def _weighted(op: str, losses: Tensor, weight: Tensor | None) -> Tensor:
    """Losses times a weight of their shape."""
    if weight is None:
        return losses
    if tuple(weight.shape) != tuple(losses.shape):
        raise ValueError(
            f"{op}: weight and input must have one shape, got {tuple(weight.shape)} and "
            f"{tuple(losses.shape)}"
        )
    return losses * weight


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(input - target)²; with a ``weight``, "mean" divides by the sum of the weights."""
    reduction = reduction_of("mse_loss", size_average, reduce, reduction)
    input, target = _either_float("mse_loss", input, target)
    dtype, (x, t, w) = wide_together(input, target, weight)
    losses = _weighted("mse_loss", prim.square(_difference("mse_loss", x, t)), w)
    return reduced(losses, reduction, None if w is None else sum_(w), dtype=dtype)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|input - target|; with a ``weight``, "mean" divides by the sum of the weights."""
    reduction = reduction_of("l1_loss", size_average, reduce, reduction)
    dtype, (x, t, w) = wide_together(input, target, weight)
    losses = _weighted("l1_loss", prim.abs(_difference("l1_loss", x, t)), w)
    return reduced(losses, reduction, None if w is None else sum_(w), dtype=dtype)


def _half_square(difference: Tensor, is_far: Tensor, factor: float) -> Tensor:
    """difference² times a factor; 0 where it is not used, so that an infinity there has a slope.

    Of the signed difference: |d| has no second derivative at 0.
    """
    near = prim.where(is_far, 0.0, difference)
    return near * near * factor


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """0.5 d² / beta where d = |input - target| < ``beta``, else d - beta / 2 (Girshick, 2015)."""
    reduction = reduction_of("smooth_l1_loss", size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    if beta != 0:
        input, target = _either_float("smooth_l1_loss", input, target)
    dtype, (x, t) = wide_together(input, target)
    difference = _difference("smooth_l1_loss", x, t)
    distance = prim.abs(difference)
    if beta == 0:
        return reduced(distance, reduction, dtype=dtype)
    is_far = prim.ge(distance, beta)
    losses = prim.where(is_far, distance - 0.5 * beta, _half_square(difference, is_far, 0.5 / beta))
    return reduced(losses, reduction, dtype=dtype)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """0.5 d² where d = |input - target| <= ``delta``, else delta (d - delta / 2) (Huber, 1964).

    In the input's dtype, a float.
    """
    reduction = reduction_of("huber_loss", None, None, reduction)
    if delta <= 0:
        raise RuntimeError(f"huber_loss: delta must be positive, got {delta}")
    _need_float("huber_loss", input)
    dtype, _ = wide_together(input, weight)
    _, (input, target, weight) = wide_together(*_either_float("huber_loss", input, target), weight)
    difference = _difference("huber_loss", input, target)
    distance = prim.abs(difference)
    far = (distance - 0.5 * delta) * delta
    is_far = prim.gt(distance, delta)
    losses = prim.where(is_far, far, _half_square(difference, is_far, 0.5))
    losses = _weighted("huber_loss", to_dtype(losses, input.dtype), weight)
    return reduced(losses, reduction, dtype=dtype)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log x + (1 - t) log(1 - x)) of probabilities x; the logarithms are at least -100.

    RuntimeError for an input outside [0, 1], or where input and target are not of one float dtype.
    """
    op = "binary_cross_entropy"
    reduction = reduction_of(op, size_average, reduce, reduction)
    _check_same(op, input, target)
    _need_float(op, input)
    if target.dtype is not input.dtype:
        raise DTypeError(
            f"{op}: the target must have the input's dtype {input.dtype.name}, got "
            f"{target.dtype.name}"
        )
    if input.numel() and not is_recording():
        x = input.detach()
        low, high = prim.amin(x, (), False).item(), prim.amax(x, (), False).item()
        if not (low >= 0 and high <= 1):
            raise RuntimeError(f"{op}: the input must be between 0 and 1, got [{low}, {high}]")
    losses = _cross_entropy(wide(input), wide(target))
    if weight is not None:
        losses = to_dtype(losses * wide(weight), losses.dtype)
    return reduced(losses, reduction, dtype=input.dtype)


def _cross_entropy(x: Tensor, t: Tensor) -> Tensor:
    """Binary cross-entropy of each probability.

    The gradient of x is (x - t) / (x (1 - x)), the divisor at least 1e-12, as in PyTorch.
    """
    if not (x.requires_grad and is_grad_enabled()):
        return _plain_cross_entropy(x, t)
    end = prim.lt((x * (1.0 - x)).detach(), 1e-12)
    at_end = x.detach()
    line = (x - at_end) * ((at_end - t.detach()) * 1e12)
    inside = _plain_cross_entropy(prim.where(end, 0.5, x), t)
    return prim.where(end, _plain_cross_entropy(at_end, t) + line, inside)


def _plain_cross_entropy(x: Tensor, t: Tensor) -> Tensor:
    yes, no = clamp_min(prim.log(x), -100.0), clamp_min(prim.log1p(-x), -100.0)
    return (t - 1.0) * no - t * yes


def _check_same(op: str, input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"{op}: target and input must have one shape, got {tuple(target.shape)} and "
            f"{tuple(input.shape)}"
        )


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of sigmoid(input), without overflow.

    ``pos_weight``, broadcast, multiplies the part of the positive targets. In the target's dtype,
    a float.
    """
    op = "binary_cross_entropy_with_logits"
    reduction = reduction_of(op, size_average, reduce, reduction)
    _check_same(op, input, target)
    _need_float(op, target)
    x, t = wide(input), wide(target)
    if pos_weight is None:
        losses = prim.sigmoid_nll(x, t)
    else:
        # p t (-log(sigmoid(x))) + (1 - t) (-log(sigmoid(-x)))
        losses = prim.sigmoid_nll(x, 1.0) * (wide(pos_weight) * t)
        losses = losses + prim.sigmoid_nll(x, 0.0) * (1.0 - t)
    losses = losses if weight is None else losses * wide(weight)
    return reduced(losses, reduction, dtype=target.dtype)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t (log t - x) of log-probabilities x and probabilities t (their logarithms: ``log_target``).

    "batchmean" divides the sum by the size of dimension 0: the divergence per sample.
    """
    reduction = reduction_of("kl_div", size_average, reduce, reduction, "batchmean")
    _need_float("kl_div", input, target)
    dtype, (input, target) = wide_together(input, target)
    if log_target:
        losses = prim.exp(target) * (target - input)
    else:
        # 0 log 0 = 0.
        positive = prim.where(prim.eq(target, 0.0), 1.0, target)
        losses = target * prim.log(positive) - target * input
    if reduction == "batchmean":
        total = sum_(losses) / float(input.shape[0]) if input.dim() else sum_(losses)
        return to_dtype(total, dtype)
    return reduced(losses, reduction, dtype=dtype)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Flag = None,
    eps: float = 1e-8,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """x - t log x, the Poisson likelihood of a rate x (given as log x: ``log_input``).

    ``full`` adds Stirling's t log t - t + log(2 pi t) / 2 for log t! where t > 1.
    """
    reduction = reduction_of("poisson_nll_loss", size_average, reduce, reduction)
    dtype, (input, target) = wide_together(input, target)
    if log_input:
        losses = prim.exp(input) - target * input
    else:
        losses = input - target * prim.log(input + eps)
    if full:
        many = prim.gt(target, 1.0)
        count = prim.where(many, target, 1.0)
        stirling = count * prim.log(count) - count + prim.log(count * (2 * math.pi)) * 0.5
        losses = losses + prim.where(many, stirling, 0.0)
    return reduced(losses, reduction, dtype=dtype)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log v + (input - target)² / v) / 2, v the variance, at least ``eps`` (Nix & Weigend, 1994).

    ``var`` has the input's shape, or one dimension of size 1, or lacks the last; the gradient
    passes the limit. ``full`` adds log(2 pi) / 2. ValueError for a negative variance.
    """
    reduction = reduction_of("gaussian_nll_loss", None, None, reduction)
    if not isinstance(var, Tensor):
        var = prim.fill(tuple(input.shape), input.dtype, float(var), 0)
    if var.numel() and not is_recording():
        lowest = prim.amin(var.detach(), (), False).item()
        if lowest < 0:
            raise ValueError(f"gaussian_nll_loss: var has negative entries, the least is {lowest}")
    dtype, (input, target, variance) = wide_together(input, target, var)
    limited = prim.copy(_spread("gaussian_nll_loss", input, variance))
    limited.detach()._assign(clamp_min(limited.detach(), eps))
    losses = (prim.log(limited) + prim.square(input - target) / limited) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction, dtype=dtype)


def _spread(op: str, input: Tensor, var: Tensor) -> Tensor:
    """A variance that broadcasts along at most one dimension of the input."""
    shape, have = tuple(input.shape), tuple(var.shape)
    if shape == have:
        return var
    if shape[:-1] == have:
        return prim.reshape(var, (*have, 1))
    # PyTorch's rule: the sizes that differ add up to 1, so there is one of them.
    if len(shape) == len(have) and sum(h for n, h in zip(shape, have, strict=True) if n != h) == 1:
        return var
    raise ValueError(f"{op}: var of shape {have} does not fit an input of shape {shape}")


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1; in the input's dtype."""
    reduction = reduction_of("hinge_embedding_loss", size_average, reduce, reduction)
    x = wide(input)
    apart = prim.where(prim.ne(target, 1), clamp_min(margin - x, 0.0), 0.0)
    losses = apart + prim.where(prim.ne(target, -1), x, 0.0)
    return reduced(to_dtype(losses, x.dtype), reduction, dtype=input.dtype)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-t x)) of targets 1 and -1; in the input's dtype, a float."""
    reduction = reduction_of("soft_margin_loss", size_average, reduce, reduction)
    _need_float("soft_margin_loss", input)
    x = wide(input)
    return reduced(to_dtype(-logsigmoid(wide(target) * x), x.dtype), reduction, dtype=input.dtype)


# PyTorch's functions of the package by these names have another order of arguments.
EXPORTS: dict[str, Any] = {}
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f
    for f in (
        mse_loss, l1_loss, smooth_l1_loss, huber_loss, binary_cross_entropy, gaussian_nll_loss,
        soft_margin_loss, binary_cross_entropy_with_logits, kl_div, poisson_nll_loss,
        hinge_embedding_loss,
    )
}  # fmt: skip
