"""Weights of convolutions in another memory format."""

from __future__ import annotations

from typing import TypeVar

from tinyt.formats import memory_format as Format
from tinyt.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from tinyt.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def _convert(module: Module, kinds: tuple[type[Module], ...], memory_format: Format) -> None:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone().contiguous(memory_format=memory_format)


def convert_conv2d_weight_memory_format(module: M, memory_format: Format) -> M:
    """Lays the weights of all two-dimensional convolutions in a module out in a memory format;
    returns the module."""
    _convert(module, (Conv2d, ConvTranspose2d), memory_format)
    return module


def convert_conv3d_weight_memory_format(module: M, memory_format: Format) -> M:
    """Lays the weights of all three-dimensional convolutions in a module out in a memory format;
    returns the module."""
    _convert(module, (Conv3d, ConvTranspose3d), memory_format)
    return module
