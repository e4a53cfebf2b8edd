"""`torch.amp`: mixed precision.

Inside `autocast` products and convolutions compute in bfloat16 or float16, and what loses too much
in them in float32: PyTorch's lists for the CPU. `GradScaler` scales and checks gradients, which
float16 needs.
"""

from __future__ import annotations

from tinyt.amp.autocast_mode import (
    autocast,
    custom_bwd,
    custom_fwd,
    get_autocast_cpu_dtype,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_cpu_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from tinyt.amp.grad_scaler import GradScaler
from tinyt.ops.autocast import clear_autocast_cache

__all__ = [
    "GradScaler",
    "autocast",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]
