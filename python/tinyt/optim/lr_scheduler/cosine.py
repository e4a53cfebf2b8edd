"""Cosine annealing, with and without restarts (Loshchilov & Hutter 2017)."""

# ruff: noqa: D102
# (get_lr is described by the class.)

from __future__ import annotations

import math

from tinyt.optim.lr_scheduler.base import LRScheduler
from tinyt.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """eta_min + (base_lr - eta_min) (1 + cos(π epoch / T_max)) / 2."""

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_max <= 0:
            raise ValueError(f"CosineAnnealingLR: T_max must be positive, got {T_max}")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        epoch, period, low = self.last_epoch, self.T_max, self.eta_min
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:
            # The last rate was the minimum, from which no ratio leads up again.
            return [
                lr + (base - low) * (1 - math.cos(math.pi / period)) / 2
                for lr, base in zip(self._current(), self.base_lrs, strict=True)
            ]
        now, before = (1 + math.cos(math.pi * e / period) for e in (epoch, epoch - 1))
        return [now / before * (lr - low) + low for lr in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        low, turn = self.eta_min, math.cos(math.pi * self.last_epoch / self.T_max)
        return [low + (base - low) * (1 + turn) / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing over `T_0` epochs, then again over `T_mult` times as many, and so on.

    `step(epoch)` with a fraction sets the rate within an epoch.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        low, turn = self.eta_min, math.cos(math.pi * self.T_cur / self.T_i)
        return [low + (base - low) * (1 + turn) / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Goes to the next epoch, or to `epoch`, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._locate(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)

    def _locate(self, epoch: float) -> None:
        """Sets the length of the cycle that `epoch` is in, and the position in it."""
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        start, self.T_i = 0, self.T_0
        if self.T_mult == 1:
            start = int(epoch // self.T_0) * self.T_0
        while epoch >= start + self.T_i:
            start += self.T_i
            self.T_i *= self.T_mult
        self.T_cur = epoch - start
