"""`torch.accelerator`: this build has none; what would need one is a DeviceError."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt._core import DeviceError

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None."""


def _refuse(name: str) -> NoReturn:
    raise DeviceError(
        f"accelerator.{name}: there is no accelerator; check accelerator.is_available() first"
    )


class device_index:
    """A block on a device: None for none; DeviceError for any other."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _refuse("device_index")

    def __exit__(self, *exc: object) -> None:
        pass


def _refusing(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "DeviceError: there is no accelerator."
    return refuse


# What needs an accelerator, whatever its arguments.
current_device_idx = _refusing("current_device_idx")
current_device_index = _refusing("current_device_index")
current_stream = _refusing("current_stream")
empty_cache = _refusing("empty_cache")
empty_host_cache = _refusing("empty_host_cache")
get_device_capability = _refusing("get_device_capability")
get_memory_info = _refusing("get_memory_info")
max_memory_allocated = _refusing("max_memory_allocated")
max_memory_reserved = _refusing("max_memory_reserved")
memory_allocated = _refusing("memory_allocated")
memory_reserved = _refusing("memory_reserved")
memory_stats = _refusing("memory_stats")
reset_accumulated_memory_stats = _refusing("reset_accumulated_memory_stats")
reset_peak_memory_stats = _refusing("reset_peak_memory_stats")
set_device_idx = _refusing("set_device_idx")
set_device_index = _refusing("set_device_index")
set_stream = _refusing("set_stream")
synchronize = _refusing("synchronize")
