"""Measures cases in both libraries in this process: one thread count, one instruction set.

`benchmarks.compare` starts it with the environment that fixes both and a `Job` as its input, and
reads lines of JSON: the facts, a row for each case, the peaks.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import torch

import tinyt
from benchmarks import compiled, facts, memory
from benchmarks.case import Call, Case
from benchmarks.cases import collect
from benchmarks.limits import Limits, NoLimits
from benchmarks.protocol import PATIENCE, Compiled, Job, Peer, Row
from benchmarks.stats import ratio_of_bests, upper_bound
from tinyt.cli.timing import rounds_of

LIBRARIES = (tinyt, torch)


def peer(name: str, case: Case, arrays: list[np.ndarray]) -> Call | None:
    """The case by another compiler, if there is one."""
    if name == "torch.compile":
        return torch.compile(case.uncompiled().call(torch, arrays))
    return case.jax and case.jax(arrays)


def peers(case: Case, job: Job, arrays: list[np.ndarray]) -> dict[str, tuple[Call, float]]:
    """Those of the job's that have the case, and the seconds of their first two calls."""
    found = ((name, peer(name, case, arrays)) for name in job.peers)
    return {name: (call, compiled.two_calls(call)) for name, call in found if call}


class Times(NamedTuple):
    """The seconds of every round."""

    tinyt: list[float]
    torch: list[float]
    eager: list[float] | None
    """Of a compiled case without the compiler."""
    peers: dict[str, Peer]


def times(case: Case, job: Job) -> Times:
    """In each library; of a compiled case by eager tinyt and the job's peers too."""
    arrays = case.arrays(job.seed)
    calls = [case.call(lib, arrays) for lib in LIBRARIES]
    others = {}
    if case.eager:
        calls.append(case.uncompiled().call(tinyt, arrays))
        for call in 2 * calls:  # a compiler's work is measured by itself
            call()
        others = peers(case, job, arrays)
        calls += [call for call, _ in others.values()]
    del arrays

    gc.collect()
    gc.disable()
    try:
        ours, theirs, *rest = rounds_of(calls, job.rounds, job.seconds, at_most=PATIENCE)
    finally:
        gc.enable()
        calls.clear()
        tinyt.memory.empty_cache()
    if not case.eager:
        return Times(ours, theirs, None, {})
    eager, *rest = rest
    timed = zip(others.items(), rest, strict=True)
    return Times(ours, theirs, eager, {n: Peer(min(t), first) for (n, (_, first)), t in timed})


def beside_eager(case: Case, job: Job, ours: list[float], eager: list[float]) -> Compiled:
    """The compiled case beside the same without the compiler."""
    arrays = case.arrays(job.seed)
    planned, unplanned = (compiled.footprint(c, arrays) for c in (case, case.uncompiled()))
    return Compiled(
        min(eager),
        ratio_of_bests(ours, eager),
        upper_bound(ours, eager),
        compiled.first_calls(case, arrays),
        planned.peak,
        unplanned.peak,
        planned.system_allocations,
    )


def measure(case: Case, job: Job, limits: Limits | None) -> Row:
    """One case; what it raises is a result too."""
    peaks: list[int | None] = [None, None]
    found = None
    try:
        ours, theirs, eager, others = times(case, job)
        if eager:
            found = beside_eager(case, job, ours, eager)
        if case.memory and job.memory:
            peaks = [memory.peak(lib.__name__, case.id, job.seed) for lib in LIBRARIES]
    except Exception as error:  # whatever it is, the other cases are still of interest
        message = str(error).strip().partition("\n")[0]
        text = f"{type(error).__name__}: {message}"
        return Row(case.group, case.name, error=text, part=case.part)
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
        part=case.part,
        compiled=found,
        peers=others,
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
                limits.look_for_cores()
    if limits:
        tell("peaks", limits.found())


if __name__ == "__main__":
    main()
