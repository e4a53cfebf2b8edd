"""Averages of weights: of steps (Izmailov et al. 2018) or exponential."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from tinyt.autograd import no_grad
from tinyt.dtypes import int64
from tinyt.nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, Module
from tinyt.ops import tensor
from tinyt.optim.lr_scheduler.base import LRScheduler, per_group
from tinyt.optim.optimizer import Optimizer
from tinyt.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Tensor | int], Tensor]
MultiAverage = Callable[[list[Tensor], list[Tensor], Tensor | int], None]


def get_swa_avg_fn() -> Average:
    """The mean of all weights so far: a + (w - a) / (n + 1)."""

    @no_grad()
    def average(averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        return averaged + (current - averaged) / (int(count) + 1)

    return average


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The exponential mean: decay a + (1 - decay) w."""
    _check_decay(decay)

    @no_grad()
    def average(averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
        return decay * averaged + (1 - decay) * current

    return average


def get_swa_multi_avg_fn() -> MultiAverage:
    """:func:`get_swa_avg_fn` for lists, in place."""
    return _in_place(lambda count: 1.0 / (int(count) + 1))


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """:func:`get_ema_avg_fn` for lists, in place."""
    _check_decay(decay)
    return _in_place(lambda count: 1 - decay)


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _in_place(weight: Callable[[Tensor | int], float]) -> MultiAverage:
    @no_grad()
    def update(averaged: list[Tensor], current: list[Tensor], count: Tensor | int) -> None:
        for a, w in zip(averaged, current, strict=True):
            if a.dtype.is_floating_point or a.dtype.is_complex:
                a.lerp_(w.to(a.dtype), weight(count))
            else:
                a.copy_(a + (w - a) * weight(count))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages; call `update_parameters` after each step.

    Args:
        model: what is copied.
        device: the CPU or None.
        avg_fn: average of one tensor: `avg_fn(averaged, current, count)`.
        multi_avg_fn: of lists, in place; excludes avg_fn. The mean of all by default.
        use_buffers: whether buffers are averaged too, instead of copied.
    """

    n_averaged: Tensor
    module: Module

    def __init__(
        self,
        model: Module,
        device: object = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model) if device is None else deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the averaged copy."""
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Takes the weights of `model` into the averages."""
        averaged, current = self._values(self.module), self._values(model)
        if self.n_averaged.item() == 0:
            for a, w in zip(averaged, current, strict=True):
                a.copy_(w)
        elif self.avg_fn is None:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(averaged, current, self.n_averaged)
        else:
            for a, w in zip(averaged, current, strict=True):
                a.copy_(self.avg_fn(a, w, self.n_averaged))
        if not self.use_buffers:
            for a, w in zip(self.module.buffers(), model.buffers(), strict=True):
                a.copy_(w)
        self.n_averaged.add_(1)

    def _values(self, model: Module) -> list[Tensor]:
        values = chain(model.parameters(), model.buffers() if self.use_buffers else ())
        return [value.detach() for value in values]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: object = None) -> None:
    """Computes the running statistics of batch norms anew, as the means over `loader`.

    Its batches are tensors, or sequences whose first member is the input, which goes to ``device``
    if one is given.
    """
    kinds = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
    norms: list[Any] = [m for m in model.modules() if isinstance(m, kinds)]
    if not norms:
        return
    momenta, was_training = [norm.momentum for norm in norms], model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    try:
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Moves the rate to `swa_lr` over `anneal_epochs`, and leaves it there.

    Args:
        optimizer: whose groups are changed.
        swa_lr: the last rate, for all groups or a list with one for each.
        anneal_epochs: how long it takes.
        anneal_strategy: "cos" or "linear".
        last_epoch: index of the last epoch when a run is resumed.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for lr, group in zip(
            per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = lr
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """How much of the way is done after a number of steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[float]:
        """The rates of the groups at this step, from those before it."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group, lr in zip(self.optimizer.param_groups, self._current(), strict=True):
            last = group["swa_lr"]
            first = last if before == 1 else (lr - before * last) / (1 - before)
            rates.append(last * now + first * (1 - now))
        return rates
