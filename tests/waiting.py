"""Waiting for a device that finds faults in values later than the CPU."""

from __future__ import annotations

from typing import Any

import tinyt


def find_faults() -> None:
    """Raises what kernels of any device found in values: it may not have been looked at yet."""
    for index in range(tinyt.accelerator.device_count()):
        tinyt.accelerator.synchronize(index)


def settled(result: Any) -> Any:
    """A result, unless what made it found a fault."""
    find_faults()
    return result
