"""`torch.xpu` of a build without Intel GPUs: it says so."""

from __future__ import annotations

from typing import NoReturn

from tinyt._core import DeviceError

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "memory_allocated",
    "seed",
    "synchronize",
]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def synchronize(device: object = None) -> None:
    """Waits for nothing."""


def empty_cache() -> None:
    """Frees nothing."""


def manual_seed(seed: int) -> None:
    """Seeds nothing: the CPU's stream is `tinyt.manual_seed`'s."""


def seed() -> None:
    """Seeds nothing."""


def manual_seed_all(seed: int) -> None:
    """Seeds nothing."""


def memory_allocated(device: object = None) -> int:
    """0 bytes."""
    return 0


def current_device() -> NoReturn:
    """DeviceError: there is no device."""
    raise DeviceError("xpu.current_device: this build has no XPU; check xpu.is_available() first")
