"""Stochastic gradient descent with momentum (Sutskever et al. 2013, in PyTorch's form)."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt._core import sgd_step
from tinyt.ops import empty_like
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import (
    Batch,
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    decayed,
    learning_rate,
    need_states,
    refuse_differentiable,
    require_non_negative,
)
from tinyt.tensor import Tensor


class SGD(Optimizer):
    """v = momentum v + (1 - dampening) g; p = p - lr v, where the first v is g.

    Args:
        params: parameters or groups.
        lr: learning rate.
        momentum: how much of the last update is kept.
        dampening: how much of the gradient is held back from the momentum.
        weight_decay: adds weight_decay * p to the gradient.
        nesterov: steps along g + momentum v instead of v.
        maximize: ascends instead of descends.
        foreach, fused: PyTorch's hints about its implementations; kept in the state, no effect.
        differentiable: must be False.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        require_non_negative("learning rate", lr)
        require_non_negative("momentum value", momentum)
        require_non_negative("weight_decay value", weight_decay)
        refuse_differentiable("SGD", differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _update_all(self, batch: Batch, group: ParamGroup) -> Iterable[int]:
        momenta: list[Tensor] = []
        first: list[bool] = []
        if group["momentum"] != 0:
            for param, state in zip(batch.params, batch.states, strict=True):
                velocity = state.get("momentum_buffer")
                if velocity is None:
                    need_states()
                first.append(velocity is None)
                momenta.append(empty_like(param) if velocity is None else velocity)
        left = sgd_step(
            batch.params,
            batch.grads,
            momenta,
            first,
            learning_rate(group),
            group["momentum"],
            group["dampening"],
            group["weight_decay"],
            group["nesterov"],
            group["maximize"],
        )
        for i, velocity in enumerate(momenta):
            if first[i] and i not in left:
                batch.states[i]["momentum_buffer"] = velocity
        return left

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        momentum = group["momentum"]
        grad = decayed(param, grad, group)
        if momentum != 0:
            velocity = state.get("momentum_buffer")
            if velocity is None:
                velocity = state["momentum_buffer"] = grad.detach().clone()
            else:
                velocity.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
            grad = grad.add(velocity, alpha=momentum) if group["nesterov"] else velocity
        param.add_(grad, alpha=-learning_rate(group))


sgd = FunctionalForm(SGD)
