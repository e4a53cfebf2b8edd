"""Tensors between devices, where all of them are the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt.nn.parallel.scatter_gather import check_device
from tinyt.ops import cat, split
from tinyt.tensor import Tensor

__all__ = [
    "broadcast",
    "broadcast_coalesced",
    "gather",
    "reduce_add",
    "reduce_add_coalesced",
    "scatter",
]


def _check_all(devices: Sequence[Any]) -> None:
    for device in devices:
        check_device(device)


def broadcast(tensor: Tensor, devices: Sequence[Any]) -> tuple[Tensor, ...]:
    """The tensor for each device; RuntimeError for one that is not here."""
    _check_all(devices)
    return (tensor,) * len(devices)


def broadcast_coalesced(
    tensors: Sequence[Tensor], devices: Sequence[Any], buffer_size: int = 10485760
) -> tuple[tuple[Tensor, ...], ...]:
    """The tensors for each device."""
    _check_all(devices)
    return (tuple(tensors),) * len(devices)


def reduce_add(inputs: Sequence[Tensor], destination: Any = None) -> Tensor:
    """The sum of tensors of one shape; ValueError for others."""
    check_device(destination)
    if any(x.shape != inputs[0].shape for x in inputs):
        raise ValueError(f"input shapes must agree, got {[tuple(x.shape) for x in inputs]}")
    return sum(inputs[1:], inputs[0])


def reduce_add_coalesced(
    inputs: Sequence[Sequence[Tensor]], destination: Any = None, buffer_size: int = 10485760
) -> tuple[Tensor, ...]:
    """The sums over the devices of each of their tensors."""
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs, strict=True))


def scatter(
    tensor: Tensor,
    devices: Sequence[Any],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
) -> tuple[Tensor, ...]:
    """One part of a tensor for each device, even ones or those of ``chunk_sizes``."""
    _check_all(devices)
    if chunk_sizes is None:
        return tuple(tensor.chunk(len(devices), dim))
    return tuple(split(tensor, list(chunk_sizes), dim))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = None) -> Tensor:
    """The tensors of all devices along a dimension."""
    check_device(destination)
    return cat(list(tensors), dim)
