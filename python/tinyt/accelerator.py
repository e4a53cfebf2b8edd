"""`torch.accelerator`: the first kind of device beside the CPU that this process has; where there
is none, what would need one is a DeviceError. A kind is there when a library has brought it
(`tinyt.backends.load`), or one of tinyt's when a tensor has been made on it: "opencl" and "webgpu"
may be a slow one that runs on the CPU, so none is taken unasked. Of several kinds that are there,
functions that take a device take those of any.

>>> import tinyt
>>> device = tinyt.accelerator.current_accelerator() or "cpu"
>>> tinyt.zeros(3).to(device).shape
tinyt.Size([3])
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

from tinyt import _core, _tensor, memory, streams
from tinyt._core import DeviceError
from tinyt._tensor import device as Device

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "devices",
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


class DeviceInfo(NamedTuple):
    """A device, or why there is none of a kind or it can be used no more."""

    name: str  # "opencl:0"; of a kind that is missing the kind
    hardware: str  # "" where it is missing or unknown
    memory_bytes: int  # 0 where that is not known
    missing: str  # why it is not there or cannot be used, and what to do; "" where it can


def devices() -> list[DeviceInfo]:
    """The devices that this process may use, and which of tinyt's kinds are missing. Opens the
    libraries that these need; none becomes the accelerator by that.

    >>> import tinyt
    >>> tinyt.devices()[0].name
    'cpu'
    """
    places, ours = [Device("cpu")], _tensor.kinds_of_build()
    for kind in _tensor.device_kinds():
        if kind not in ours:
            places += [Device(kind, i) for i in range(_tensor.device_count(kind))]
    found = [DeviceInfo(str(place), *_tensor.device_facts(place), "") for place in places]
    _tensor.find_libraries()
    for kind in ours:
        try:
            facts = _core.look_for_devices(kind)
        except DeviceError as error:
            found.append(DeviceInfo(kind, "", 0, str(error).partition(": ")[2]))
            continue
        for i, (hardware, nbytes, why) in enumerate(facts):
            found.append(DeviceInfo(f"{kind}:{i}", hardware, nbytes, why.partition(": ")[2]))
    return found


def is_available() -> bool:
    """Whether there is a device beside the CPU."""
    return _tensor.accelerator() is not None


def device_count() -> int:
    """How many devices there are of the accelerator's kind; 0 without one."""
    kind = _tensor.accelerator()
    return 0 if kind is None else _tensor.device_count(kind)


def current_accelerator(check_available: bool = False) -> Device | None:
    """The accelerator's kind as a device without an index; None without one."""
    kind = _tensor.accelerator()
    return None if kind is None else Device(kind)


def _place(name: str, device: Any = None) -> Device:
    """The device that a function is about: by default, of this thread."""
    kind = _tensor.accelerator()
    if kind is None:
        raise DeviceError(
            f"accelerator.{name}: there is no accelerator; check accelerator.is_available() first"
        )
    is_number = device is None or isinstance(device, int)
    place = Device(kind, device) if is_number else Device(device)
    if not _tensor.device_count(place.type):
        raise ValueError(f"accelerator.{name}: {device} doesn't match the accelerator {kind}")
    if place.index is None:
        place = Device(place.type, _tensor.current_device_index(place))
    return place.require_present()


def current_device_index() -> int:
    """The number of this thread's device, at first 0."""
    index: int | None = _place("current_device_index").index
    return index or 0


def set_device_index(device: Any, /) -> None:
    """Makes a device this thread's, as a number, a name or a device.

    It is what this module's functions are about, and what its kind without a number means
    ("cuda"); tensors are made on the CPU as before (`tinyt.set_default_device`).
    """
    place = _place("set_device_index", device)
    if place.type != _tensor.accelerator():
        raise ValueError(f"accelerator.set_device_index: {place} is not of the accelerator's kind")
    _tensor.set_current_device(place)


class device_index:
    """A block in which a device is this thread's; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            self._before = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *exc: object) -> None:
        if self.idx is not None:
            set_device_index(self._before)


def synchronize(device: Any = None, /) -> None:
    """Returns when all that was asked of a device is done."""
    _tensor.synchronize(_place("synchronize", device))


# ---- memory, in bytes


def empty_cache() -> None:
    """Gives memory that holds nothing live back to the driver, of every device."""
    _place("empty_cache")
    for index in range(device_count()):
        memory.empty_cache(_place("empty_cache", index))


def get_memory_info(device: Any = None, /) -> tuple[int, int]:
    """(bytes that are free, all of them), as the driver says, or less what this process holds;
    RuntimeError where the device does not say how many."""
    place = _place("get_memory_info", device)
    try:
        return _core.memory_info(_tensor.number_of_device(place))
    except NotImplementedError:
        pass
    total = _tensor.device_facts(place)[1]
    if not total:
        raise RuntimeError(f"accelerator.get_memory_info: {place} does not say how much it has")
    return total - memory.statistics(place)["reserved_bytes"], total


def memory_allocated(device: Any = None, /) -> int:
    """Bytes of live tensors."""
    return memory.statistics(_place("memory_allocated", device))["current_bytes"]


def memory_reserved(device: Any = None, /) -> int:
    """Bytes held from the driver."""
    return memory.statistics(_place("memory_reserved", device))["reserved_bytes"]


def max_memory_allocated(device: Any = None, /) -> int:
    """The most bytes of live tensors since the start or `reset_peak_memory_stats`."""
    return memory.statistics(_place("max_memory_allocated", device))["peak_bytes"]


def max_memory_reserved(device: Any = None, /) -> int:
    """The most bytes held from the driver since the start or `reset_peak_memory_stats`."""
    return memory.statistics(_place("max_memory_reserved", device))["peak_reserved_bytes"]


def memory_stats(device: Any = None, /) -> dict[str, int]:
    """Counts by PyTorch's names; those of `memory.statistics` that have none are left out."""
    facts = memory.statistics(_place("memory_stats", device))
    return {
        "allocated_bytes.all.current": facts["current_bytes"],
        "allocated_bytes.all.peak": facts["peak_bytes"],
        "allocation.all.allocated": facts["allocations"],
        "allocation.all.current": facts["live_blocks"],
        "num_device_alloc": facts["system_allocations"],
        "reserved_bytes.all.current": facts["reserved_bytes"],
        "reserved_bytes.all.peak": facts["peak_reserved_bytes"],
    }


def reset_peak_memory_stats(device: Any = None, /) -> None:
    """`max_memory_allocated` and `max_memory_reserved` count from what there is now."""
    memory.reset_peak(_place("reset_peak_memory_stats", device))


# ---- streams


def current_stream(device: Any = None, /) -> streams.Stream:
    """The stream that this thread has set for a device, or a view of its queue."""
    return streams.current_stream(_place("current_stream", device))


def set_stream(stream: streams.Stream, /) -> None:
    """Makes a stream the current one of its device, and that device this thread's."""
    _place("set_stream", stream.device)
    streams.set_stream(stream)


# ---- what devices of libraries do not have


def _lacking(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _place(name)
        raise NotImplementedError(
            f"accelerator.{name}: devices of libraries have one queue, and no {name}"
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "DeviceError without an accelerator, NotImplementedError with one."
    return refuse


empty_host_cache = _lacking("empty_host_cache")
get_device_capability = _lacking("get_device_capability")
reset_accumulated_memory_stats = _lacking("reset_accumulated_memory_stats")
current_device_idx, set_device_idx = current_device_index, set_device_index
