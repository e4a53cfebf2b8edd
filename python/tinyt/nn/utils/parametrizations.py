"""Parametrizations of weights that are ready to use: `torch.nn.utils.parametrizations`."""

# (forward and right_inverse are described by the class.)

from __future__ import annotations

from typing import Any

from tinyt.autograd import no_grad
from tinyt.nn.functional import normalize
from tinyt.nn.module import Module
from tinyt.nn.utils.orthogonal import MAPS, Orthogonal
from tinyt.nn.utils.parametrize import register_parametrization
from tinyt.nn.utils.spectral_norm import as_matrix, default_dim, random_unit
from tinyt.ops import _weight_norm, mv, norm_except_dim, vdot
from tinyt.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """``g v / |v|`` of a length g and a direction v."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        value: Tensor = _weight_norm(weight_v, weight_g, self.dim)
        return value

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Makes a parameter ``g v / |v|`` (Salimans & Kingma 2016); returns the module.

    `parametrizations.weight.original0` is the length g, `original1` the direction v. State dicts
    of the older form (`weight_g`, `weight_v`) load as well.

    Args:
        module: whose parameter it is.
        name: of the parameter.
        dim: the dimension whose slices have a length each; None for one length of all.

    >>> import tinyt
    >>> from tinyt.nn.utils.parametrizations import weight_norm
    >>> list(weight_norm(tinyt.nn.Linear(20, 40, bias=False)).state_dict())
    ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value, by the power method on buffers `_u` and `_v`."""

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        rank = weight.dim()
        if not -rank <= dim < rank:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{rank}, {rank - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % rank
        self.eps = eps
        if rank > 1:  # the singular value of a vector is its length
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            self.register_buffer("_u", random_unit(matrix, matrix.shape[0], eps))
            self.register_buffer("_v", random_unit(matrix, matrix.shape[1], eps))
            self._power_method(matrix, 15)

    def _power_method(self, matrix: Tensor, steps: int) -> None:
        """Steps of the power method, which change the buffers in place."""
        with no_grad():
            for _ in range(steps):
                self._u.copy_(normalize(mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(normalize(mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Backward of this call reads them after the next call has changed them.
        u, v = self._u.clone(), self._v.clone()
        return weight / vdot(u, mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divides a parameter by its largest singular value (Miyato et al. 2018); returns the module.

    The value is estimated by the power method: 15 steps at once, and some more at each reading of
    the parameter in training mode. A vector is divided by its length.

    Args:
        module: whose parameter it is.
        name: of the parameter or buffer.
        n_power_iterations: steps at each reading.
        eps: the least length that vectors are divided by.
        dim: the dimension of the outputs: 1 of transposed convolutions, else 0.

    Raises:
        ValueError: no tensor of this name, or no steps.
        IndexError: dim is no dimension of it.

    >>> import tinyt
    >>> from tinyt.nn.utils.parametrizations import spectral_norm
    >>> sorted(spectral_norm(tinyt.nn.Linear(2, 3, bias=False)).state_dict())[-1]
    'parametrizations.weight.original'
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    rows = default_dim(module) if dim is None else dim
    made = _SpectralNorm(weight, n_power_iterations, rows, eps)
    return register_parametrization(module, name, made)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Gives a parameter orthonormal columns, or rows where it is wider than tall; returns the
    module. Its first value is the Q of its QR decomposition, made by NumPy; a tensor of more than
    two dimensions is a batch of matrices.

    Args:
        module: whose parameter it is.
        name: of the parameter.
        orthogonal_map: what makes it from a matrix without a rule: "matrix_exp", the exponential
            of a skew-symmetric one, by default for square matrices; "householder", a product of
            reflectors, for others. "cayley" needs a solver, which there is not.
        use_trivialization: keeps a first value as the buffer `base` and computes what it is
            multiplied with.

    Raises:
        ValueError: no such tensor, one of less than two dimensions or of complex numbers, or an
            unknown map.
        NotImplementedError: "cayley".

    >>> import tinyt
    >>> from tinyt.nn.utils.parametrizations import orthogonal
    >>> q = orthogonal(tinyt.nn.Linear(20, 40)).weight
    >>> bool((q.T @ q - tinyt.eye(20)).abs().max() < 1e-5)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.dim() < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.dim()} dimensions."
        )
    if weight.dtype.is_complex:
        raise ValueError("orthogonal: complex tensors have no gradients here")
    square = weight.shape[-2] == weight.shape[-1]
    chosen = orthogonal_map or ("matrix_exp" if square else "householder")
    if chosen not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {chosen}'
        )
    if chosen == "cayley":
        raise NotImplementedError(
            'orthogonal: "cayley" needs a solver of linear equations, which tinyt lacks; use '
            '"matrix_exp" or "householder"'
        )
    made = Orthogonal(weight, chosen, use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)
