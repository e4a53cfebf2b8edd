"""The opt_einsum package: not used; `einsum` orders its products itself."""

from __future__ import annotations

enabled: bool = False
strategy: str | None = None


def is_available() -> bool:
    """False."""
    return False
