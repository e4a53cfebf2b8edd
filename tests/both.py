"""Cases that must give the same with tinyt and with PyTorch: a function of the library to use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

try:
    import torch
except ImportError:
    torch = None

__all__ = ["close", "error_of", "filled", "plain", "ramp", "torch"]


def plain(value: Any) -> Any:
    """Tensors as lists, so that the two libraries' results compare."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def ramp(tt: Any, *shape: int) -> Any:
    """Values between -1 and 1 in float64 that do not depend on draws."""
    size = 1
    for n in shape:
        size *= n
    return (tt.arange(size, dtype=tt.float64) * 7 % 11 - 4).reshape(shape) / 8


def filled(tt: Any, layer: Any) -> Any:
    """The layer in float64 with parameters that do not depend on draws."""
    layer = layer.double()
    with tt.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(ramp(tt, *parameter.shape))
    return layer


def error_of(call: Callable[[], Any]) -> str:
    """The class of what a call raises."""
    try:
        call()
    except Exception as error:
        return type(error).__name__
    return "none"


def close(ours: Any, theirs: Any) -> bool:
    """Whether nested results agree to single precision."""
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and all(close(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, float):
        return bool(ours == pytest.approx(theirs, rel=1e-6, abs=1e-7, nan_ok=True))
    return bool(ours == theirs)
