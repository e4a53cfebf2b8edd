"""Resilient propagation (Riedmiller & Braun 1993)."""

from __future__ import annotations

from tinyt.ops import full_like, ones_like, zeros_like
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    counter,
    learning_rate,
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


class Rprop(Optimizer):
    """Steps by sign(g) times a size of each element's own, which grows while the sign of the
    gradient stays and shrinks when it turns; where it turned, that step is left out.

    Args:
        params: parameters or groups.
        lr: the first step size.
        etas: factors on the size: at a turn, and else.
        step_sizes: bounds of the size.
        capturable, foreach: PyTorch's hints about its implementations; kept in the state, no
            effect.
        maximize: ascends instead of descends.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        require_non_negative("learning rate", lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        refuse_differentiable("Rprop", differentiable)
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        state["prev"] = zeros_like(param)
        state["step_size"] = full_like(param, learning_rate(group))

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        (shrink, grow), (lowest, highest) = group["etas"], group["step_sizes"]
        before, size = state["prev"], state["step_size"]
        state["step"].add_(1)
        agreement = grad * before
        turned = agreement < 0
        factor = ones_like(size).masked_fill(agreement > 0, grow).masked_fill(turned, shrink)
        size.mul_(factor).clamp_(lowest, highest)
        grad = grad.masked_fill(turned, 0)
        param.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)


rprop = FunctionalForm(Rprop)
