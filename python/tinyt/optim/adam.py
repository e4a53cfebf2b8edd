"""Adam (Kingma & Ba 2015)."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt._core import adam_step
from tinyt.ops import maximum, zeros_like
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Batch,
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


def _is_counted_there(param: Tensor, group: ParamGroup) -> bool:
    """Whether a parameter's steps are counted on its device."""
    return bool(group["capturable"]) and param.is_cuda


class Adam(Optimizer):
    """m = β₁ m + (1 - β₁) g; v = β₂ v + (1 - β₂) g²; p = p - lr m̂ / (√v̂ + eps), where m̂ and v̂
    are m and v divided by 1 - βᵗ.

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the running mean of the gradient and of its square.
        eps: keeps the denominator from zero.
        weight_decay: adds weight_decay * p to the gradient.
        amsgrad: takes the largest v so far (Reddi et al. 2018).
        maximize: ascends instead of descends.
        foreach, fused: PyTorch's hints about its implementations; kept in the state, no effect.
        capturable: whether steps of parameters on a CUDA device are counted there, in device
            operations alone, so that `cuda.graph` can capture them.
        differentiable: must be False.
        decoupled_weight_decay: shrinks p by lr * weight_decay instead, which makes it AdamW.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("epsilon value", eps)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable(type(self).__name__, differentiable)
        require_betas(betas)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state.update(moments(param, _is_counted_there(param, group)))
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)

    def _adopt_state(self, values: ParamState, param: Tensor, group: ParamGroup) -> ParamState:
        state = super()._adopt_state(values, param, group)
        if "step" in state and _is_counted_there(param, group):
            state["step"] = state["step"].to(param.device)
        return state

    def _update_all(self, batch: Batch, group: ParamGroup) -> Iterable[int]:
        beta1, beta2 = group["betas"]
        if any(step.is_cuda for step in batch.state("step")):
            return super()._update_all(batch, group)
        return adam_step(
            batch.params,
            batch.grads,
            batch.state("step"),
            batch.state("exp_avg"),
            batch.state("exp_avg_sq"),
            batch.state("max_exp_avg_sq") if group["amsgrad"] else [],
            learning_rate(group),
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            bool(group.get("decoupled_weight_decay")),
            group["maximize"],
        )

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        """In PyTorch's order of operations."""
        (beta1, beta2), lr = group["betas"], group["lr"]
        mean, mean_square = state["exp_avg"], state["exp_avg_sq"]
        if state["step"].is_cuda:  # numbers are read nowhere
            step = state["step"].add_(1)
        else:
            step, lr = next_step(state), learning_rate(group)
        grad = decayed(param, grad, group)
        mean.lerp_(grad, 1 - beta1)
        mean_square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            mean_square = maximum(largest, mean_square, out=largest)
        correction = (1 - beta2**step) ** 0.5
        denominator = mean_square.sqrt().div_(correction).add_(group["eps"])
        rate = -lr / (1 - beta1**step)
        if isinstance(rate, Tensor):
            param.add_(mean / denominator * rate)
        else:
            param.addcdiv_(mean, denominator, value=rate)


adam = FunctionalForm(Adam)
