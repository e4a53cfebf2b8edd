"""`torch.cuda` of a build without CUDA: it says so, and what a script calls on both is harmless."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt._core import DeviceError
from tinyt.cuda import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
    "seed_all",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """False: this build has no CUDA."""
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def manual_seed(seed: int) -> None:
    """Seeds nothing: there is no GPU; the CPU's stream is `tinyt.manual_seed`'s."""


def manual_seed_all(seed: int) -> None:
    """Seeds nothing."""


def seed_all() -> None:
    """Seeds nothing."""


def empty_cache() -> None:
    """Frees nothing."""


def ipc_collect() -> None:
    """Frees nothing."""


def reset_peak_memory_stats(device: object = None) -> None:
    """Resets nothing."""


def memory_allocated(device: object = None) -> int:
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def _refuse(name: str) -> NoReturn:
    raise DeviceError(f"cuda.{name}: this build has no CUDA; check cuda.is_available() first")


def synchronize(device: object = None) -> None:
    """DeviceError: there is nothing to wait for."""
    _refuse("synchronize")


def set_device(device: object) -> None:
    """DeviceError: there is no device."""
    _refuse("set_device")


def current_device() -> int:
    """DeviceError: there is no device."""
    _refuse("current_device")


def get_device_name(device: object = None) -> str:
    """DeviceError: there is no device."""
    _refuse("get_device_name")


def get_device_capability(device: object = None) -> tuple[int, int]:
    """DeviceError: there is no device."""
    _refuse("get_device_capability")


def get_device_properties(device: object = None) -> Any:
    """DeviceError: there is no device."""
    _refuse("get_device_properties")
