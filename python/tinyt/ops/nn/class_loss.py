"""Losses of classifiers: inputs [N, C, ...] or [C], targets of class indices or of weights."""

from __future__ import annotations

from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import int64
from tinyt.ops.common import in_float32
from tinyt.ops.nn.activation import logsigmoid
from tinyt.ops.nn.loss import Flag, reduced, reduction_of
from tinyt.ops.reduce.reductions import mean
from tinyt.tensor import Tensor, prim


def _class_dim(op: str, input: Tensor) -> int:
    """Which dimension holds the classes; ShapeError for a 0-d input."""
    if input.dim() == 0:
        raise ShapeError(f"{op}: needs at least 1 dimension, got shape ()")
    return 1 if input.dim() > 1 else 0


def _check_target(op: str, input: Tensor, target: Tensor) -> Tensor:
    """Class indices as int64; their shape is the input's without its class dimension."""
    shape = tuple(input.shape)
    expected = (*shape[:1], *shape[2:]) if len(shape) > 1 else ()
    if tuple(target.shape) != expected:
        raise ShapeError(
            f"{op}: target must have shape {expected} for input {shape}, got {tuple(target.shape)}"
        )
    if target.dtype.name == "uint8":
        return prim.cast(target, int64)
    if target.dtype is not int64:
        raise DTypeError(f"{op}: class indices must be int64, got {target.dtype.name}")
    return target


def _check_weight(op: str, weight: Tensor | None, classes: int) -> None:
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError(f"{op}: weight must have shape ({classes},), got {tuple(weight.shape)}")


def _along(dim: int, rank: int, values: Tensor) -> Tensor:
    """One value a class, shaped to broadcast along the class dimension."""
    return prim.reshape(values, (-1,) + (1,) * (rank - 1 - dim))


class _Targets:
    """Class indices made safe to gather with, and the weight that each of them has."""

    def __init__(
        self, op: str, input: Tensor, target: Tensor, weight: Tensor | None, ignore_index: int
    ) -> None:
        self.dim = _class_dim(op, input)
        target = _check_target(op, input, target)
        _check_weight(op, weight, input.shape[self.dim])
        self.used = prim.ne(target, ignore_index)
        safe = prim.where(self.used, target, 0)
        shape = tuple(input.shape)
        self.index = prim.reshape(safe, (*shape[: self.dim], 1, *shape[self.dim + 1 :]))
        self.weights = prim.cast(self.used, input.dtype)
        if weight is not None:
            flat = prim.gather(weight, prim.reshape(safe, (safe.numel(),)), 0)
            self.weights = self.weights * prim.reshape(flat, tuple(target.shape))

    def losses(self, logp: Tensor) -> Tensor:
        """Minus the weighted log-probability of each target; zero where it is ignored."""
        picked = prim.reshape(prim.gather(logp, self.index, self.dim), tuple(self.used.shape))
        # `where`, because an ignored log-probability may be infinite.
        return prim.where(self.used, picked, 0.0) * -self.weights


