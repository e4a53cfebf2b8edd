"""`torch.mps.profiler`: signposts and traces of Apple's tools, which tinyt does not make; see
`tinyt.profiler`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyt.mps.places import refuse

__all__ = [
    "is_capturing_metal",
    "is_metal_capture_enabled",
    "metal_capture",
    "profile",
    "start",
    "stop",
]

_INSTEAD = "tinyt.profiler shows what operations take"


def start(mode: str = "interval", wait_until_completed: bool = False) -> None:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("profiler.start", _INSTEAD)


def stop() -> None:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("profiler.stop", _INSTEAD)


@contextmanager
def profile(mode: str = "interval", wait_until_completed: bool = False) -> Iterator[None]:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("profiler.profile", _INSTEAD)
    yield


@contextmanager
def metal_capture(fname: str) -> Iterator[None]:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("profiler.metal_capture", _INSTEAD)
    yield


def is_metal_capture_enabled() -> bool:
    """False."""
    return False


def is_capturing_metal() -> bool:
    """False."""
    return False
