"""`record`, which scripts put around `main`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def record(fn: F, error_handler: Any = None) -> F:
    """The function itself: no agent reads its errors, which Python prints."""
    return fn
