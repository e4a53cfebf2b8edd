"""Loss layers: a prediction and a target in, a scalar out (a tensor with `reduction="none"`)."""

# ruff: noqa: D102
# (forward is described by the class.)

from __future__ import annotations

from tinyt.nn import functional as F
from tinyt.nn.module import Module
from tinyt.tensor import Tensor


class _WeightedLoss(Module):
    weight: Tensor | None

    def __init__(self, weight: Tensor | None, ignore_index: int, reduction: str) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of logits (N, C, ...) and class indices (N, ...) or probabilities.

    Args:
        weight: one factor per class, (C,).
        ignore_index: class index that counts for nothing.
        reduction: "mean", "sum" or "none".
        label_smoothing: share of the target spread evenly over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """Negative log likelihood of log probabilities (N, C, ...) and class indices (N, ...)."""

    def __init__(
        self, weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean"
    ) -> None:
        super().__init__(weight, ignore_index, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class _DistanceLoss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction


class L1Loss(_DistanceLoss):
    """Mean of |input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_DistanceLoss):
    """Mean of (input - target)²."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)
