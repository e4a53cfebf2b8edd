"""Adadelta (Zeiler 2012)."""

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
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


class Adadelta(Optimizer):
    """v = rho v + (1 - rho) g²; d = √(u + eps) / √(v + eps) g; u = rho u + (1 - rho) d²;
    p = p - lr d.

    Args:
        params: parameters or groups.
        lr: factor on d.
        rho: decay of the running means of squares.
        eps: keeps the roots from zero.
        weight_decay: adds weight_decay * p to the gradient.
        foreach, capturable: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        require_non_negative("epsilon value", eps)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable("Adadelta", differentiable)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["square_avg"] = zeros_like(param)
        state["acc_delta"] = zeros_like(param)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        state["step"].add_(1)
        grad = decayed(param, grad, group)
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        scale = square.add(eps).sqrt_()
        delta = moved.add(eps).sqrt_().div_(scale).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-learning_rate(group))


adadelta = FunctionalForm(Adadelta)
