"""`torch.mps` of a build without Metal: it says so."""

from __future__ import annotations

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "manual_seed",
    "seed",
    "synchronize",
]


def device_count() -> int:
    """0."""
    return 0


def synchronize() -> None:
    """Waits for nothing."""


def empty_cache() -> None:
    """Frees nothing."""


def manual_seed(seed: int) -> None:
    """Seeds nothing: the CPU's stream is `tinyt.manual_seed`'s."""


def seed() -> None:
    """Seeds nothing."""


def current_allocated_memory() -> int:
    """0 bytes."""
    return 0


def driver_allocated_memory() -> int:
    """0 bytes."""
    return 0
