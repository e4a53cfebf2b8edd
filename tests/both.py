"""Cases that must give the same with tinyt and with PyTorch: a function of the library to use."""

from __future__ import annotations

from typing import Any

try:
    import torch
except ImportError:
    torch = None

__all__ = ["plain", "torch"]


def plain(value: Any) -> Any:
    """Tensors as lists, so that the two libraries' results compare."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
