"""`autocast`: a block in which PyTorch would lower the precision of some operations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from tinyt._tensor import dtype as DType
from tinyt.dtypes import bfloat16, float16

F = TypeVar("F", bound=Callable[..., Any])


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows the kind of device: "cpu"."""
    return device_type == "cpu"


class autocast:
    """A block, or decorator, that leaves the precision as it is; see the module's text.

    Args:
        device_type: "cpu"; "cuda" warns and is off, as PyTorch does without CUDA.
        dtype: bfloat16 or float16; kept, no effect.
        enabled: kept.
        cache_enabled: accepted, no effect.
    """

    def __init__(
        self,
        device_type: str,
        dtype: DType | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if device_type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"autocast: unsupported autocast device_type {device_type!r}; this build has: cpu"
            )
        if dtype is not None and dtype not in (bfloat16, float16) and device_type == "cpu":
            warnings.warn(
                "autocast: on the CPU only bfloat16 and float16 are lower precisions; disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        if device_type == "cuda" and enabled:
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                UserWarning,
                stacklevel=2,
            )
            enabled = False
        self.device = device_type
        self.fast_dtype = bfloat16 if dtype is None else dtype
        self._enabled = enabled

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing was changed."""

    def __call__(self, function: F) -> F:  # noqa: D102
        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]


def custom_fwd(
    fwd: F | None = None, *, device_type: str = "cpu", cast_inputs: DType | None = None
) -> Any:
    """Marks the forward of a `Function` for autocast; returns it as it is."""
    return fwd if fwd is not None else lambda function: function


def custom_bwd(bwd: F | None = None, *, device_type: str = "cpu") -> Any:
    """Marks the backward of a `Function` for autocast; returns it as it is."""
    return bwd if bwd is not None else lambda function: function
