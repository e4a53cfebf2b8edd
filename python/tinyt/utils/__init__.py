"""PyTorch's `torch.utils`: data loading and checkpointing of activations."""

from __future__ import annotations

from tinyt.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
