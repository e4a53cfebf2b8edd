"""Waiting for a device that finds faults in values later than the CPU."""

from __future__ import annotations

from typing import Any

import tinyt


def find_faults() -> None:
    """Raises what kernels of the device found in values: it may not have been looked at yet."""
    if tinyt.accelerator.is_available():
        tinyt.accelerator.synchronize()


def settled(result: Any) -> Any:
    """A result, unless what made it found a fault."""
    find_faults()
    return result
