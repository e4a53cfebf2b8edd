"""RAdam (Liu et al. 2020)."""

from __future__ import annotations

from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    decayed,
    learning_rate,
    moments,
    next_step,
    refuse_differentiable,
    require_betas,
    require_non_negative,
)
from tinyt.tensor import Tensor


class RAdam(Optimizer):
    """Adam whose step is rectified by the variance of the running mean of squares, and plain
    momentum while that variance is unbounded (the first few steps).

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the running mean of the gradient and of its square.
        eps: keeps the denominator from zero.
        weight_decay: adds weight_decay * p to the gradient.
        decoupled_weight_decay: shrinks p by lr * weight_decay instead, as in AdamW.
        foreach, capturable: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("epsilon value", eps)
        require_betas(betas)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable("RAdam", differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state.update(moments(param))

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        (beta1, beta2), lr = group["betas"], learning_rate(group)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        step = next_step(state)
        grad = decayed(param, grad, group)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction2 = 1 - beta2**step
        # The length of the simple moving average that the running mean stands for.
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction2
        update = mean * (lr / (1 - beta1**step))
        if length > 5.0:
            numerator = (length - 4) * (length - 2) * limit
            rectified = (numerator / ((limit - 4) * (limit - 2) * length)) ** 0.5
            scale = square.sqrt().add_(group["eps"])
            update.div_(scale).mul_(rectified * correction2**0.5)
        param.sub_(update)


radam = FunctionalForm(RAdam)
