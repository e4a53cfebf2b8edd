"""Memory: statistics, limits, the cache, and arenas.

All figures are bytes. ``statistics()`` returns those of the CPU by name, ``statistics(device)``
those of another device: ``current_bytes`` are live, ``cached_bytes`` freed and kept for reuse,
``reserved_bytes`` held from the system for both and for rounding, ``peak_bytes`` the most that were
live since the start or ``reset_peak()``. A device with memory of its own has
``peak_reserved_bytes``, blocks that went back to its driver (``system_frees``), allocations for
which what was kept went back (``retries``) and OutOfMemoryErrors (``refusals``), too.
``empty_cache()`` gives back what holds nothing live, ``set_limit(nbytes)`` bounds what may be live,
each for the CPU or the device that is named; ``set_cache_limit(nbytes)`` what is kept on the CPU
(at first a quarter of main memory).
"""

from __future__ import annotations

from tinyt import _core
from tinyt._core import Arena, fail_nth_allocation, live_tensors, set_cache_limit
from tinyt._tensor import device as Device
from tinyt._tensor import number_of_device

__all__ = [
    "Arena",
    "empty_cache",
    "fail_nth_allocation",
    "limit",
    "live_tensors",
    "reset_peak",
    "set_cache_limit",
    "set_limit",
    "statistics",
]


def statistics(device: Device | str = "cpu") -> dict[str, int]:
    """Bytes and counts of a device's allocator by name; RuntimeError for one that is not there.

    >>> import tinyt
    >>> x = tinyt.zeros(1000)
    >>> tinyt.memory.statistics()["current_bytes"] >= 4000
    True
    """
    return _core.memory_statistics(number_of_device(device))


def reset_peak(device: Device | str = "cpu") -> None:
    """The peaks count from what there is now."""
    _core.reset_peak(number_of_device(device))


def set_limit(nbytes: int | None, device: Device | str = "cpu") -> None:
    """The most bytes that may be live on a device; 0 or None for no limit. Beyond it:
    OutOfMemoryError."""
    _core.set_limit(nbytes or 0, number_of_device(device))


def limit(device: Device | str = "cpu") -> int:
    """What `set_limit` set; 0 for no limit."""
    return _core.limit(number_of_device(device))


def empty_cache(device: Device | str = "cpu") -> None:
    """Gives memory that holds nothing live back to the system or driver."""
    _core.empty_cache(number_of_device(device))
