"""`torch.cpu`: the one device there is."""

from __future__ import annotations

from tinyt.amp import autocast

__all__ = [
    "autocast",
    "current_device",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """ "cpu"."""
    return "cpu"


def set_device(device: object) -> None:
    """Sets nothing: there is one."""


def synchronize(device: object = None) -> None:
    """Waits for nothing: operations have run when they return."""
