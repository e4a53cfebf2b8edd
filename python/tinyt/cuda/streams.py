"""`torch.cuda.streams`: classes that need a GPU."""

from __future__ import annotations

from tinyt.cuda import (
    Event,
    ExternalStream,
    Stream,
)

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
]
