"""Mixed precision on CUDA, under its older name; off without a device."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tinyt import amp
from tinyt._tensor import dtype as DType
from tinyt.cuda.places import count
from tinyt.dtypes import float16

__all__ = [
    "GradScaler",
    "amp_definitely_not_available",
    "autocast",
    "autocast_mode",
    "common",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
]


class autocast(amp.autocast):
    """`tinyt.amp.autocast("cuda")`."""

    def __init__(
        self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`tinyt.amp.GradScaler("cuda")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)


def custom_fwd(fwd: Any = None, *, cast_inputs: DType | None = None) -> Any:
    """`tinyt.amp.custom_fwd(device_type="cuda")`: see there."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """`tinyt.amp.custom_bwd(device_type="cuda")`."""
    return amp.custom_bwd(bwd, device_type="cuda")


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not count()


def _module(name: str, *members: Any) -> ModuleType:
    """A module under PyTorch's path for some of the names above."""
    module = ModuleType(f"{__name__}.{name}", f"PyTorch's module of {name}.")
    module.__dict__.update({member.__name__: member for member in members})
    sys.modules[module.__name__] = module
    return module


autocast_mode = _module("autocast_mode", autocast, custom_bwd, custom_fwd)
common = _module("common", amp_definitely_not_available)
grad_scaler = _module("grad_scaler", GradScaler)
