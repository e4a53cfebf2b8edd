"""Memory: statistics, limits, the cache, and arenas.

All figures are bytes on the CPU.
"""

from __future__ import annotations

from tinyt._core import (
    Arena,
    empty_cache,
    fail_nth_allocation,
    limit,
    live_tensors,
    reset_peak,
    set_cache_limit,
    set_limit,
)
from tinyt._core import memory_statistics as statistics

__all__ = [
    "Arena",
    "empty_cache",
    "fail_nth_allocation",
    "limit",
    "live_tensors",
    "reset_peak",
    "set_cache_limit",
    "set_limit",
    "statistics",
]
