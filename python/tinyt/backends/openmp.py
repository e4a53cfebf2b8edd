"""OpenMP: not used; threads are a pool of the library's own."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
