"""What `--check` asks for: the one table of floors, and the judgement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from benchmarks.protocol import Compiled, Row
from benchmarks.stats import geometric_mean


@dataclass(frozen=True)
class Floor:
    """Ratios to PyTorch: of a group's geometric mean, and of each of its cases."""

    title: str
    mean: float
    case: float
    first: float = math.inf
    """Of a compiled case: the most seconds its first two calls may take beyond eager ones."""


FLOORS = {
    "overhead": Floor("call overhead", 2.0, 1.0),
    "elementwise": Floor("elementwise", 1.5, 1.0),
    "reductions": Floor("reductions, norms, softmax, scans, sort", 1.8, 1.0),
    "copies": Floor("copies and indexing", 2.0, 1.0),
    "matmul": Floor("matmul float32/float64", 1.1, 0.9),
    "matmul_low": Floor("matmul bfloat16/float16/int8", 1.8, 1.0),
    "convolution": Floor("convolution and pooling", 1.4, 1.0),
    "attention": Floor("attention", 1.5, 1.1),
    "training": Floor("training step", 1.4, 1.0),
    # The group `compile`, by parts.
    "compile MLP": Floor("compiled step, MLP", 8.0, 8.0, first=0.020),
    "compile CNN": Floor("compiled step, CNN", 2.0, 2.0, first=0.040),
    "compile transformer": Floor("compiled step, transformer", 1.6, 1.6, first=0.400),
    "compile bfloat16": Floor("compiled step, transformer, bfloat16", 2.0, 2.0, first=0.400),
    "compile": Floor("compiled step, others", 1.4, 1.0),
    "compile chains": Floor("compiled chains of elementwise operations", 4.0, 1.0),
    "compile movements": Floor("compiled movements between kernels", 1.4, 1.0),
    "compile lazy": Floor("lazy blocks of elementwise operations", 1.0, 1.0),
    "compile products": Floor("compiled products with what follows", 1.0, 1.0),
    "compile loops": Floor("compiled loops, through scan", 4.0, 4.0),
    "compile calls": Floor("compiled calls of few operations on little", 1.0, 1.0),
    "compile by hand": Floor("compiled norms, activations, losses by hand", 3.0, 1.0),
}

# Shares of the machine's limit. A case names its row in `demand`.
SHARES = {
    "large matmul": 0.90,  # float32, from 1000 in every dimension
    "transformer matmul": 0.85,  # float32, M >= 2000, N and K >= 384
    "convolution": 0.70,  # float32, from 32 channels
    "large bfloat16": 0.55,  # from 1500 in every dimension, or with prepacked weights
    "stream": 0.80,  # large elementwise, copies and reductions
}

# PyTorch's peak memory of a training step by tinyt's.
MEMORY = 1.0

# Eager tinyt's time by that of a compiled function, which needs no more memory for tensors and
# asks the system for none after its second call.
EAGER = 1.0


def faults(row: Row) -> list[str]:
    """What a case misses in one run."""
    if row.error:
        return [f"failed: {row.error}"]
    found = []
    floor = FLOORS[row.key]
    if row.upper < floor.case:
        found.append(f"ratio {row.ratio:.2f} (at most {row.upper:.2f}) is below {floor.case}")
    if row.demand:
        share, least = row.share, SHARES[row.demand]
        if share is None:
            found.append("its share of the limit could not be measured")
        elif share < least:
            found.append(f"{share:.0%} of the limit is below {least:.0%} ({row.demand})")
    if row.memory_ratio is not None and row.memory_ratio < MEMORY:
        found.append(f"peak memory of {row.tinyt_bytes} bytes, PyTorch's is {row.torch_bytes}")
    if row.compiled is not None:
        found += compiled_faults(row.compiled, floor)
    return found


def compiled_faults(row: Compiled, floor: Floor) -> Iterator[str]:
    """What a compiled case misses beside its floors to PyTorch."""
    if row.upper < EAGER:
        yield f"ratio to eager {row.ratio:.2f} (at most {row.upper:.2f}) is below {EAGER}"
    if row.first > floor.first:
        yield f"its first two calls take {row.first * 1e3:.1f} ms more, not {floor.first * 1e3:g}"
    if row.peak > row.eager_peak:
        yield f"peak of {row.peak} bytes of tensors, eager's is {row.eager_peak}"
    if row.system_allocations:
        yield f"{row.system_allocations} system allocations after its second call"


def suspects(rows: Iterable[Row]) -> set[str]:
    """The ids of the cases that miss something."""
    return {row.id for row in rows if faults(row)}


class Measured(Protocol):
    """What a group's mean asks of a row."""

    @property
    def key(self) -> str: ...
    @property
    def ratio(self) -> float: ...
    @property
    def error(self) -> str: ...


def group_means(rows: Iterable[Measured]) -> dict[str, float]:
    """Geometric mean of the ratios of every row of the table that was measured, in its order."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if not row.error:
            ratios.setdefault(row.key, []).append(row.ratio)
    return {group: geometric_mean(ratios[group]) for group in FLOORS if group in ratios}


def judge(runs: Sequence[Sequence[Row]]) -> list[str]:
    """Complaints about a whole run and its repetitions, which hold the suspects only.

    A group's mean counts as measured first, unless the floor of its cases implies it. A case
    counts only when it misses something in every run; the complaint is the last run's.
    """
    complaints = [
        f"{group}: geometric mean {mean:.2f} is below {FLOORS[group].mean}"
        for group, mean in group_means(runs[0]).items()
        if mean < FLOORS[group].mean > FLOORS[group].case
    ]
    guilty = set.intersection(*(suspects(run) for run in runs))
    for row in runs[-1]:
        if row.id in guilty:
            complaints += [f"{row.id}: {fault}" for fault in faults(row)]
    return complaints
