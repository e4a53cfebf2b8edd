"""Adafactor (Shazeer & Stern 2018, "Adaptive learning rates with sublinear memory cost")."""

from __future__ import annotations

from tinyt.dtypes import finfo
from tinyt.ops import zeros_like
from tinyt.optim.optimizer import (
    Optimizer,
    ParamGroup,
    Params,
    ParamState,
    counter,
    learning_rate,
    next_step,
)
from tinyt.tensor import Tensor


class Adafactor(Optimizer):
    """Adam's kind without a first moment, and with one number for each row and column in the place
    of the second moments of matrices.

    A step moves a parameter by at most ``max(eps[1], rms(p)) min(lr, 1 / sqrt(t))`` on average.

    Args:
        params: parameters or groups.
        lr: the largest relative step.
        beta2_decay: the running mean of squares forgets ``t ** beta2_decay`` of itself at step t.
        eps: the least mean square is that of ``eps[0]`` (None: of the dtype's `eps`); ``eps[1]`` is
            the least size that steps are relative to.
        d: the largest root mean square of an update before it is scaled.
        weight_decay: takes ``lr weight_decay p`` off a parameter.
        foreach: PyTorch's hint about its implementation; kept in the state, no effect.
        maximize: ascends instead of descends.

    Raises:
        ValueError: an option out of its range.

    >>> import tinyt
    >>> layer = tinyt.nn.Linear(20, 30)
    >>> optimizer = tinyt.optim.Adafactor(layer.parameters())
    >>> layer(tinyt.ones(20)).sum().backward()
    >>> optimizer.step()
    >>> optimizer.state[layer.weight]["row_var"].shape
    tinyt.Size([30, 1])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not eps[0] >= 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not eps[1] >= 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not d >= 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not weight_decay >= 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _init_state(self, state: ParamState, param: Tensor, group: ParamGroup) -> None:
        state["step"] = counter()
        if param.dim() > 1:
            *outer, rows, columns = param.shape
            state["row_var"] = param.new_zeros((*outer, rows, 1))
            state["col_var"] = param.new_zeros((*outer, 1, columns))
        else:
            state["variance"] = zeros_like(param)

    def _update_param(
        self, param: Tensor, grad: Tensor, state: ParamState, group: ParamGroup
    ) -> None:
        lr, (least, smallest) = learning_rate(group), group["eps"]
        least = finfo(param.dtype).eps if least is None else least
        step = next_step(state)
        fresh = step ** group["beta2_decay"]
        size = (param.norm() / param.numel() ** 0.5).clamp(min=smallest)
        size = size * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            param.mul_(1 - lr * group["weight_decay"])
        if param.dim() > 1:
            rows, columns = state["row_var"], state["col_var"]
            for held, dim in ((rows, -1), (columns, -2)):
                held.lerp_(grad.norm(dim=dim, keepdim=True).square() / grad.shape[dim], fresh)
            variance = rows @ columns / rows.mean(dim=-2, keepdim=True).clamp(min=least)
        else:
            variance = state["variance"]
            variance.lerp_(grad * grad, fresh)
        update = variance.clamp(min=least * least).rsqrt() * grad
        spread = (update.norm() / (update.numel() ** 0.5 * group["d"])).clamp(min=1.0)
        param.sub_(update * (size / spread))
