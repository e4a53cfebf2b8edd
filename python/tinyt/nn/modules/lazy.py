"""`torch.nn.modules.lazy`: what layers share whose sizes come from their first input."""

from __future__ import annotations

from tinyt.nn.lazy import LazyModuleMixin

__all__ = ["LazyModuleMixin"]
