"""`torch.cuda` of a build without CUDA: it says so, and what a script calls on both is harmless."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, NoReturn

from tinyt._core import DeviceError, OutOfMemoryError
from tinyt._tensor import device as Device
from tinyt.cuda import amp, nvtx

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "can_device_access_peer",
    "current_blas_handle",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "nvtx",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "stream",
    "synchronize",
    "utilization",
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


def seed() -> None:
    """Seeds nothing."""


def set_rng_state(new_state: Any, device: object = "cuda") -> None:
    """Sets nothing: there is no GPU's stream."""


def set_rng_state_all(new_states: Any) -> None:
    """Sets nothing."""


def get_rng_state_all() -> list[Any]:
    """[]: the state of each GPU."""
    return []


def get_arch_list() -> list[str]:
    """[]."""
    return []


def get_gencode_flags() -> str:
    """An empty text."""
    return ""


def is_current_stream_capturing() -> bool:
    """False."""
    return False


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
memory_cached = max_memory_cached = memory_allocated
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
reset_accumulated_memory_stats = reset_peak_memory_stats


def memory_stats(device: object = None) -> dict[str, Any]:
    """{}: `tinyt.memory` has the CPU's."""
    return {}


def memory_snapshot(device: object = None) -> list[Any]:
    """[]."""
    return []


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """A line that says that there is no GPU."""
    return "no CUDA memory: this build has no CUDA; tinyt.memory tells of the CPU's"


def set_stream(stream: object) -> None:
    """Sets nothing: there are no streams."""


def stream(stream: object) -> AbstractContextManager[None]:
    """A block in which nothing changes: there are no streams, so that it is None."""
    return nullcontext()


class device:
    """A block that uses a GPU: DeviceError as it begins, unless `device` is None or negative."""

    def __init__(self, device: object) -> None:
        self.idx = device

    def __enter__(self) -> None:
        index = self.idx
        if index is None or (isinstance(index, int) and index < 0):
            return
        _refuse("device")

    def __exit__(self, *error: object) -> None:
        return None


class device_of(device):
    """A block that uses the GPU of a tensor: none, so that nothing changes."""

    def __init__(self, obj: object) -> None:
        where = getattr(obj, "device", None)
        super().__init__(where if isinstance(where, Device) and where.type == "cuda" else None)


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


class _Absent:
    """What is made of CUDA alone: DeviceError."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class Stream(_Absent):
    """DeviceError: there are no streams."""


class Event(_Absent):
    """DeviceError: there are no events; for times use `time.perf_counter`."""


class CUDAGraph(_Absent):
    """DeviceError: there are no graphs of CUDA; `tinyt.compile` runs planned programs."""


def init() -> None:
    """DeviceError: there is no CUDA."""
    _refuse("init")


def current_stream(device: object = None) -> Any:
    """DeviceError: there are no streams."""
    _refuse("current_stream")


def default_stream(device: object = None) -> Any:
    """DeviceError: there are no streams."""
    _refuse("default_stream")


def current_blas_handle() -> Any:
    """DeviceError: there is no device."""
    _refuse("current_blas_handle")


def can_device_access_peer(device: object, peer_device: object) -> bool:
    """DeviceError: there are no devices."""
    _refuse("can_device_access_peer")


def mem_get_info(device: object = None) -> tuple[int, int]:
    """DeviceError: there is no device."""
    _refuse("mem_get_info")


def utilization(device: object = None) -> int:
    """DeviceError: there is no device."""
    _refuse("utilization")


def set_per_process_memory_fraction(fraction: float, device: object = None) -> None:
    """DeviceError: there is no device; `tinyt.memory` limits the CPU's."""
    _refuse("set_per_process_memory_fraction")


def get_rng_state(device: object = "cuda") -> Any:
    """DeviceError: there is no GPU's stream."""
    _refuse("get_rng_state")


def initial_seed() -> int:
    """DeviceError: there is no GPU's stream."""
    _refuse("initial_seed")
