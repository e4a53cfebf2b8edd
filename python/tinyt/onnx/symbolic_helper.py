"""`torch.onnx.symbolic_helper`: decorators of functions that no export will call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["parse_args", "quantized_args"]


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """A decorator: the function itself."""
    return lambda fn: fn


def quantized_args(*args: Any, **kwargs: Any) -> Callable[[F], F]:
    """A decorator: the function itself."""
    return lambda fn: fn
