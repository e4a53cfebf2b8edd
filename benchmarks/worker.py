"""Measures cases in both libraries in this process: one thread count, one instruction set.

`benchmarks.compare` starts it with the environment that fixes both and a `Job` as its input, and
reads lines of JSON: the facts, a row for each case, the peaks.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from dataclasses import asdict
from typing import Any

import torch

import tinyt
from benchmarks import facts, memory
from benchmarks.case import Case
from benchmarks.cases import collect
from benchmarks.limits import Limits, NoLimits
from benchmarks.protocol import Job, Row
from benchmarks.stats import ratio_of_bests, upper_bound
from tinyt.cli.timing import rounds_of

LIBRARIES = (tinyt, torch)

SETTLE = 0.02
"""OpenMP's threads spin for some 15 ms after their last work: on a machine without a spare core
they would be in the other library's way."""

PATIENCE = 30.0
"""Seconds of a case, after which it gets no more than three rounds."""


def times(case: Case, job: Job) -> list[list[float]]:
    """The seconds of every round, in each library."""
    arrays = case.arrays(job.seed)
    calls = [case.call(lib, arrays) for lib in LIBRARIES]
    del arrays

    def settle() -> None:
        if job.threads > 1:
            time.sleep(SETTLE)

    gc.collect()
    gc.disable()
    try:
        return rounds_of(calls, job.rounds, job.seconds, settle, at_most=PATIENCE)
    finally:
        gc.enable()
        calls.clear()
        tinyt.memory.empty_cache()


def measure(case: Case, job: Job, limits: Limits | None) -> Row:
    """One case; what it raises is a result too."""
    peaks: list[int | None] = [None, None]
    try:
        ours, theirs = times(case, job)
        if case.memory and job.memory:
            peaks = [memory.peak(lib.__name__, case.id, job.seed) for lib in LIBRARIES]
    except Exception as error:  # whatever it is, the other cases are still of interest
        message = str(error).strip().partition("\n")[0]
        return Row(case.group, case.name, error=f"{type(error).__name__}: {message}")
    return Row(
        case.group,
        case.name,
        tinyt=min(ours),
        torch=min(theirs),
        ratio=ratio_of_bests(ours, theirs),
        upper=upper_bound(ours, theirs),
        limit=limits.seconds(case.work) if limits else None,
        demand=case.demand,
        tinyt_bytes=peaks[0],
        torch_bytes=peaks[1],
    )


def tell(kind: str, value: Any) -> None:
    print(json.dumps({kind: value}), flush=True)


def main() -> None:
    job = Job(**json.load(sys.stdin))
    for lib in LIBRARIES:
        lib.set_num_threads(job.threads)
    tell("facts", facts.combination(tinyt, torch))
    limits = None
    try:
        limits = Limits(job.isa, job.threads)
    except NoLimits as error:
        tell("note", str(error))
    wanted = set(job.cases)
    for case in collect(job.seed):
        if case.id in wanted:
            tell("row", asdict(measure(case, job, limits)))
    if limits:
        tell("peaks", {"rates": limits.rates, "bandwidths": limits.bandwidths})


if __name__ == "__main__":
    main()
