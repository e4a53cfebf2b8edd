"""`Parameter`, which is `tinyt.nn.Parameter`: here for those who know of no modules."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from tinyt._tensor import make_subclass
from tinyt.ops import empty
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self


def values_of(kind: str, data: Tensor | None) -> Tensor:
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

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Self:  # noqa: D102
        made: Self = make_subclass(cls, values_of("Parameter", data), requires_grad)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """The values in new memory, without gradient, hooks and attributes, as in PyTorch."""
        if id(self) not in memo:
            memo[id(self)] = type(self)(deepcopy(self.detach(), memo), self.requires_grad)
        copy: Parameter = memo[id(self)]
        return copy

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


Parameter.__module__ = "tinyt.nn.parameter"
