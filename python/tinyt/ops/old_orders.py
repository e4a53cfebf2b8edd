"""Orders of arguments that PyTorch still takes though it calls them deprecated:
``add(input, alpha, other)``, ``addmm(beta, input, alpha, mat1, mat2)`` and the like."""

from __future__ import annotations

import warnings
from typing import Any

from tinyt._tensor import TensorBase

# How many tensors the operation takes, and the names of the numbers in the old order.
_SCALED = (2, ("alpha",))
_PRODUCT = (3, ("value",))
_BOTH = (3, ("beta", "alpha"))

ORDERS: dict[str, tuple[int, tuple[str, ...]]] = {
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
    count, names = ORDERS.get(name.rstrip("_"), (len(args), ()))
    if len(args) <= count:
        return None
    tensors = [x for x in args if isinstance(x, TensorBase)]
    numbers = [x for x in args if isinstance(x, (int, float, complex))]
    if len(tensors) != count or len(tensors) + len(numbers) != len(args):
        return None
    if len(numbers) > len(names) or set(kwargs).intersection(names):
        return None
    named = dict(zip(names, numbers, strict=False))
    way = ", ".join(["..."] + [f"{key}={value}" for key, value in named.items()])
    warnings.warn(
        f"{name}: this order of arguments is deprecated; use {name}({way})",
        UserWarning,
        stacklevel=3,
    )
    return tensors, {**kwargs, **named}
