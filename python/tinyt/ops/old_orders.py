"""Orders of arguments that PyTorch still takes though it calls them deprecated:
``add(input, alpha, other)``, ``addmm(beta, input, alpha, mat1, mat2)`` and the like."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from tinyt._tensor import TensorBase


class _Order(NamedTuple):
    tensors: int  # how many the operation takes
    numbers: tuple[str, ...]  # names of the numbers, in the old order


_SCALED = _Order(2, ("alpha",))
_PRODUCT = _Order(3, ("value",))
_BOTH = _Order(3, ("beta", "alpha"))

ORDERS = {
    "add": _SCALED,
    "addbmm": _BOTH,
    "addcdiv": _PRODUCT,
    "addcmul": _PRODUCT,
    "addmm": _BOTH,
    "addmv": _BOTH,
    "addr": _BOTH,
    "baddbmm": _BOTH,
    "sub": _SCALED,
}


def has_old_order(name: str) -> bool:
    """Whether the operation, in place or not, has an older order of arguments."""
    return name.rstrip("_") in ORDERS


def in_new_order(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments of a call in an older order as the operation takes them; None of other calls.
    Warns, as PyTorch does."""
    order = ORDERS.get(name.rstrip("_"))
    if order is None or len(args) <= order.tensors:
        return None
    tensors = [x for x in args if isinstance(x, TensorBase)]
    numbers = [x for x in args if isinstance(x, (int, float, complex))]
    if len(tensors) != order.tensors or len(tensors) + len(numbers) != len(args):
        return None
    if len(numbers) > len(order.numbers) or set(kwargs).intersection(order.numbers):
        return None
    named = dict(zip(order.numbers, numbers, strict=False))
    way = ", ".join(["..."] + [f"{key}={value}" for key, value in named.items()])
    warnings.warn(
        f"{name}: this order of arguments is deprecated; use {name}({way})",
        UserWarning,
        stacklevel=3,
    )
    return tensors, {**kwargs, **named}
