"""AdamW (Loshchilov & Hutter 2019)."""

from __future__ import annotations

from tinyt.optim.adam import Adam
from tinyt.optim.functional_forms import FunctionalForm
from tinyt.optim.optimizer import Params
from tinyt.tensor import Tensor


class AdamW(Adam):
    """Adam whose weight decay acts on the parameters, not on the gradient.

    Arguments as `Adam`; `weight_decay` defaults to 0.01.
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
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


adamw = FunctionalForm(AdamW)
