"""The rate falls when a measured value stops getting better."""

from __future__ import annotations

import math
from typing import SupportsFloat

from tinyt.optim.lr_scheduler.base import LRScheduler, check_optimizer, set_lr
from tinyt.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` after more than `patience` epochs without improvement.

    Args:
        optimizer: whose groups are changed.
        mode: "min" or "max": which direction is better.
        factor: below 1.
        patience: epochs without improvement that are let pass.
        threshold, threshold_mode: how much better counts: a part of the best value ("rel") or an
            amount ("abs").
        cooldown: epochs after a change in which nothing is counted.
        min_lr: the lowest rate, for all groups or a list with one for each.
        eps: smaller changes are not made.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        check_optimizer(optimizer)
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        groups = len(optimizer.param_groups)
        self.default_min_lr: float | None = None
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != groups:
                raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        else:
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * groups
        self.factor = factor
        self.optimizer = optimizer
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._current()
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Ends an epoch whose measured value is `metrics`."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was made so recently that nothing is counted."""
        return self.cooldown_counter > 0

    def _is_better(self, value: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bound = self.best * (1.0 + sign * self.threshold)
        else:
            bound = self.best + sign * self.threshold
        return value < bound if self.mode == "min" else value > bound

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau: {len(self.min_lrs)} min_lrs for {len(groups)} groups; "
                    "extend `min_lrs` after adding a group"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, lowest)
            if before - after > self.eps:
                set_lr(group, after)
