"""`LRScheduler`: what every schedule shares.

Each step computes the new rate from the current one where PyTorch does, so schedules that are
applied to the same optimiser combine the same way, to the last bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from tinyt.optim.optimizer import Optimizer, ParamGroup
from tinyt.tensor import Tensor


class LRScheduler:
    """Base class: a subclass defines `get_lr`, the rates of all groups at `last_epoch`.

    Making one sets the rates of epoch 0; call `step()` after `optimizer.step()`. A subclass may
    define `_get_closed_form_lr` too: the rates at `last_epoch` without looking at the current ones.

    Args:
        optimizer: whose groups are changed.
        last_epoch: index of the last epoch when a run is resumed; -1 starts anew.
    """

    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0."
                )
        self.base_lrs: list[float] = [own(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._get_lr_called_within_step = False
        self._initial_step()

    def _initial_step(self) -> None:
        """Sets epoch 0, which is no step: `_is_initial` tells `get_lr` so."""
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`; called by `step` (see `get_last_lr`)."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that the last `step` set; a tensor where the optimiser's rate is one."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch, or to `epoch`, and sets its rates."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first rate "
                "of the schedule is skipped. Call them in the opposite order.",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        compute = self.get_lr
        if epoch is None:
            self.last_epoch += 1
        else:
            self.last_epoch = epoch
            compute = getattr(self, "_get_closed_form_lr", compute)
        self._set(compute)

    def _set(self, compute: Any) -> None:
        """Gives every group the rate that `compute` says."""
        self._get_lr_called_within_step = True
        try:
            rates = compute()
        finally:
            self._get_lr_called_within_step = False
        groups = self.optimizer.param_groups
        for group, lr in zip(groups, rates, strict=True):
            set_lr(group, lr)
        self._last_lr = self._current()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`; the optimiser's own rates come with its state."""
        self.__dict__.update(state_dict)

    def _current(self) -> list[float]:
        return [own(group["lr"]) for group in self.optimizer.param_groups]


def check_optimizer(optimizer: object) -> None:
    """Raises TypeError for what is no optimiser."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def own(value: Any) -> Any:
    """The number, or a copy of the tensor, which does not change with the optimiser's rate."""
    return value.clone() if isinstance(value, Tensor) else value


def set_lr(group: ParamGroup, lr: Any) -> None:
    """Sets the rate of a group; a tensor is filled, so that others who hold it see the value."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(float(lr))
    else:
        group["lr"] = lr


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per group: a list as it is, a single value repeated."""
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [own(value) for _ in range(groups)]
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. "
            f"{name} has {len(value)} values, param_groups has {groups}."
        )
    return [own(item) for item in value]


def set_momentum(group: ParamGroup, momentum: float) -> None:
    """Sets what a cycle calls momentum: `betas[0]` of Adam's kind, else `momentum`."""
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def start_momentum_cycle(
    optimizer: Optimizer, highest: Iterable[float], lowest: Iterable[float], fresh: bool
) -> bool:
    """Puts the bounds of a momentum cycle into the groups; whether `betas` carries it."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    if fresh:
        for high, low, group in zip(highest, lowest, optimizer.param_groups, strict=True):
            set_momentum(group, high)
            group["max_momentum"] = high
            group["base_momentum"] = low
    return "betas" in optimizer.defaults
