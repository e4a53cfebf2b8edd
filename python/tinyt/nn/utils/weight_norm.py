"""Weight normalisation by a hook before `forward`: the older form, whose state dicts have
`weight_g` and `weight_v`. `parametrizations.weight_norm` is the newer one."""

from __future__ import annotations

import warnings
from typing import Any, TypeVar

from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.nn.utils.computed import ComputedWeight, find_hook
from tinyt.ops import _weight_norm, norm_except_dim
from tinyt.tensor import Tensor

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


class WeightNorm(ComputedWeight):
    """The hook: computes a weight from its length and direction before every `forward`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        """``g v / |v|``."""
        parameters: Any = module._parameters
        length, direction = parameters[self.name + "_g"], parameters[self.name + "_v"]
        weight: Tensor = _weight_norm(direction, length, self.dim)
        return weight

    @staticmethod
    def apply(module: Module, name: str, dim: int | None) -> WeightNorm:
        """Splits a parameter and registers the hook."""
        if find_hook(module, WeightNorm, name) is not None:
            raise RuntimeError(
                f"Cannot register two weight_norm hooks on the same parameter {name}"
            )
        made = WeightNorm(name, dim)
        weight: Tensor = getattr(module, name)
        del module._parameters[name]
        length = norm_except_dim(weight, 2, made.dim).detach()
        module.register_parameter(name + "_g", Parameter(length))
        module.register_parameter(name + "_v", Parameter(weight.detach()))
        setattr(module, name, made.compute_weight(module))
        made.register(module)
        return made

    def remove(self, module: Module) -> None:
        """Makes the weight one parameter again, with the values it has now."""
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for end in ("_g", "_v"):
            del module._parameters[self.name + end]
        setattr(module, self.name, Parameter(weight.detach()))

    def _compute(self, module: Module) -> Tensor:
        return self.compute_weight(module)


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Splits a parameter into its length `name_g` and its direction `name_v` (Salimans & Kingma
    2016); a hook computes the parameter before every `forward`. Returns the module.

    Warns, as PyTorch does, that `parametrizations.weight_norm` is what replaces it.

    Args:
        module: whose parameter it is.
        name: of the parameter.
        dim: the dimension whose slices have a length each; None for one length of all.

    >>> import warnings, tinyt
    >>> from tinyt.nn.utils import weight_norm
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     layer = weight_norm(tinyt.nn.Linear(20, 40))
    >>> layer.weight_g.shape, layer.weight_v.shape
    (tinyt.Size([40, 1]), tinyt.Size([40, 20]))
    """
    warnings.warn(
        "nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm.",
        FutureWarning,
        stacklevel=2,
    )
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undoes :func:`weight_norm`; ValueError where there is none on this parameter."""
    hook = find_hook(module, WeightNorm, name)
    if hook is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    hook.remove(module)
    hook.unregister(module)
    return module
