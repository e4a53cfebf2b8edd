"""PyTorch's module of batches in pinned memory."""

from __future__ import annotations

from typing import Any

from tinyt.data.pinning import pinned

__all__ = ["pin_memory"]


def pin_memory(data: Any, device: object = None) -> Any:
    """The tensors of nested containers in pinned memory (`Tensor.pin_memory`)."""
    return pinned(data)
