"""Spectral normalisation by a hook before `forward`: the older form, whose state dicts have
`weight_orig`, `weight_u` and `weight_v`. `parametrizations.spectral_norm` is the newer one."""

from __future__ import annotations

from typing import Any, TypeVar

from tinyt.autograd import no_grad
from tinyt.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tinyt.nn.functional import normalize
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.nn.utils.computed import ComputedWeight, find_hook
from tinyt.ops import dot, mv
from tinyt.tensor import Tensor

__all__ = ["SpectralNorm", "remove_spectral_norm", "spectral_norm"]

M = TypeVar("M", bound=Module)

TRANSPOSED = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)


def default_dim(module: Module) -> int:
    """The dimension of a module's weight that its outputs lie along."""
    return 1 if isinstance(module, TRANSPOSED) else 0


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight as a matrix whose rows are the slices along `dim`."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.dim()) if d != dim))
    return weight.reshape(weight.shape[0], -1)


def random_unit(weight: Tensor, size: int, eps: float) -> Tensor:
    """A vector of length 1 in a uniform direction, in the dtype of `weight`."""
    return normalize(weight.new_empty(size).normal_(0, 1), dim=0, eps=eps)


class SpectralNorm(ComputedWeight):
    """The hook: divides a weight by its largest singular value before every `forward`.

    That value is ``uᵀ W v``, with `u` and `v` from the power method, one or more steps of which are
    made before every `forward` in training mode.
    """

    _version = 1  # of the layout of state dicts, PyTorch's

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight with `dim` as rows."""
        return as_matrix(weight, self.dim)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The weight over its largest singular value; the power method changes u and v in place."""
        parameters: Any = module._parameters
        buffers: Any = module._buffers
        weight = parameters[self.name + "_orig"]
        u, v = buffers[self.name + "_u"], buffers[self.name + "_v"]
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(normalize(mv(matrix, v), dim=0, eps=self.eps))
                # Backward of this call reads them after the next call has changed them.
                u, v = u.clone(), v.clone()
        sigma: Tensor = dot(u, mv(matrix, v))
        return weight / sigma  # type: ignore[no-any-return]

    def remove(self, module: Module) -> None:
        """Makes the weight an ordinary parameter, with the values it has now."""
        with no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for end in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + end)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def _compute(self, module: Module) -> Tensor:
        return self.compute_weight(module, module.training)

    @staticmethod
    def apply(
        module: Module, name: str, n_power_iterations: int, dim: int, eps: float
    ) -> SpectralNorm:
        """Splits a parameter and registers the hooks."""
        if find_hook(module, SpectralNorm, name) is not None:
            raise RuntimeError(
                f"Cannot register two spectral_norm hooks on the same parameter {name}"
            )
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        with no_grad():
            rows, columns = as_matrix(weight, dim).shape
            u, v = random_unit(weight, rows, eps), random_unit(weight, columns, eps)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute until the first forward, with memory of its own to be written to.
        setattr(module, name, weight.detach().clone())
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        made.register(module)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        return made


class SpectralNormStateDictHook:
    """Writes the version of the layout beside a state dict, for PyTorch to see."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]
    ) -> None:
        """Called after the module's own state was added."""
        versions = local_metadata.setdefault("spectral_norm", {})
        versions[f"{self.fn.name}.version"] = self.fn._version


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Divides a parameter by its largest singular value before every `forward` (Miyato et al.
    2018, "Spectral normalization for generative adversarial networks"). Returns the module.

    The value is estimated by the power method, which goes on in training mode; `name_orig` is the
    parameter, `name_u` and `name_v` are buffers.

    Args:
        module: whose parameter it is.
        name: of the parameter.
        n_power_iterations: steps of the power method before each `forward`.
        eps: the least length that vectors are divided by.
        dim: the dimension of the outputs: 1 of transposed convolutions, else 0.

    >>> import tinyt
    >>> layer = tinyt.nn.utils.spectral_norm(tinyt.nn.Linear(20, 40))
    >>> layer.weight_u.shape
    tinyt.Size([40])
    """
    SpectralNorm.apply(
        module, name, n_power_iterations, default_dim(module) if dim is None else dim, eps
    )
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undoes :func:`spectral_norm`; ValueError where there is none on this parameter."""
    hook = find_hook(module, SpectralNorm, name)
    if hook is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook.remove(module)
    hook.unregister(module)
    saving = module._own_state_hooks().save_post
    for key, saver in list(saving.items()):
        made = saver.function
        if isinstance(made, SpectralNormStateDictHook) and made.fn.name == name:
            del saving[key]
            break
    return module
