"""`Parameter`: a tensor that a `Module` registers and an optimiser updates."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from importlib import import_module
from typing import Any

from tinyt.ops import empty
from tinyt.tensor import Tensor


def _values(kind: str, data: Tensor | None) -> Tensor:
    """`data` outside any graph, or an empty tensor for None."""
    if data is None:
        data = empty(0)
    if not isinstance(data, Tensor):
        raise TypeError(f"{kind}: data must be a Tensor, got {type(data).__name__}")
    return data.detach()


class Parameter(Tensor):
    """A leaf tensor that becomes part of a module when assigned as its attribute.

    It shares memory with `data` and is detached from any graph that made `data`.

    Args:
        data: the initial values; an empty float32 tensor if None.
        requires_grad: whether `backward` fills `grad`; needs a floating dtype.
    """

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        # Tensor's own __init__ would copy values.
        self.data = _values("Parameter", data)
        self.requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """The values in new memory, without gradient, hooks and attributes, as in PyTorch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(deepcopy(self.detach(), memo), self.requires_grad)
        copy: Parameter = memo[id(self)]
        return copy

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


def __getattr__(name: str) -> Any:
    if name in ("UninitializedBuffer", "UninitializedParameter", "is_lazy"):
        return getattr(import_module(f"{__package__}.lazy"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Buffer(Tensor):
    """A tensor that becomes a buffer of a module when assigned as its attribute.

    Args:
        data: the values; an empty float32 tensor if None.
        persistent: whether it is in `state_dict`.
    """

    def __init__(self, data: Tensor | None = None, *, persistent: bool = True) -> None:
        self.data = _values("Buffer", data)
        self.persistent = persistent


def clear_grads(params: Iterable[Tensor], set_to_none: bool) -> None:
    """Drops every gradient, or zeroes it if `set_to_none` is False."""
    for param in params:
        if set_to_none:
            param.grad = None
        elif param.grad is not None:
            param.grad = param.grad.detach()
            param.grad.zero_()
