"""PyTorch's `torch.distributed.algorithms`: `join` alone."""

from __future__ import annotations

from tinyt.distributed.algorithms import join

__all__ = ["join"]
