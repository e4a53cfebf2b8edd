"""What `--check` asks for: the one table of floors, and the judgement."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.protocol import Row
from benchmarks.stats import geometric_mean


@dataclass(frozen=True)
class Floor:
    """Ratios to PyTorch: of a group's geometric mean, and of each of its cases."""

    title: str
    mean: float
    case: float


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


def faults(row: Row) -> list[str]:
    """What a case misses in one run."""
    if row.error:
        return [f"failed: {row.error}"]
    found = []
    floor = FLOORS[row.group].case
    if row.upper < floor:
        found.append(f"ratio {row.ratio:.2f} (at most {row.upper:.2f}) is below {floor}")
    if row.demand:
        share, least = row.share, SHARES[row.demand]
        if share is None:
            found.append("its share of the limit could not be measured")
        elif share < least:
            found.append(f"{share:.0%} of the limit is below {least:.0%} ({row.demand})")
    if row.memory_ratio is not None and row.memory_ratio < MEMORY:
        found.append(f"peak memory of {row.tinyt_bytes} bytes, PyTorch's is {row.torch_bytes}")
    return found


def suspects(rows: Iterable[Row]) -> set[str]:
    """The ids of the cases that miss something."""
    return {row.id for row in rows if faults(row)}


def group_means(rows: Iterable[Row]) -> dict[str, float]:
    """Geometric mean of the ratios of every group that was measured, in the table's order."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if not row.error:
            ratios.setdefault(row.group, []).append(row.ratio)
    return {group: geometric_mean(ratios[group]) for group in FLOORS if group in ratios}


def judge(runs: Sequence[Sequence[Row]]) -> list[str]:
    """Complaints about a whole run and its repetitions, which hold the suspects only.

    A group's mean counts as measured first. A case counts only when it misses something in every
    run; the complaint is the last run's.
    """
    complaints = [
        f"{group}: geometric mean {mean:.2f} is below {FLOORS[group].mean}"
        for group, mean in group_means(runs[0]).items()
        if mean < FLOORS[group].mean
    ]
    guilty = set.intersection(*(suspects(run) for run in runs))
    for row in runs[-1]:
        if row.id in guilty:
            complaints += [f"{row.id}: {fault}" for fault in faults(row)]
    return complaints
