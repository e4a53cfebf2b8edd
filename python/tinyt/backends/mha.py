"""PyTorch's fast path of `TransformerEncoderLayer` in evaluation mode: not needed here."""

from __future__ import annotations

_enabled = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was given."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Kept, no effect."""
    global _enabled
    _enabled = bool(value)
