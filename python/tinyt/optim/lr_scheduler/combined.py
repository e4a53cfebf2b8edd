"""Schedules made of schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from tinyt.optim.lr_scheduler.base import LRScheduler, set_lr
from tinyt.optim.lr_scheduler.plateau import ReduceLROnPlateau
from tinyt.optim.optimizer import Optimizer


class _Combined(LRScheduler):
    """Holds several schedules of one optimiser."""

    def __init__(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    "additional kwargs to be specified when calling `step`, but got one at "
                    f"index {i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} of another one."
                )
        self.optimizer = optimizer
        self._schedulers = schedulers

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser, with the state of each schedule."""
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over a `state_dict`."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class ChainedScheduler(_Combined):
    """Steps every schedule, one after another, each on the rate that the one before left."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        super().__init__(optimizer, schedulers)
        self._last_lr = self._current()

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step(epoch)
        self._last_lr = self._current()


class SequentialLR(_Combined):
    """One schedule after another: the next takes over, from its epoch 0, at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        super().__init__(optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_lr(group, group["initial_lr"])
        # Each schedule set its epoch 0 when it was made; only the first one's counts.
        _undo_first_step(self)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self, epoch: int | None = None) -> None:
        """Goes to the next epoch of the schedule whose turn it is."""
        if epoch is not None:
            raise ValueError("SequentialLR: step takes no epoch")
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo_first_step(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, _Combined):
        for part in scheduler._schedulers:
            _undo_first_step(part)
    elif hasattr(scheduler, "last_epoch"):
        scheduler.last_epoch -= 1
