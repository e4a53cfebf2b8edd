"""Which device a function of `tinyt.cuda` is about, and what it raises where there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt import _tensor, drivers
from tinyt._tensor import device as Device

__all__ = ["count", "current_index", "index_of", "is_in_use", "is_none", "place_of", "refuse"]


def count() -> int:
    """How many CUDA devices there are; opens their driver, makes none the accelerator."""
    return drivers.count("cuda")


def is_in_use() -> bool:
    """Whether this process has made something on one."""
    return _tensor.device_count("cuda") > 0


def refuse(name: str, instead: str = "") -> NoReturn:
    """DeviceError without a device, NotImplementedError with one, each with the way out."""
    drivers.refuse("cuda", name, instead)


def is_none(device: object) -> bool:
    """Whether no device is named: None, or a negative index."""
    return device is None or (isinstance(device, int) and device < 0)


def current_index() -> int:
    """The index of this thread's device, without making CUDA the accelerator."""
    return _tensor.current_device_index(Device("cuda")) if is_in_use() else 0


def index_of(name: str, device: Any = None) -> int:
    """The index of the device that an argument means: None the current one.

    Raises:
        DeviceError: there is no CUDA device.
        ValueError: it is of another kind.
        RuntimeError: there is none of that index.
    """
    if not count():
        refuse(name)
    if is_none(device):
        return current_index()
    place = Device("cuda", device) if isinstance(device, int) else Device(device)
    if place.type != "cuda":
        raise ValueError(f"cuda.{name}: expected a cuda device, but got: {place}")
    index: int = current_index() if place.index is None else place.index
    if index >= count():
        raise RuntimeError(f"cuda.{name}: there is no cuda:{index}, of {count()} devices")
    return index


def place_of(name: str, device: Any = None) -> Device:
    """The same as a device that this process uses from now on."""
    return Device("cuda", index_of(name, device)).require_present()
