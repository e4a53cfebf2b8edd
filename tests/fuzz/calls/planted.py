"""Functions with the faults that the random caller looks for: its own tests call them."""

from __future__ import annotations

import ctypes
import time
from typing import Any


def crash(*values: int, **more: int) -> Any:
    """Reads address 0 where a number is above 50."""
    for value in (*values, *more.values()):
        if isinstance(value, (int, float)) and value > 50:
            ctypes.string_at(0)
    return values


def hang(*values: int) -> Any:
    """Waits for ever for a list."""
    if any(isinstance(value, list) for value in values):
        time.sleep(10**6)
    return values


def confuse(*values: int) -> Any:
    """Raises what no caller should see, for anything but integers."""
    if not all(isinstance(value, int) for value in values):
        raise SystemError("returned a result with an exception set")
    return values


FUNCTIONS = (crash, hang, confuse)
