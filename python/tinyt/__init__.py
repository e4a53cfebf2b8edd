"""tinyt: a small, fast tensor library with PyTorch's API and numerics."""

from __future__ import annotations

import typing as _typing
from importlib import import_module
from math import e, inf, nan, pi

from tinyt import forks as _forks  # noqa: F401  (before what hangs in a subinterpreter)

# isort: split
from tinyt import memory, ops, return_types
from tinyt._core import (
    CaptureError,
    DeviceError,
    DimError,
    DTypeError,
    OutOfMemoryError,
    OutOfRangeError,
    ShapeError,
)
from tinyt._tensor import Size, device, dtype
from tinyt.autograd import (
    enable_grad,
    inference_mode,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from tinyt.config import (
    are_deterministic_algorithms_enabled,
    compiled_with_cxx11_abi,
    get_default_device,
    get_deterministic_debug_mode,
    get_float32_matmul_precision,
    get_num_interop_threads,
    get_num_threads,
    has_lapack,
    has_mkl,
    has_openmp,
    has_spectral,
    is_deterministic_algorithms_warn_only_enabled,
    is_warn_always_enabled,
    num_threads,
    set_default_device,
    set_deterministic_debug_mode,
    set_float32_matmul_precision,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
    set_warn_always,
    show_config,
    use_deterministic_algorithms,
)
from tinyt.dtypes import (
    ALIASES,
    ALL,
    can_cast,
    finfo,
    get_default_dtype,
    iinfo,
    promote_types,
    result_type,
    set_default_dtype,
)
from tinyt.formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    memory_format,
    preserve_format,
    strided,
)
from tinyt.printing import get_printoptions, set_printoptions
from tinyt.random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from tinyt.tensor import Tensor

from tinyt import autograd  # isort: skip
from tinyt import amp, version  # isort: skip
from tinyt.amp import (  # isort: skip
    GradScaler,
    autocast,
    clear_autocast_cache,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from tinyt.legacy import (  # isort: skip
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
    is_distributed,
    is_inference,
    set_default_tensor_type,
    typename,
)
from tinyt.storage import (  # isort: skip
    BFloat16Storage,
    BoolStorage,
    ByteStorage,
    CharStorage,
    ComplexDoubleStorage,
    ComplexFloatStorage,
    DoubleStorage,
    FloatStorage,
    HalfStorage,
    IntStorage,
    LongStorage,
    ShortStorage,
    Storage,
    TypedStorage,
    UntypedStorage,
    from_file,
    is_storage,
)
from tinyt.serialization import SerializationError, load, save  # isort: skip
from tinyt.compiler.api import MemoryLimitError, VerificationError, compile  # isort: skip
from tinyt.compiler.lazy import lazy  # isort: skip
from tinyt.imports import when_imported as _when_imported  # isort: skip

__version__ = version.__version__
newaxis = None

# einops knows tensors by classes that exist when it meets one.
_when_imported("einops._backends", lambda _: import_module(f"{__name__}.interop.einops_backend"))

# Parts of PyTorch that do not exist here, and what to do without them.
_ABSENT = {
    "sparse": "tensors are strided",
}


# Loaded when they are first asked for.
_LAZY = {
    "_C",
    "__config__",
    "_dynamo",
    "_utils",
    "accelerator",
    "as_torch",
    "backends",
    "cpu",
    "cuda",
    "data",
    "distributed",
    "distributions",
    "export",
    "functional",
    "fx",
    "hub",
    "interop",
    "jit",
    "library",
    "linalg",
    "mps",
    "multiprocessing",
    "nn",
    "onnx",
    "optim",
    "profiler",
    "special",
    "testing",
    "torch_version",
    "types",
    "utils",
    "xpu",
}

# Functions that few programs call, by the module that is loaded when one is asked for.
_LAZY_NAMES = {
    **dict.fromkeys(("cond", "scan", "while_loop"), "compiler.control_flow"),
    "devices": "accelerator",
}

# Modules whose EXPORTS are names of this package, too, loaded when one is asked for that is not
# above.
_FURTHER = ("native", "foreach", "native_layers", "streams")


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY:
        return import_module(f"{__name__}.{name}")
    if name in _LAZY_NAMES:
        return getattr(import_module(f"{__name__}.{_LAZY_NAMES[name]}"), name)
    for module in _FURTHER:
        exports = import_module(f"{__name__}.{module}").EXPORTS
        if name in exports:
            return exports[name]
    hint = _ABSENT.get(name)
    raise AttributeError(
        f"module 'tinyt' has no attribute '{name}'" + (f": {hint}" if hint else "")
    )


def __dir__() -> list[str]:
    return sorted(globals().keys() | _LAZY | _LAZY_NAMES.keys())


globals().update(ops.EXPORTS)
globals().update({t.name: t for t in ALL})
globals().update(ALIASES)

__all__ = [
    "BFloat16Storage",
    "BoolStorage",
    "ByteStorage",
    "CharStorage",
    "ComplexDoubleStorage",
    "ComplexFloatStorage",
    "DoubleStorage",
    "FloatStorage",
    "HalfStorage",
    "IntStorage",
    "LongStorage",
    "ShortStorage",
    "Storage",
    "TypedStorage",
    "UntypedStorage",
    "compiled_with_cxx11_abi",
    "from_file",
    "get_deterministic_debug_mode",
    "has_lapack",
    "has_mkl",
    "has_openmp",
    "has_spectral",
    "is_distributed",
    "is_inference",
    "is_storage",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_flush_denormal",
    "set_warn_always",
    "typename",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CaptureError",
    "CharTensor",
    "DTypeError",
    "DeviceError",
    "DimError",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "GradScaler",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "MemoryLimitError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "SerializationError",
    "ShapeError",
    "ShortTensor",
    "Size",
    "Tensor",
    "VerificationError",
    "accelerator",
    "amp",
    "are_deterministic_algorithms_enabled",
    "autocast",
    "autograd",
    "backends",
    "can_cast",
    "channels_last",
    "channels_last_3d",
    "clear_autocast_cache",
    "contiguous_format",
    "cuda",
    "data",
    "compile",
    "cond",
    "default_generator",
    "device",
    "devices",
    "dtype",
    "e",
    "enable_grad",
    "finfo",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_printoptions",
    "get_rng_state",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "layout",
    "lazy",
    "library",
    "linalg",
    "load",
    "manual_seed",
    "memory",
    "memory_format",
    "nan",
    "nn",
    "no_grad",
    "num_threads",
    "optim",
    "pi",
    "preserve_format",
    "promote_types",
    "result_type",
    "return_types",
    "save",
    "scan",
    "seed",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "show_config",
    "special",
    "strided",
    "testing",
    "use_deterministic_algorithms",
    "utils",
    "version",
    "while_loop",
    *ops.EXPORTS,
    *(t.name for t in ALL),
    *ALIASES,
]
