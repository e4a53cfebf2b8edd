"""`Variable`, which wrapped tensors before PyTorch 0.4."""

from __future__ import annotations

import warnings
from typing import Any

from tinyt.tensor import Tensor

__all__ = ["Variable"]


class _VariableType(type):
    """The class of `Variable`: a call makes a tensor, isinstance asks for tensors."""

    def __call__(
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with no_grad():` instead.",
                stacklevel=2,
            )
        made: Tensor = Tensor() if data is None else data.detach()
        return made.requires_grad_(requires_grad)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """``Variable(data, requires_grad=False)``: a new leaf over the memory of a tensor.

    Raises:
        TypeError: for data that is no tensor.
        RuntimeError: if an integer or bool tensor is to require gradients.

    >>> x = tinyt.ones(2)
    >>> leaf = Variable(x, requires_grad=True)
    >>> leaf.requires_grad, x.requires_grad, isinstance(x, Variable)
    (True, False, True)
    """
