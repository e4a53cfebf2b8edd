"""What the families share: broadcast parameters, probabilities and logits, lazy parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any, Generic, TypeVar, overload

import tinyt
from tinyt import Tensor
from tinyt._capture import recorder
from tinyt._tensor import dtype as DType

T = TypeVar("T")

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape.

    Numbers take the dtype of the first tensor, or the default float dtype where there is none.
    ValueError for anything else.

    >>> [tuple(x.shape) for x in broadcast_all(tinyt.zeros(3), 1.0)]
    [(3,), (3,)]
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = tensors[0].dtype if tensors else tinyt.get_default_dtype()
    device = tensors[0].device if tensors else None
    given = [
        v if isinstance(v, Tensor) else tinyt.full((), v, dtype=dtype, device=device)
        for v in values
    ]
    return tuple(tinyt.broadcast_tensors(*given))


def all_numbers(*values: object) -> bool:
    """Whether no value is a tensor: a distribution of them has no batch dimensions."""
    return not any(isinstance(v, Tensor) for v in values)


def standard_normal(
    shape: tuple[int, ...], dtype: DType | None = None, device: Any = None
) -> Tensor:
    """Draws of the standard normal distribution."""
    return tinyt.randn(shape, dtype=dtype, device=device)


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last ``dim`` dimensions; the value itself for 0."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


# Names that programs written for PyTorch import.
_standard_normal = standard_normal
_sum_rightmost = sum_rightmost


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities limited to [eps, 1 - eps] of their dtype."""
    eps = tinyt.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of log-odds (binary), or of unnormalised log-probabilities along the last
    dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Log-odds of probabilities (binary), or their logarithms; limited by :func:`clamp_probs`."""
    limited = clamp_probs(probs)
    return limited.log() - (-limited).log1p() if is_binary else limited.log()


def one_of(first: Any, second: Any, names: str) -> bool:
    """Whether the first of two alternative arguments is given; ValueError unless one is."""
    if (first is None) == (second is None):
        raise ValueError(f"Either {names} must be specified, but not both.")
    return first is not None


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The entries on and below a diagonal of square matrices [..., n, n], row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = tinyt.tril_indices(n, n, diag)
    flat = mat.reshape((*mat.shape[:-2], n * n))
    return flat.index_select(-1, rows * n + columns)


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """The inverse of :func:`tril_matrix_to_vec`: [..., n, n] with zeros elsewhere."""
    root = math.sqrt((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1))
    n = (-(1 + 2 * diag) + root) / 2
    if n != int(n):
        raise ValueError(
            f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    size = int(n)
    rows, columns = tinyt.tril_indices(size, size, diag)
    zeros = vec.new_zeros((*vec.shape[:-1], size * size))
    place = (rows * size + columns).expand(vec.shape)
    return zeros.scatter(-1, place, vec).reshape((*vec.shape[:-1], size, size))


def place_of_recording() -> tuple[Any, int] | None:
    """The recording of a program that is under way, and how deep in its branches and loops; or
    None."""
    found = recorder()
    return None if found is None else (found, found.depth)


class lazy_property(Generic[T]):
    """A property that is computed at its first use and may be set before it.

    What is computed while a program is recorded belongs to that recording: it is kept by instances
    that were made there, too (see :func:`place_of_recording`), and by no others.
    """

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object, owner: type | None = None) -> lazy_property[T] | T:
        if instance is None:
            return self
        known = instance.__dict__
        if self.name in known:
            found: T = known[self.name]
            return found
        if not known:  # two that are made of each other would ask for ever
            name = type(instance).__name__
            raise AttributeError(f"{name}.{self.name}: the distribution's __init__ has not run")
        with tinyt.enable_grad():
            value = self.wrapped(instance)
        if place_of_recording() == known.get("_place_of_recording"):
            known[self.name] = value
        return value

    def __set__(self, instance: object, value: T) -> None:
        instance.__dict__[self.name] = value
