"""Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon)."""

from __future__ import annotations

import math

from tinyt.dtypes import bfloat16
from tinyt.ops import addmm, zeros_like
from tinyt.optim.optimizer import Optimizer, ParamGroup, Params, ParamState, learning_rate
from tinyt.tensor import Tensor

_RATES = (None, "original", "match_rms_adamw")


def orthogonalised(
    grad: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """A matrix of the same singular vectors with singular values near 1, in bfloat16: steps of
    ``X = a X + (b A + c A²) X`` with ``A = X Xᵀ`` (the polynomial of the page above)."""
    a, b, c = coefficients
    x = grad.to(bfloat16)
    is_tall = grad.shape[0] > grad.shape[1]
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


class Muon(Optimizer):
    """Steps along the momentum with its singular values made 1; for matrices, as the weights of
    hidden layers are. Other parameters need another optimiser.

    Args:
        params: parameters or groups, of two dimensions.
        lr: learning rate.
        weight_decay: takes ``lr weight_decay p`` off a parameter.
        momentum: of the running mean of gradients.
        nesterov: whether the gradient is mixed with the mean once more.
        ns_coefficients: a, b and c of the iteration.
        eps: the least norm that the momentum is divided by.
        ns_steps: steps of the iteration, below 100.
        adjust_lr_fn: the rate by the shape (A, B): "original" or None, ``lr sqrt(max(1, A / B))``,
            or "match_rms_adamw", ``0.2 lr sqrt(max(A, B))``.

    Raises:
        ValueError: an option out of its range, or a parameter that is no matrix.

    >>> import tinyt
    >>> layer = tinyt.nn.Linear(4, 4, bias=False)
    >>> optimizer = tinyt.optim.Muon(layer.parameters())
    >>> layer(tinyt.ones(4)).sum().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in _RATES:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Adds a group, of matrices."""
        super().add_param_group(param_group)
        for param in self.param_groups[-1]["params"]:
            if param.dim() != 2:
                del self.param_groups[-1]
                raise ValueError(
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{tuple(param.shape)}"
                )

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["momentum_buffer"] = zeros_like(param)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        lr, momentum = learning_rate(group), group["momentum"]
        mean = state["momentum_buffer"]
        mean.lerp_(grad, 1 - momentum)
        update = grad.lerp(mean, momentum) if group["nesterov"] else mean
        update = orthogonalised(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = param.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            ratio = 0.2 * math.sqrt(max(rows, columns))
        else:
            ratio = math.sqrt(max(1, rows / columns))
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update, alpha=-(lr * ratio))
