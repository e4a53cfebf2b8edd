"""NAdam (Dozat 2016)."""

from __future__ import annotations

from tinyt.dtypes import float64
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    counter,
    decayed,
    learning_rate,
    moments,
    next_step,
    refuse_differentiable,
    require_betas,
    require_non_negative,
)
from tinyt.tensor import Tensor


def _as_float32(x: float) -> float:
    """What float32 holds of a number, by arithmetic alone, so that a number that is read anew at
    every run stays one: Veltkamp's splitting (Dekker, "A floating-point technique for extending
    the available precision", 1971)."""
    wide = x * (2.0**29 + 1.0)
    return wide - (wide - x)


def _product(so_far: Tensor, factor: float) -> float:
    """A product as the tensor that holds it computes it."""
    if so_far.dtype is float64:
        product: float = so_far.item() * factor
        return product
    return _as_float32(so_far.item() * _as_float32(factor))


class NAdam(Optimizer):
    """Adam with Nesterov's look-ahead: μᵗ = β₁ (1 - 0.96^(t ψ) / 2);
    p = p - lr (μᵗ⁺¹ m / (1 - Πμ μᵗ⁺¹) + (1 - μᵗ) g / (1 - Πμ)) / (√v̂ + eps).

    Args:
        params: parameters or groups.
        lr: learning rate.
        betas: decay of the running mean of the gradient and of its square.
        eps: keeps the denominator from zero.
        weight_decay: adds weight_decay * p to the gradient.
        momentum_decay: ψ.
        decoupled_weight_decay: shrinks p by lr * weight_decay instead, as in AdamW.
        foreach, capturable: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    _numbers = ("step", "mu_product")

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        require_non_negative("momentum_decay value", momentum_decay)
        refuse_differentiable("NAdam", differentiable)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state.update(moments(param))
        state["mu_product"] = counter(1.0)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        (beta1, beta2), lr, decay = group["betas"], learning_rate(group), group["momentum_decay"]
        step = next_step(state)
        grad = decayed(param, grad, group)
        now, ahead = (beta1 * (1.0 - 0.5 * 0.96 ** (t * decay)) for t in (step, step + 1))
        product = _product(state["mu_product"], now)
        state["mu_product"].fill_(product)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        scale = square.div(1 - beta2**step).sqrt_().add_(group["eps"])
        param.addcdiv_(grad, scale, value=-lr * (1.0 - now) / (1.0 - product))
        param.addcdiv_(mean, scale, value=-lr * ahead / (1.0 - product * ahead))


nadam = FunctionalForm(NAdam)
