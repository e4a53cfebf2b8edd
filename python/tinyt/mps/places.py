"""Which device a function of `tinyt.mps` is about, and what it raises where there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt import _tensor, drivers
from tinyt._tensor import device as Device

__all__ = ["is_in_use", "place_of", "refuse"]


def is_in_use() -> bool:
    """Whether this process has made something on a Metal device."""
    return _tensor.device_count("mps") > 0


def refuse(name: str, instead: str = "") -> NoReturn:
    """DeviceError without a device, NotImplementedError with one, each with the way out."""
    drivers.refuse("mps", name, instead)


def place_of(name: str, device: Any = None) -> Device:
    """The device that an argument means, None the first; the process uses it from now on.

    Raises:
        DeviceError: there is no Metal device.
        ValueError: it is of another kind.
        RuntimeError: there is none of that index.
    """
    devices = drivers.count("mps")
    if not devices:
        refuse(name)
    is_index = isinstance(device, int)
    place = Device("mps", device or 0) if device is None or is_index else Device(device)
    if place.type != "mps":
        raise ValueError(f"mps.{name}: expected an mps device, but got: {place}")
    index = place.index or 0
    if index >= devices:
        raise RuntimeError(f"mps.{name}: there is no mps:{index}, of {devices} devices")
    return Device("mps", index).require_present()
