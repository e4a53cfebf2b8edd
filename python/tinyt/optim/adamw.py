"""Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019)."""

from __future__ import annotations

from typing import Any

from tinyt.dtypes import float32
from tinyt.ops import maximum, tensor, zeros_like
from tinyt.optim.optimizer import (
    Optimizer,
    ParamGroup,
    Params,
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


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
        foreach, capturable, fused: PyTorch's hints about its implementations; kept in the state,
            no effect.
        differentiable: must be False.
        decoupled_weight_decay: shrinks p by lr * weight_decay instead, which makes it AdamW.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
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
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
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

    def _update_group(self, group: ParamGroup) -> None:
        for param in group["params"]:
            if param.grad is not None:
                _adam_step(param, param.grad, self._state_of(param, group), group)

    def _state_of(self, param: Tensor, group: ParamGroup) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            state["step"] = tensor(0.0, dtype=float32)
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(param)
        return state


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not on the gradient.

    Arguments as `Adam`; `weight_decay` defaults to 0.01.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


def _adam_step(param: Tensor, grad: Tensor, state: dict[str, Any], group: ParamGroup) -> None:
    """One update of one parameter, in PyTorch's order of operations."""
    (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
    mean, mean_square = state["exp_avg"], state["exp_avg_sq"]
    if group["maximize"]:
        grad = -grad
    state["step"].add_(1)
    step = state["step"].item()
    if decay != 0:
        if group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        else:
            grad = grad.add(param, alpha=decay)
    mean.mul_(beta1).add_(grad, alpha=1 - beta1)
    mean_square.mul_(beta2).add_(grad * grad, alpha=1 - beta2)
    if group["amsgrad"]:
        largest = state["max_exp_avg_sq"]
        largest.copy_(maximum(largest, mean_square))
        mean_square = largest
    correction = (1 - beta2**step) ** 0.5
    denominator = (mean_square.sqrt() / correction).add_(group["eps"])
    param.add_(mean / denominator, alpha=-lr / (1 - beta1**step))
