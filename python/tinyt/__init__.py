"""tinyt: a small, fast tensor library with PyTorch's API and numerics."""

from __future__ import annotations

from tinyt import memory, ops
from tinyt._core import (
    CaptureError,
    DeviceError,
    DimError,
    DTypeError,
    OutOfMemoryError,
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
from tinyt.config import get_num_threads, num_threads, set_num_threads, show_config
from tinyt.dtypes import (
    ALIASES,
    ALL,
    can_cast,
    get_default_dtype,
    promote_types,
    result_type,
    set_default_dtype,
)
from tinyt.printing import set_printoptions
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

from tinyt import autograd, data, linalg, nn, optim, utils  # isort: skip
from tinyt.serialization import SerializationError, load, save  # isort: skip

__version__ = "0.1.0"

globals().update(ops.EXPORTS)
globals().update({t.name: t for t in ALL})
globals().update(ALIASES)

__all__ = [
    "CaptureError",
    "DTypeError",
    "DeviceError",
    "DimError",
    "Generator",
    "OutOfMemoryError",
    "SerializationError",
    "ShapeError",
    "Size",
    "Tensor",
    "autograd",
    "can_cast",
    "data",
    "default_generator",
    "device",
    "dtype",
    "enable_grad",
    "get_default_dtype",
    "get_num_threads",
    "get_rng_state",
    "inference_mode",
    "initial_seed",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "linalg",
    "load",
    "manual_seed",
    "memory",
    "nn",
    "no_grad",
    "num_threads",
    "optim",
    "promote_types",
    "result_type",
    "save",
    "seed",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "show_config",
    "utils",
    *ops.EXPORTS,
    *(t.name for t in ALL),
    *ALIASES,
]
