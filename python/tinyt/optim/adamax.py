"""Adamax (Kingma & Ba 2015)."""

from __future__ import annotations

from tinyt.ops import maximum, zeros_like
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
    require_betas,
    require_non_negative,
)
from tinyt.tensor import Tensor


class Adamax(Optimizer):
    """m = β₁ m + (1 - β₁) g; u = max(β₂ u, |g| + eps); p = p - lr / (1 - β₁ᵗ) m / u.

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the running mean and of the running maximum.
        eps: keeps the denominator from zero.
        weight_decay: adds weight_decay * p to the gradient.
        foreach, capturable: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("epsilon value", eps)
        require_betas(betas)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable("Adamax", differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["exp_avg"] = zeros_like(param)
        state["exp_inf"] = zeros_like(param)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        beta1, beta2 = group["betas"]
        step = next_step(state)
        grad = decayed(param, grad, group)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        largest = state["exp_inf"].mul_(beta2)
        maximum(largest, grad.abs().add_(group["eps"]), out=largest)
        param.addcdiv_(mean, largest, value=-learning_rate(group) / (1 - beta1**step))


adamax = FunctionalForm(Adamax)
