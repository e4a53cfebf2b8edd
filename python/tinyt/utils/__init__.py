"""PyTorch's `torch.utils`: data loading and checkpointing of activations."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tinyt.utils import checkpoint, data

# Loaded when they are first asked for.
_LAZY = {"dlpack", "hooks"}


def __getattr__(name: str) -> ModuleType:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


__all__ = ["checkpoint", "data"]
