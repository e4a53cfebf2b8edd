"""Copies of a module that compute with its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.nn.module import Module
from tinyt.nn.parallel.scatter_gather import check_device

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of the module for each device, all of which must be the CPU.

    The copies have modules of their own and the parameters and buffers of `network`: gradients
    reach these.

    Args:
        network: what to copy.
        devices: one a copy.
        detach: whether the copies' parameters are outside of the graph.

    Raises:
        RuntimeError: for a device that is not here.

    >>> import tinyt
    >>> layer = tinyt.nn.Linear(2, 1)
    >>> first, second = replicate(layer, ["cpu", "cpu"])
    >>> second is layer, second.weight is layer.weight
    (False, True)
    """
    for device in devices:
        check_device(device)
    return [_copy(network, detach, {}) for _ in devices]


def _copy(module: Module, detach: bool, made: dict[Module, Module]) -> Module:
    if module not in made:
        replica = made[module] = module._replicate_for_data_parallel()
        replica._buffers = dict(module._buffers)
        for name, param in module._parameters.items():
            if detach and param is not None:
                del replica._parameters[name]
                object.__setattr__(replica, name, param.detach())
        for name, child in module._modules.items():
            replica._modules[name] = None if child is None else _copy(child, detach, made)
    return made[module]
