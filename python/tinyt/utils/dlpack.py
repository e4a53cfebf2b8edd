"""`torch.utils.dlpack`: exchange of tensors without copies."""

from __future__ import annotations

from typing import Any

from tinyt.ops import from_dlpack
from tinyt.tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule with the memory of a tensor, which `from_dlpack` takes once."""
    return tensor.__dlpack__()
