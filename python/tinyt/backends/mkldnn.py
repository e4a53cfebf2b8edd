"""oneDNN: not used."""

from __future__ import annotations

enabled: bool = True


def is_available() -> bool:
    """False."""
    return False
