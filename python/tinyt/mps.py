"""`torch.mps` of a build without Metal: it says so."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt._core import DeviceError

__all__ = [
    "Event",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "manual_seed",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """False."""
    return False


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


def recommended_max_memory() -> int:
    """0 bytes."""
    return 0


def _refuse(name: str) -> NoReturn:
    raise DeviceError(f"mps.{name}: this build has no MPS; check mps.is_available() first")


def set_per_process_memory_fraction(fraction: float) -> NoReturn:
    """DeviceError: there is no device."""
    _refuse("set_per_process_memory_fraction")


def get_rng_state() -> NoReturn:
    """DeviceError: there is no device."""
    _refuse("get_rng_state")


def set_rng_state(new_state: Any) -> NoReturn:
    """DeviceError: there is no device."""
    _refuse("set_rng_state")


class Event:
    """DeviceError: there is no device."""

    def __init__(self, enable_timing: bool = False) -> None:
        _refuse("Event")
