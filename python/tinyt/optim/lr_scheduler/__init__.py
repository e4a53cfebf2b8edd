"""Learning-rate schedules with PyTorch's formulas, recurrences and state layout."""

from __future__ import annotations

from tinyt.optim.lr_scheduler.base import LRScheduler
from tinyt.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from tinyt.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts
from tinyt.optim.lr_scheduler.cycle import CyclicLR, OneCycleLR
from tinyt.optim.lr_scheduler.decay import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from tinyt.optim.lr_scheduler.plateau import ReduceLROnPlateau

_LRScheduler = LRScheduler  # the name before PyTorch 2.0, which subclasses still use

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
