"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from tinyt.ops import cat
from tinyt.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters, one after another; differentiable."""
    return cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Makes the parameters views of consecutive parts of `vec`, in their shapes.

    Raises:
        TypeError: if `vec` is no tensor.
        RuntimeError: if it has too few elements; no parameter is changed then.
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    params = list(parameters)
    needed = sum(param.numel() for param in params)
    if vec.numel() < needed:
        raise RuntimeError(
            f"vector_to_parameters: the parameters have {needed} elements, the vector {vec.numel()}"
        )
    start = 0
    for param in params:
        part = vec[start : start + param.numel()]
        param.data = part.view(tuple(param.shape)).detach()
        start += param.numel()
