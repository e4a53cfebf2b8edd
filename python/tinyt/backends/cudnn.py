"""cuDNN: not built. Its switches can be set; results are deterministic in any case."""

from __future__ import annotations

enabled: bool = True
benchmark: bool = False
deterministic: bool = False
allow_tf32: bool = True


def is_available() -> bool:
    """False."""
    return False


def version() -> int | None:
    """None."""
    return None
