"""RMSprop (Hinton 2012; centered: Graves 2013)."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt._core import rmsprop_step
from tinyt.ops import zeros_like
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
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g²; p = p - lr g / (√v + eps).

    Args:
        params: parameters or groups.
        lr: learning rate.
        alpha: decay of the running mean of squares.
        eps: keeps the denominator from zero.
        weight_decay: adds weight_decay * p to the gradient.
        momentum: of the update; none at 0.
        centered: divides by the standard deviation: v minus the squared running mean.
        capturable, foreach: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("epsilon value", eps)
        require_non_negative("momentum value", momentum)
        require_non_negative("weight_decay value", weight_decay)
        require_non_negative("alpha value", alpha)
        refuse_differentiable("RMSprop", differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["square_avg"] = zeros_like(param)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)

    def _update_all(self, batch: Batch, group: ParamGroup) -> Iterable[int]:
        return rmsprop_step(
            batch.params,
            batch.grads,
            batch.state("step"),
            batch.state("square_avg"),
            batch.state("grad_avg") if group["centered"] else [],
            batch.state("momentum_buffer") if group["momentum"] > 0 else [],
            learning_rate(group),
            group["alpha"],
            group["eps"],
            group["weight_decay"],
            group["momentum"],
            group["maximize"],
        )

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        alpha, lr, square = group["alpha"], learning_rate(group), state["square_avg"]
        state["step"].add_(1)
        grad = decayed(param, grad, group)
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"].lerp_(grad, 1 - alpha)
            scale = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            scale = square.sqrt()
        scale.add_(group["eps"])
        if group["momentum"] > 0:
            velocity = state["momentum_buffer"].mul_(group["momentum"]).addcdiv_(grad, scale)
            param.add_(velocity, alpha=-lr)
        else:
            param.addcdiv_(grad, scale, value=-lr)


rmsprop = FunctionalForm(RMSprop)
