"""`torch.utils.hooks`: handles of hooks."""

from __future__ import annotations

from tinyt.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
