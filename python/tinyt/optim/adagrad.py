"""Adagrad (Duchi et al. 2011)."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt._core import adagrad_step
from tinyt.ops import full_like
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Batch,
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    counter,
    decayed,
    learning_rate,
    next_step,
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


class Adagrad(Optimizer):
    """s = s + g²; p = p - lr / (1 + (t - 1) lr_decay) g / (√s + eps).

    Args:
        params: parameters or groups.
        lr: learning rate.
        lr_decay: how fast it falls.
        weight_decay: adds weight_decay * p to the gradient.
        initial_accumulator_value: what s starts with.
        eps: keeps the denominator from zero.
        foreach, fused: PyTorch's hints about its implementations; kept in the state, no effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("lr_decay value", lr_decay)
        require_non_negative("weight_decay value", weight_decay)
        require_non_negative("initial_accumulator_value value", initial_accumulator_value)
        require_non_negative("epsilon value", eps)
        refuse_differentiable("Adagrad", differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        # PyTorch's state exists before the first step.
        for group in self.param_groups:
            for param in group["params"]:
                self._init_state(self.state[param], param, group)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["sum"] = full_like(param, self.defaults["initial_accumulator_value"])

    def _update_all(self, batch: Batch, group: ParamGroup) -> Iterable[int]:
        return adagrad_step(
            batch.params,
            batch.grads,
            batch.state("step"),
            batch.state("sum"),
            learning_rate(group),
            group["lr_decay"],
            group["eps"],
            group["weight_decay"],
            group["maximize"],
        )

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        step = next_step(state)
        lr = learning_rate(group) / (1 + (step - 1) * group["lr_decay"])
        grad = decayed(param, grad, group)
        scale = state["sum"].addcmul_(grad, grad, value=1).sqrt().add_(group["eps"])
        param.addcdiv_(grad, scale, value=-lr)


adagrad = FunctionalForm(Adagrad)
