"""oneDNN: not used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

enabled: bool = True


def is_available() -> bool:
    """False."""
    return False


@contextmanager
def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> Iterator[None]:
    """A block with other switches; no effect."""
    before = globals()["enabled"]
    globals()["enabled"] = enabled
    try:
        yield
    finally:
        globals()["enabled"] = before
