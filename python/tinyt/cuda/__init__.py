"""`torch.cuda`: CUDA devices, their memory, streams, events and random streams.

Without a device `is_available()` is False, and a function that needs one raises DeviceError with
the driver's reason; functions that seed, free, wait or reset do nothing, so that a script may call
them anyway. Asking whether there is one opens the driver and makes no tensor and no device the
accelerator; naming one to make tensors on does.

>>> import tinyt
>>> device = "cuda" if tinyt.cuda.is_available() else "cpu"
>>> tinyt.ones(3).to(device).sum().item()
3.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from tinyt import _tensor
from tinyt._core import OutOfMemoryError
from tinyt._tensor import device as Device
from tinyt.cuda import amp, graphs, memory, random, streams
from tinyt.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from tinyt.cuda.memory import (
    device_memory_used,
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    host_memory_stats,
    ipc_collect,
    list_gpu_processes,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from tinyt.cuda.places import count, index_of, is_in_use, is_none, place_of
from tinyt.cuda.places import refuse as _refuse
from tinyt.cuda.properties import (
    can_device_access_peer,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_bf16_supported,
    is_tf32_supported,
)
from tinyt.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from tinyt.cuda.streams import (
    Event,
    ExternalStream,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    device,
    device_of,
    set_stream,
    stream,
)
from tinyt.cuda.types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from tinyt.random import default_generator

if TYPE_CHECKING:
    from tinyt.cuda import nvtx, profiler

    default_generators: tuple[Any, ...]

has_half = True
has_magma = False

# Modules under PyTorch's paths, loaded when they are first asked for.
_LAZY = {"nvtx", "profiler"}


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # one stream serves all devices
        return (default_generator,) * (count() if is_in_use() else 0)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})


class CudaError(RuntimeError):
    """PyTorch's name of errors of the driver; tinyt's are DeviceError and RuntimeError."""


DeferredCudaCallError = AcceleratorError = CudaError


# ---- devices


def is_available() -> bool:
    """Whether there is a CUDA device that can be opened; raises nothing. The driver is asked once,
    and CUDA does not become the accelerator by that."""
    return count() > 0


def device_count() -> int:
    """How many CUDA devices there are."""
    return count()


def is_initialized() -> bool:
    """Whether this process has used one."""
    return is_in_use()


def init() -> None:
    """Uses the current device from now on; DeviceError where there is none, which asks again."""
    Device("cuda").require_present()


def current_device() -> int:
    """The index of this thread's device, which "cuda" without an index means; at first 0."""
    index: int = place_of("current_device").index or 0
    return index


def set_device(device: Any) -> None:
    """Makes a device this thread's current one: "cuda" without an index means it from then on.

    Args:
        device: a number, a name or a device; None or a negative number changes nothing.

    Raises:
        DeviceError: there is no CUDA device.
        RuntimeError: there is none of that index.
    """
    if not is_none(device):
        _tensor.set_current_device(place_of("set_device", device))


def synchronize(device: Any = None) -> None:
    """Waits for all that a device, by default the current one, was asked for; where none is in use,
    for nothing.

    Raises IndexError for an index out of range that a kernel has found.
    """
    if is_in_use():
        _tensor.synchronize(place_of("synchronize", device))


# ---- what is not there


def _refusing(name: str, instead: str = "") -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name, instead)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "DeviceError without a device, NotImplementedError with one."
    return refuse


_NVML = "it needs NVIDIA's management library: nvidia-smi says it"
utilization = _refusing("utilization", _NVML)
memory_usage = _refusing("memory_usage", _NVML)
temperature = _refusing("temperature", _NVML)
power_draw = _refusing("power_draw", _NVML)
clock_rate = _refusing("clock_rate", _NVML)
cudart = _refusing("cudart", "tinyt calls the driver, not CUDA's runtime library")


def get_sync_debug_mode() -> int:
    """0: nothing warns of what waits; DeviceError without a device."""
    index_of("get_sync_debug_mode")
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Nothing for 0 or "default"; NotImplementedError for others, DeviceError without a device."""
    if debug_mode not in (0, "default") or not count():
        _refuse("set_sync_debug_mode", "the profiler shows what waits")


__all__ = [
    "AcceleratorError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CUDAGraph",
    "CharTensor",
    "CudaError",
    "DeferredCudaCallError",
    "DoubleTensor",
    "Event",
    "ExternalStream",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "OutOfMemoryError",
    "ShortTensor",
    "Stream",
    "StreamContext",
    "amp",
    "can_device_access_peer",
    "clock_rate",
    "cudart",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "get_allocator_backend",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_gencode_flags",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "graphs",
    "has_half",
    "has_magma",
    "host_memory_stats",
    "init",
    "initial_seed",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "is_tf32_supported",
    "list_gpu_processes",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "memory_usage",
    "nvtx",
    "power_draw",
    "profiler",
    "random",
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
    "set_sync_debug_mode",
    "stream",
    "streams",
    "synchronize",
    "temperature",
    "utilization",
]
