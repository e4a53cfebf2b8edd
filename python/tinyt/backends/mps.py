"""Apple's Metal, as `torch.backends.mps` tells of it."""

from __future__ import annotations

import platform
import sys

from tinyt import _tensor, drivers

__all__ = [
    "get_core_count",
    "get_name",
    "is_available",
    "is_built",
    "is_macos13_or_newer",
    "is_macos_or_newer",
]


def is_available() -> bool:
    """Whether there is a Metal device that can be opened; raises nothing."""
    return drivers.count("mps") > 0


def is_built() -> bool:
    """Whether this build has Metal: those for macOS do."""
    return sys.platform == "darwin"


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Whether this is macOS of that version or a newer one.

    >>> import sys, tinyt
    >>> tinyt.backends.mps.is_macos_or_newer(10, 0) == (sys.platform == "darwin")
    True
    """
    if sys.platform != "darwin":
        return False
    parts = [int(part) for part in platform.mac_ver()[0].split(".") if part.isdigit()]
    return (*parts, 0, 0)[:2] >= (major, minor)


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Whether this is macOS 13 of that minor version or a newer one."""
    return is_macos_or_newer(13, minor)


def get_name() -> str:
    """The name of the device ("Apple M3"); DeviceError without one."""
    if not is_available():
        drivers.refuse("mps", "get_name")
    name: str = _tensor.device_facts(_tensor.device("mps", 0).require_present())[0]
    return name


def get_core_count() -> int:
    """NotImplementedError: Metal does not say how many cores a device has; DeviceError without a
    device."""
    drivers.refuse(
        "mps", "get_core_count", "Metal does not say it; system_profiler SPDisplaysDataType does"
    )
