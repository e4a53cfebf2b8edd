"""The CPU that kernels were chosen for."""

from __future__ import annotations

from tinyt import _core

__all__ = ["get_cpu_capability"]


def get_cpu_capability() -> str:
    """The instruction-set level in use."""
    return str(_core.build_info()["isa"])