@in_float32
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log likelihood of class indices: input [N, C, ...] of log-probabilities.

    "mean" divides by the sum of the weights of the targets that are not ignored. IndexError for
    a target outside [0, C).
    """
    reduction = reduction_of("nll_loss", size_average, reduce, reduction)
    targets = _Targets("nll_loss", input, target, weight, ignore_index)
    return _finish(targets.losses(input), targets, reduction)


def _finish(losses: Tensor, targets: _Targets, reduction: str) -> Tensor:
    if reduction != "mean":
        return reduced(losses, reduction)
    return reduced(losses, reduction, prim.sum(targets.weights, (), False))


_REDUCTIONS = ("none", "mean", "sum")  # in the order of the row's attribute


def _is_plain(weight: Tensor | None, input: Tensor) -> bool:
    """Whether the fused row takes the weight: of the input's dtype, and not differentiated."""
    return weight is None or (weight.dtype is input.dtype and not weight.requires_grad)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    ignore_index: int = -100,
    reduce: Flag = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of logits [N, C, ...] with class indices, or with probabilities of its shape.

    ``label_smoothing`` mixes the target with the uniform distribution (Szegedy et al., 2016).
    """
    op = "cross_entropy"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"{op}: label_smoothing must be between 0 and 1, got {label_smoothing}")
    dim = _class_dim(op, input)
    if tuple(target.shape) == tuple(input.shape):
        if not target.dtype.is_floating_point:
            raise DTypeError(f"{op}: class probabilities must be floats, got {target.dtype.name}")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing, dim)
    if not label_smoothing and _is_plain(weight, input):
        target = _check_target(op, input, target)
        _check_weight(op, weight, input.shape[dim])
        part = prim.fill((), input.dtype, 1.0, 0) if weight is None else weight
        number = _REDUCTIONS.index(reduction)
        losses: Tensor = prim.softmax_nll(input, target, part, ignore_index, number)[0]
        return losses
    return _composed_cross_entropy(
        input, target, weight, reduction, label_smoothing, dim, ignore_index
    )


@in_float32
def _composed_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    label_smoothing: float,
    dim: int,
    ignore_index: int,
) -> Tensor:
    """Cross-entropy with class indices, where these are smoothed or the weights differentiated."""
    targets = _Targets("cross_entropy", input, target, weight, ignore_index)
    logp = prim.log_softmax(input, dim)
    losses = targets.losses(logp)
    if label_smoothing:
        classes = input.shape[dim]
        weighted = logp if weight is None else logp * _along(dim, input.dim(), weight)
        spread = prim.where(targets.used, -prim.sum(weighted, (dim,), False), 0.0)
        losses = losses * (1.0 - label_smoothing) + spread * (label_smoothing / classes)
    return _finish(losses, targets, reduction)


@in_float32
def _soft_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    label_smoothing: float,
    dim: int,
) -> Tensor:
    """Cross-entropy with probabilities; "mean" divides by the number of distributions."""
    classes = input.shape[dim]
    _check_weight("cross_entropy", weight, classes)
    logp = prim.log_softmax(input, dim)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    if weight is not None:
        logp = logp * _along(dim, input.dim(), weight)
    return reduced(-prim.sum(logp * target, (dim,), False), reduction)


def _rows(op: str, input: Tensor) -> Tensor:
    """Input [N, C] or [C] as rows; ShapeError for another rank or no class."""
    if input.dim() not in (1, 2) or input.shape[-1] == 0:
        raise ShapeError(f"{op}: input must be [N, C] or [C] with C > 0, got {tuple(input.shape)}")
    return prim.reshape(input, (-1, input.shape[-1])) if input.numel() else input


@in_float32
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum over the wrong classes i of max(0, margin - x[y] + x[i])^p / C (Crammer & Singer, 2001).

    ``weight``: one factor per class y, inside the power.
    """
    op = "multi_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"{op}: p must be 1 or 2, got {p}")
    rows = _rows(op, input)
    classes = rows.shape[1]
    if weight is not None and weight.dim() != 1:
        raise ValueError(f"{op}: weight must be 1-d, got shape {tuple(weight.shape)}")
    _check_weight(op, weight, classes)
    target = _check_target(op, input, target)
    index = prim.reshape(target, (rows.shape[0], 1))
    gaps = rows - prim.gather(rows, index, 1) + margin
    wrong = prim.ne(prim.iota(classes, int64, 0.0, 0.0, 0, 1), index)
    hinge = prim.where(prim.logical_and(wrong, prim.gt(gaps, 0.0)), gaps, 0.0)
    if p == 2:
        hinge = hinge * hinge
    losses = prim.sum(hinge, (1,), False) / float(classes)
    if weight is not None:
        losses = losses * prim.gather(weight, prim.reshape(index, (index.numel(),)), 0)
    return reduced(prim.reshape(losses, tuple(target.shape)), reduction)


@in_float32
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Sum over target classes j and the other classes i of max(0, 1 - x[j] + x[i]) / C.

    Each row of ``target``, of the input's shape, lists class indices and ends at its first -1.
    """
    op = "multilabel_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    rows = _rows(op, input)
    if tuple(target.shape) != tuple(input.shape):
        raise ShapeError(
            f"{op}: target must have shape {tuple(input.shape)}, got {tuple(target.shape)}"
        )
    if target.dtype is not int64:
        raise DTypeError(f"{op}: class indices must be int64, got {target.dtype.name}")
    n, classes = rows.shape
    target = prim.reshape(target, (n, classes))
    listed = prim.eq(prim.cumsum(prim.lt(target, 0), 1), 0)
    index = prim.where(listed, target, 0)
    marks = prim.scatter_add(
        prim.fill((n, classes), int64, 0.0, 0), index, prim.cast(listed, int64), 1
    )
    other = prim.eq(marks, 0)
    wanted = prim.reshape(prim.gather(rows, index, 1), (n, classes, 1))
    gaps = prim.reshape(rows, (n, 1, classes)) - wanted + 1.0
    pairs = prim.logical_and(
        prim.reshape(listed, (n, classes, 1)), prim.reshape(other, (n, 1, classes))
    )
    hinge = prim.where(prim.logical_and(pairs, prim.gt(gaps, 0.0)), gaps, 0.0)
    losses = prim.sum(hinge, (1, 2), False) / float(classes)
    return reduced(prim.reshape(losses, tuple(input.shape[:-1])), reduction)


@in_float32
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Flag = None,
    reduce: Flag = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of sigmoid(input), averaged over the classes: the last dimension."""
    op = "multilabel_soft_margin_loss"
    reduction = reduction_of(op, size_average, reduce, reduction)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(mean(losses, -1), reduction)


EXPORTS: dict[str, Any] = {}
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f
    for f in (
        nll_loss, cross_entropy, multi_margin_loss, multilabel_margin_loss,
        multilabel_soft_margin_loss,
    )
}  # fmt: skip
