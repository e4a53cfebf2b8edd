"""Calls of several modules, each on its own inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.nn.module import Module
from tinyt.nn.parallel.scatter_gather import check_device
from tinyt.tensor import Tensor

__all__ = ["get_a_var", "parallel_apply"]


def get_a_var(obj: Any) -> Tensor | None:
    """The first tensor in nested containers."""
    if isinstance(obj, Tensor):
        return obj
    if isinstance(obj, dict):
        obj = list(obj.items())
    found = map(get_a_var, obj) if isinstance(obj, (list, tuple)) else ()
    return next((x for x in found if x is not None), None)


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any] | None] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """The modules' results, one after another: each uses all threads of the one device.

    Args:
        modules: what to call.
        inputs: for each a list or tuple of arguments, or one argument.
        kwargs_tup: for each its named arguments.
        devices: for each the CPU.

    Raises:
        AssertionError: where there are not as many of each.
        RuntimeError: for a device that is not here.
    """
    count = len(modules)
    for name, given in (("inputs", inputs), ("kwargs_tup", kwargs_tup), ("devices", devices)):
        if given is not None and len(given) != count:
            raise AssertionError(
                f"The number of modules {count} is not equal to the number of {name} {len(given)}"
            )
    for device in devices or ():
        check_device(device)
    named = kwargs_tup or [None] * count
    return [
        module(*(args if isinstance(args, (list, tuple)) else (args,)), **(kwargs or {}))
        for module, args, kwargs in zip(modules, inputs, named, strict=True)
    ]
