"""The time of a call, as free of other programs' noise as it can be had."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


def best(function: Callable[[], object], seconds: float) -> float:
    """Seconds of one call: the fastest batch within a time budget."""
    start = time.perf_counter()
    function()
    once = max(time.perf_counter() - start, 1e-7)
    batch = max(1, int(seconds / 10 / once))
    fastest = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(batch):
            function()
        fastest = min(fastest, (time.perf_counter() - start) / batch)
    return fastest


def interleaved(
    functions: Sequence[Callable[[], object]], rounds: int = 7, seconds: float = 0.05
) -> list[float]:
    """Best seconds of each function; they take turns, so that all see the same noise."""
    found = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            found[i] = min(found[i], best(function, seconds))
    return found
