"""Cyclical rates (Smith 2017) and one cycle (Smith & Topin 2018)."""

# ruff: noqa: D102
# (get_lr is described by the class.)

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from tinyt.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    per_group,
    set_lr,
    set_momentum,
    start_momentum_cycle,
)
from tinyt.optim.optimizer import Optimizer


class CyclicLR(LRScheduler):
    """Moves the rate between `base_lr` and `max_lr` in triangles; the momentum moves against it.

    Args:
        optimizer: whose groups are changed.
        base_lr, max_lr: the bounds, for all groups or a list with one for each.
        step_size_up, step_size_down: steps of the two halves of a cycle; equal by default.
        mode: "triangular", "triangular2" (each cycle half as high) or "exp_range"
            (height gamma ** step).
        gamma: of "exp_range".
        scale_fn, scale_mode: a height instead of `mode`, as a function of the "cycle" or of the
            "iterations".
        cycle_momentum: whether the momentum (or the first beta) cycles too.
        base_momentum, max_momentum: its bounds.
        last_epoch: index of the last step when a run is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_lr(group, lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(f"mode is invalid and scale_fn is None: {mode!r}")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
            self.use_beta1 = start_momentum_cycle(
                optimizer, self.max_momentums, self.base_momentums, last_epoch == -1
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of the cycle, by cycle or by step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / float(2.0 ** (x - 1))
        return float(self.gamma**x) if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        part = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, bounds, strict=True):
                set_momentum(group, high - (high - low) * part * height)
        return [
            low + (high - low) * part * height
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimiser; of a height function only an object's attributes."""
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        plain = function is None or isinstance(function, FunctionType)
        state["_scale_fn_custom"] = None if plain else dict(function.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over all but the height function, whose attributes are updated."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        attributes = state_dict["_scale_fn_custom"]
        if attributes is not None:
            self._scale_fn_custom.__dict__.update(attributes)


def _cosine(start: float, end: float, part: float) -> float:
    return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)


def _line(start: float, end: float, part: float) -> float:
    return (end - start) * part + start


def _positive_int(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value


class OneCycleLR(LRScheduler):
    """Rises from max_lr / div_factor to `max_lr`, then falls to the start / final_div_factor;
    the momentum falls and rises. One `step` per batch.

    Args:
        optimizer: whose groups are changed.
        max_lr: the highest rate, for all groups or a list with one for each.
        total_steps: length of the cycle; or `epochs` times `steps_per_epoch`.
        pct_start: which part of the cycle rises.
        anneal_strategy: "cos" or "linear".
        cycle_momentum: whether the momentum (or the first beta) cycles too.
        base_momentum, max_momentum: its bounds.
        div_factor, final_div_factor: see above.
        three_phase: falls as long as it rose, then to the end.
        last_epoch: index of the last step when a run is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        if total_steps is not None:
            self.total_steps = _positive_int("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _positive_int("epochs", epochs)
            self.total_steps *= _positive_int("steps_per_epoch", steps_per_epoch)
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        highest = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(highest, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = start_momentum_cycle(
                optimizer,
                per_group("max_momentum", optimizer, max_momentum),
                per_group("base_momentum", optimizer, base_momentum),
                last_epoch == -1,
            )
        super().__init__(optimizer, last_epoch)

    def _phases(self, rise: float, three: bool) -> list[dict[str, Any]]:
        """Each phase's last step, and the options of a group that it leads from and to."""
        top = float(rise * self.total_steps) - 1
        steps = [
            (top, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
            (self.total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum"),
        ]
        if three:
            down = float(2 * rise * self.total_steps) - 2
            steps[1:] = [
                (down, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                (self.total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        return [dict(zip(names, step, strict=True)) for step in steps]

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. "
                f"The specified number of total steps is {self.total_steps}"
            )
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (step - start) / (phase["end_step"] - start)
        between = _cosine if self._anneal_func_type == "cos" else _line
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                first, last = group[phase["start_momentum"]], group[phase["end_momentum"]]
                set_momentum(group, between(first, last, part))
        return rates
