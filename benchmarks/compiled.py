"""What only a compiled function is asked: its first calls, its tensors' memory."""

from __future__ import annotations

import gc
import time
from typing import Any, NamedTuple

import numpy as np

import tinyt
from benchmarks.case import Case

TRIALS = 3


class Footprint(NamedTuple):
    """Of tinyt's side, from its third to its fifth call."""

    peak: int
    """Bytes of tensors, inputs and parameters included."""
    system_allocations: int


def footprint(case: Case, arrays: list[np.ndarray]) -> Footprint:
    """By tinyt's own statistics: exact, so that the smallest difference counts.

    No garbage and nothing cached is there to begin with: the one would count, the other could
    serve what the case itself asks for.
    """
    statistics = tinyt.memory.statistics
    gc.collect()
    tinyt.memory.empty_cache()
    before = statistics()["current_bytes"]
    call = case.call(tinyt, arrays)
    for _ in range(2):
        call()
    tinyt.memory.reset_peak()
    asked = statistics()["system_allocations"]
    for _ in range(3):
        call()
    after = statistics()
    return Footprint(after["peak_bytes"] - before, after["system_allocations"] - asked)


def first_calls(case: Case, arrays: list[np.ndarray]) -> float:
    """Seconds that the first two calls take beyond eager ones: the least of a few trials."""
    sides = case, case.uncompiled()
    compiled, eager = (
        min(two_calls(side.call(tinyt, arrays)) for _ in range(TRIALS)) for side in sides
    )
    return compiled - eager


def two_calls(call: Any) -> float:
    start = time.perf_counter()
    call()
    call()
    return time.perf_counter() - start
