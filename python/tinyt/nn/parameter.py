"""`Parameter`: a tensor that a `Module` registers and an optimiser updates."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tinyt._tensor import make_subclass
from tinyt.parameter import Parameter as Parameter
from tinyt.parameter import values_of
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from typing_extensions import Self

    from tinyt.nn.uninitialized import UninitializedBuffer as UninitializedBuffer
    from tinyt.nn.uninitialized import UninitializedParameter as UninitializedParameter
    from tinyt.nn.uninitialized import UninitializedTensorMixin as UninitializedTensorMixin
    from tinyt.nn.uninitialized import is_lazy as is_lazy

_LAZY = (
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__package__}.uninitialized"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


class Buffer(Tensor):
    """A tensor that becomes a buffer of a module when assigned as its attribute.

    Args:
        data: the values; an empty float32 tensor if None.
        persistent: whether it is in `state_dict`.
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Self:  # noqa: D102
        made: Self = make_subclass(cls, values_of("Buffer", data))
        made.persistent = persistent
        return made


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The options of a tensor's creation among a layer's arguments: device, dtype, memory_format.

    They may stand in `kwargs` itself or under its key "factory_kwargs". TypeError for any other
    key, and for an option that is given twice.

    >>> factory_kwargs({"dtype": "float32", "factory_kwargs": {"device": "cpu"}})
    {'device': 'cpu', 'dtype': 'float32'}
    """
    given = dict(kwargs or {})
    options = dict(given.pop("factory_kwargs", {}))
    known = ("device", "dtype", "memory_format")
    unknown = given.keys() - set(known)
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for name in known:
        if name in given:
            if name in options:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            options[name] = given[name]
    return options


def clear_grads(params: Iterable[Tensor], set_to_none: bool) -> None:
    """Drops every gradient, or zeroes it if `set_to_none` is False."""
    for param in params:
        if set_to_none:
            param.grad = None
        elif param.grad is not None:
            param.grad = param.grad.detach()
            param.grad.zero_()
