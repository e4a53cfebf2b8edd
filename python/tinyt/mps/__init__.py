"""`torch.mps`: Metal devices of macOS, their memory, events and random stream.

Without a device `is_available()` is False, and a function that needs one raises DeviceError with
the reason; functions that seed, free, wait or count do nothing, so that a script may call them
anyway. Asking whether there is one makes no tensor and no device the accelerator.

>>> import tinyt
>>> device = "mps" if tinyt.mps.is_available() else "cpu"
>>> tinyt.ones(3).to(device).sum().item()
3.0
"""

from __future__ import annotations

from typing import Any, NoReturn

from tinyt import _tensor, drivers, memory
from tinyt.mps import profiler
from tinyt.mps.event import Event
from tinyt.mps.places import is_in_use, place_of, refuse
from tinyt.random import default_generator
from tinyt.tensor import Tensor

__all__ = [
    "Event",
    "compile_shader",
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "load_metallib",
    "manual_seed",
    "profiler",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


def is_available() -> bool:
    """Whether there is a Metal device that can be opened; raises nothing."""
    return device_count() > 0


def device_count() -> int:
    """How many Metal devices there are."""
    return drivers.count("mps")


def synchronize() -> None:
    """Waits for all that the device was asked for; where none is in use, for nothing.

    Raises IndexError for an index out of range that a kernel has found.
    """
    if is_in_use():
        _tensor.synchronize(place_of("synchronize"))


# ---- memory, in bytes; 0 before a device is used


def empty_cache() -> None:
    """Gives what is kept for reuse back to the driver."""
    for index in range(_tensor.device_count("mps")):
        memory.empty_cache(_tensor.device("mps", index))


def _figure(name: str, key: str) -> int:
    return memory.statistics(place_of(name))[key] if is_in_use() else 0


def current_allocated_memory() -> int:
    """Bytes of live tensors on the device."""
    return _figure("current_allocated_memory", "current_bytes")


def driver_allocated_memory() -> int:
    """Bytes held from the driver: live, kept for reuse, and what rounding costs."""
    return _figure("driver_allocated_memory", "reserved_bytes")


def recommended_max_memory() -> int:
    """Bytes that the system advises a process to hold on the device at most
    (`MTLDevice.recommendedMaxWorkingSetSize`); 0 without a device."""
    if not is_available():
        return 0
    total: int = _tensor.device_facts(place_of("recommended_max_memory"))[1]
    return total


def set_per_process_memory_fraction(fraction: float) -> None:
    """Bounds what may be live on the device by a part of `recommended_max_memory`; beyond it
    OutOfMemoryError.

    Args:
        fraction: from 0, which is without a limit, to 2.

    Raises:
        TypeError: it is not a float.
        ValueError: it is out of range.
        DeviceError: there is no device.
    """
    name = "set_per_process_memory_fraction"
    if not isinstance(fraction, float):
        raise TypeError(f"mps.{name}: fraction must be a float, got {type(fraction).__name__}")
    if not 0.0 <= fraction <= 2.0:
        raise ValueError(f"mps.{name}: fraction must be from 0 to 2, got {fraction}")
    place = place_of(name)
    total = _tensor.device_facts(place)[1]
    memory.set_limit(max(1, int(fraction * total)) if fraction > 0.0 else None, place)


# ---- random numbers: the CPU's on every device, from one stream


def manual_seed(seed: int) -> None:
    """Starts the stream of all devices, the CPU included, from a seed; nothing without a device."""
    if is_available():
        default_generator.manual_seed(int(seed))


def seed() -> None:
    """Starts it from a seed of the operating system; nothing without a device."""
    if is_available():
        default_generator.seed()


def get_rng_state(device: Any = "mps") -> Tensor:
    """The stream's state, on the CPU; DeviceError without a device."""
    place_of("get_rng_state", device)
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Any = "mps") -> None:
    """Goes back to a state of `get_rng_state`; DeviceError without a device."""
    place_of("set_rng_state", device)
    default_generator.set_state(new_state)


# ---- what is not there


def compile_shader(source: str) -> NoReturn:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("compile_shader", "kernels of one's own come from a library: tinyt.backends.load")


def load_metallib(source: Any) -> NoReturn:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("load_metallib", "kernels of one's own come from a library: tinyt.backends.load")
