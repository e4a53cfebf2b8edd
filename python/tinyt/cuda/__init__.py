"""`torch.cuda` without a device: it says so, and what a script calls on both is harmless.

Tensors on `device="cuda"` are about `tinyt.accelerator`; these functions do not know of them yet.

Functions that seed, free, wait or reset have nothing to do and do nothing; what would have to name
a device, a stream or an event raises DeviceError.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from tinyt._core import DeviceError, OutOfMemoryError
from tinyt.cuda import amp
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from tinyt.cuda import graphs, memory, nvtx, profiler, random, streams

default_generators: tuple[Any, ...] = ()
has_half = True
has_magma = False

# Modules under PyTorch's paths, loaded when they are first asked for.
_LAZY = {"graphs", "memory", "nvtx", "profiler", "random", "streams"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LAZY})


class CudaError(RuntimeError):
    """What calls of CUDA raise; nothing does here."""


DeferredCudaCallError = AcceleratorError = CudaError


def is_available() -> bool:
    """False: tinyt.cuda has no devices yet."""
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


def memory_stats(device: object = None) -> OrderedDict[str, Any]:
    """Nothing; `tinyt.memory.statistics()` is about the CPU."""
    return OrderedDict()


memory_stats_as_nested_dict = memory_stats


def host_memory_stats() -> OrderedDict[str, Any]:
    """Nothing, as `memory_stats`."""
    return OrderedDict()


def memory_summary(device: object = None, abbreviated: bool = False) -> str:
    """One line that says that there is none."""
    return "no CUDA memory: tinyt.cuda has no devices yet; see tinyt.memory.statistics()"


def seed() -> None:
    """Seeds nothing."""


def get_rng_state_all() -> list[Tensor]:
    """No states."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Takes no states: DeviceError for any."""
    if list(new_states):
        _refuse("set_rng_state_all")


def get_arch_list() -> list[str]:
    """None."""
    return []


def get_gencode_flags() -> str:
    """None."""
    return ""


def is_current_stream_capturing() -> bool:
    """False."""
    return False


def is_tf32_supported() -> bool:
    """False."""
    return False


def synchronize(device: object = None) -> None:
    """Waits for nothing: there is nothing that could run."""


def _refuse(name: str) -> NoReturn:
    raise DeviceError(
        f"cuda.{name}: tinyt.cuda has no devices yet; check cuda.is_available() first"
    )


def list_gpu_processes(device: object = None) -> str:
    """One line that says that there are none."""
    return "no GPU processes: tinyt.cuda has no devices yet"


def _is_none(device: object) -> bool:
    """Whether a device is named at all."""
    return device is None or (isinstance(device, int) and device < 0)


class device:
    """A block on a device: None or a negative index for none; DeviceError for any other."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> None:
        if not _is_none(self.device):
            _refuse("device")

    def __exit__(self, *exc: object) -> None:
        pass


class device_of(device):
    """A block on the device of a tensor; of one on the CPU, no block."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


class StreamContext(device):
    """A block on a stream: None for none; DeviceError for any other."""


stream = StreamContext


def set_stream(stream: Any) -> None:
    """Nothing for None; DeviceError for any other stream."""
    if stream is not None:
        _refuse("set_stream")


class Stream:
    """DeviceError: there is no device."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("Stream")


class Event:
    """DeviceError: there is no device; `time.perf_counter` times work of the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("Event")


class ExternalStream(Stream):
    """DeviceError: there is no device."""


class graph:
    """DeviceError: there is no device; `tinyt.compile` makes programs for the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("graph")


class CUDAGraph:
    """DeviceError: there is no device; `tinyt.compile` makes programs for the CPU."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("CUDAGraph")


class _TensorType(type):
    """The class of `FloatTensor` and its like: no tensor is an instance."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(cls.__name__)


def _tensor_type(name: str) -> _TensorType:
    return _TensorType(name, (), {"__doc__": "DeviceError: there is no device."})


BFloat16Tensor = _tensor_type("BFloat16Tensor")
BoolTensor = _tensor_type("BoolTensor")
ByteTensor = _tensor_type("ByteTensor")
CharTensor = _tensor_type("CharTensor")
DoubleTensor = _tensor_type("DoubleTensor")
FloatTensor = _tensor_type("FloatTensor")
HalfTensor = _tensor_type("HalfTensor")
IntTensor = _tensor_type("IntTensor")
LongTensor = _tensor_type("LongTensor")
ShortTensor = _tensor_type("ShortTensor")


def set_device(device: object) -> None:
    """DeviceError: there is no device; nothing for a negative index."""
    if not _is_none(device):
        _refuse("set_device")


def _refusing(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        _refuse(name)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "DeviceError: there is no device."
    return refuse


# What needs a device, whatever its arguments.
can_device_access_peer = _refusing("can_device_access_peer")
cudart = _refusing("cudart")
current_device = _refusing("current_device")
current_stream = _refusing("current_stream")
default_stream = _refusing("default_stream")
get_device_capability = _refusing("get_device_capability")
get_device_name = _refusing("get_device_name")
get_device_properties = _refusing("get_device_properties")
device_memory_used = _refusing("device_memory_used")
get_allocator_backend = _refusing("get_allocator_backend")
get_per_process_memory_fraction = _refusing("get_per_process_memory_fraction")
get_rng_state = _refusing("get_rng_state")
get_sync_debug_mode = _refusing("get_sync_debug_mode")
graph_pool_handle = _refusing("graph_pool_handle")
make_graphed_callables = _refusing("make_graphed_callables")
memory_usage = _refusing("memory_usage")
set_sync_debug_mode = _refusing("set_sync_debug_mode")
init = _refusing("init")
initial_seed = _refusing("initial_seed")
mem_get_info = _refusing("mem_get_info")
memory_snapshot = _refusing("memory_snapshot")
set_per_process_memory_fraction = _refusing("set_per_process_memory_fraction")
set_rng_state = _refusing("set_rng_state")
utilization = _refusing("utilization")

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
    "utilization",
]
