"""`torch.amp`: mixed precision.

On the CPU, operations compute in the dtype of their tensors inside `autocast` too: float32 is as
fast here as casting to bfloat16 and back, and exact. A script that uses it runs unchanged, at full
precision. `GradScaler` scales and checks gradients as PyTorch's does.
"""

from __future__ import annotations

from tinyt.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from tinyt.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
