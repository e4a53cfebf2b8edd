"""`torch.cuda.memory`: what a device's allocator holds, in bytes, and what its driver says.

An allocator keeps whole blocks of the driver's by their size and splits none; blocks that are freed
serve the next tensor at once, as a device does all in the order of the calls. Before a device is
used these functions say 0 and open nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tinyt import _core, _tensor, memory
from tinyt._tensor import device as Device
from tinyt.cuda.places import count, index_of, is_in_use, place_of, refuse

__all__ = [
    "device_memory_used",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "ipc_collect",
    "list_gpu_processes",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def _statistics(name: str, device: Any) -> dict[str, int] | None:
    """Those of the device; None where CUDA is not in use."""
    return memory.statistics(place_of(name, device)) if is_in_use() else None


def _figure(name: str, key: str, device: Any) -> int:
    found = _statistics(name, device)
    return 0 if found is None else found[key]


def memory_allocated(device: Any = None) -> int:
    """Bytes of live tensors on a device, by default the current one."""
    return _figure("memory_allocated", "current_bytes", device)


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of live tensors since the start or `reset_peak_memory_stats`."""
    return _figure("max_memory_allocated", "peak_bytes", device)


def memory_reserved(device: Any = None) -> int:
    """Bytes held from the driver: live, kept for reuse, and what rounding costs."""
    return _figure("memory_reserved", "reserved_bytes", device)


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes held from the driver since the start or `reset_peak_memory_stats`."""
    return _figure("max_memory_reserved", "peak_reserved_bytes", device)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Both peaks count from what there is now."""
    if is_in_use():
        memory.reset_peak(place_of("reset_peak_memory_stats", device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing without a device; with one NotImplementedError: counts go on from the start."""
    if count():
        refuse("reset_accumulated_memory_stats", "subtract two memory_stats()")


# PyTorch's older names.
memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Counts by PyTorch's names; those that the allocator does not count are left out, and all are
    before a device is used.

    Blocks are the driver's, so that a segment is a block; bytes are as asked for, without rounding.
    """
    facts = _statistics("memory_stats", device)
    if facts is None:
        return OrderedDict()
    live, taken = facts["live_blocks"], facts["system_allocations"]
    found = {
        "num_alloc_retries": facts["retries"],
        "num_ooms": facts["refusals"],
        "num_device_alloc": taken,
        "num_device_free": facts["system_frees"],
        "allocation.all.current": live,
        "allocation.all.allocated": facts["allocations"],
        "allocation.all.freed": facts["allocations"] - live,
        "segment.all.current": taken - facts["system_frees"],
        "segment.all.allocated": taken,
        "segment.all.freed": facts["system_frees"],
        "reserved_bytes.all.current": facts["reserved_bytes"],
        "reserved_bytes.all.peak": facts["peak_reserved_bytes"],
        "inactive_split.all.current": 0,
        "inactive_split_bytes.all.current": 0,
    }
    for name in ("allocated_bytes", "requested_bytes", "active_bytes"):
        found[f"{name}.all.current"] = facts["current_bytes"]
        found[f"{name}.all.peak"] = facts["peak_bytes"]
    found["active.all.current"] = live
    return OrderedDict(sorted(found.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """`memory_stats` with a dictionary for each part of a name."""
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *outer, last = name.split(".")
        inner = nested
        for part in outer:
            inner = inner.setdefault(part, {})
        inner[last] = value
    return nested


def host_memory_stats() -> OrderedDict[str, Any]:
    """Nothing; `tinyt.memory.statistics()` is about the CPU."""
    return OrderedDict()


def _shown(nbytes: int) -> str:
    return f"{nbytes / 2**20:,.1f} MiB" if nbytes >= 2**20 else f"{nbytes / 2**10:,.1f} KiB"


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of what a device's allocator holds; one line where CUDA is not in use.

    Args:
        device: by default the current one.
        abbreviated: without the counts.
    """
    if not is_in_use():
        return "no CUDA memory: no tensor is on a CUDA device; see tinyt.memory.statistics()"
    place = place_of("memory_summary", device)
    facts = memory.statistics(place)
    rows = [
        ("live tensors", _shown(facts["current_bytes"]), _shown(facts["peak_bytes"])),
        ("kept for reuse", _shown(facts["cached_bytes"]), ""),
        ("from the driver", _shown(facts["reserved_bytes"]), _shown(facts["peak_reserved_bytes"])),
    ]
    lines = [f"memory of {place}", f"{'':18}{'now':>16}{'most':>16}"]
    lines += [f"{name:18}{now:>16}{most:>16}" for name, now, most in rows]
    if not abbreviated:
        counts = (
            ("live blocks", "live_blocks"),
            ("allocations", "allocations"),
            ("taken from driver", "system_allocations"),
            ("given back", "system_frees"),
            ("tried again", "retries"),
            ("out of memory", "refusals"),
        )
        lines += [f"{name:18}{facts[key]:>16,}" for name, key in counts]
    return "\n".join(lines)


def empty_cache() -> None:
    """Gives what is kept for reuse back to the driver, of every device."""
    for index in range(_tensor.device_count("cuda")):
        memory.empty_cache(Device("cuda", index))


def ipc_collect() -> None:
    """Nothing: processes share no memory of devices."""


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, all) bytes of a device, of all processes together, as the driver says."""
    return _core.memory_info(_tensor.number_of_device(place_of("mem_get_info", device)))


def device_memory_used(device: Any = None) -> int:
    """Bytes in use on a device, by all processes together."""
    free, total = mem_get_info(place_of("device_memory_used", device))
    return total - free


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Bounds what may be live on a device by a part of its memory; beyond it OutOfMemoryError.

    Args:
        fraction: from 0 to 1, which is without a limit.
        device: by default the current one.
    """
    name = "set_per_process_memory_fraction"
    if not isinstance(fraction, float):
        raise TypeError(f"cuda.{name}: fraction must be a float, got {type(fraction).__name__}")
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"cuda.{name}: fraction must be from 0 to 1, got {fraction}")
    place = place_of(name, device)
    total = _tensor.device_facts(place)[1]
    memory.set_limit(None if fraction == 1.0 else max(1, int(fraction * total)), place)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """What `set_per_process_memory_fraction` set; 1.0 without a limit."""
    place = place_of("get_per_process_memory_fraction", device)
    limit = memory.limit(place)
    return limit / _tensor.device_facts(place)[1] if limit else 1.0


def get_allocator_backend() -> str:
    """ "native"; DeviceError without a device."""
    index_of("get_allocator_backend")
    return "native"


def memory_snapshot(*args: Any, **kwargs: Any) -> Any:
    """DeviceError without a device, NotImplementedError with one."""
    refuse("memory_snapshot", "memory_stats() and memory_summary() say what is held")


def list_gpu_processes(device: Any = None) -> str:
    """One line that says that there are none; NotImplementedError with a device."""
    if count():
        refuse("list_gpu_processes", "nvidia-smi lists them")
    return "no GPU processes: there is no CUDA device"
