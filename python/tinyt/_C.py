"""`torch._C`: of PyTorch's compiled module, what programs call without need of it."""

from __future__ import annotations

from tinyt._autograd import _set_grad_enabled
from tinyt._tensor import Size, device, dtype
from tinyt.formats import layout, memory_format
from tinyt.random import Generator

__all__ = [
    "Generator",
    "Size",
    "_get_tracing_state",
    "_log_api_usage_once",
    "_set_grad_enabled",
    "device",
    "dtype",
    "layout",
    "memory_format",
]


def _log_api_usage_once(event: str) -> None:
    """Nothing: use is not counted."""


def _get_tracing_state() -> None:
    """None: there is no TorchScript that could trace."""
