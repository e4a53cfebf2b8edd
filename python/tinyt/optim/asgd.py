"""Averaged stochastic gradient descent (Polyak & Juditsky 1992)."""

from __future__ import annotations

from tinyt.ops import zeros_like
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
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


class ASGD(Optimizer):
    """p = (1 - lambd η) p - η g with η = lr / (1 + lambd lr t)^alpha; `state["ax"]` is the mean of
    the parameters since step t0.

    Args:
        params: parameters or groups.
        lr: learning rate.
        lambd: decay of the parameters.
        alpha: power of the falling rate.
        t0: the step at which averaging starts.
        weight_decay: adds weight_decay * p to the gradient.
        foreach, capturable: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    _numbers = ("step", "eta", "mu")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable("ASGD", differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["eta"] = counter(learning_rate(group))
        state["mu"] = counter(1.0)
        state["ax"] = zeros_like(param)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        lr, lambd = learning_rate(group), group["lambd"]
        step, rate, weight = next_step(state), state["eta"].item(), state["mu"].item()
        grad = decayed(param, grad, group)
        param.mul_(1 - lambd * rate).add_(grad, alpha=-rate)
        mean = state["ax"]
        if weight == 1:
            mean.copy_(param)
        else:
            mean.add_(param.sub(mean).mul_(weight))
        state["eta"].fill_(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


asgd = FunctionalForm(ASGD)
