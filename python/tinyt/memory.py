"""Memory: statistics, limits, the cache, and arenas.

All figures are bytes on the CPU. ``statistics()`` returns them by name: ``current_bytes`` are live,
``cached_bytes`` freed and kept for reuse, ``reserved_bytes`` held from the system for both and for
rounding, ``peak_bytes`` the most that were live since the start or ``reset_peak()``.
``empty_cache()`` gives back every page without a live block, ``set_cache_limit(nbytes)`` bounds
what is kept (at first a quarter of main memory), ``set_limit(nbytes)`` what may be live.
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
