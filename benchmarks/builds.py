"""Two builds of tinyt beside each other, each in a process of its own, in turns: whether a change
of the code has made it slower. `python -m benchmarks.compare --against VENV` runs it.

A ratio is the other build's time by this one's: below 1 this one is slower.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.floors import FLOORS
from benchmarks.protocol import Job
from benchmarks.report import duration
from benchmarks.stats import geometric_mean, ratio_of_bests, upper_bound

MEAN = 0.98
"""The least geometric mean of a group's ratios."""

CASE = 0.93
"""A case counts as slower when its ratio is below this in all of `RUNS` runs."""

RUNS = 3

PATIENCE = 30.0
"""Seconds of a case, after which it gets no more than three rounds."""


@dataclass(frozen=True)
class BuildRow:
    """One case in both builds: seconds of one call, and of the first two calls beyond eager's."""

    case: str
    key: str
    """Of its row in `floors.FLOORS`."""
    ours: float = 0.0
    theirs: float = 0.0
    ratio: float = 0.0
    upper: float = 0.0
    """95% upper bound of the ratio."""
    first_ours: float | None = None
    first_theirs: float | None = None
    error: str = ""

    @property
    def is_slower(self) -> bool:
        """Whether this run says so."""
        return bool(self.error) or self.ratio < CASE


class Build:
    """A process that has one build."""

    def __init__(self, python: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [str(python), "-m", "benchmarks.build_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=Path(__file__).parents[1],
        )

    def __enter__(self) -> Build:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ask(self, *command: Any) -> Any:
        """The answer; SystemExit where the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its end says more
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"a build ended with status {self._process.wait()} at {command}")
        return json.loads(answer)


def rounds(builds: Sequence[Build], job: Job) -> list[list[float]]:
    """The seconds of each build in each round, in an order that reverses from round to round."""
    found: list[list[float]] = [[] for _ in builds]
    order = list(range(len(builds)))
    end = time.monotonic() + PATIENCE
    for number in range(job.rounds):
        if number >= 3 and time.monotonic() >= end:
            break
        for i in order:
            found[i].append(builds[i].ask("time", job.seconds))
        order.reverse()
    return found


def measured(case: str, key: str, builds: Sequence[Build], job: Job, first: bool) -> BuildRow:
    """One case; with ``first`` its first calls, too."""
    for name, build in zip(("this build", "the other build"), builds, strict=True):
        error = build.ask("prepare", case, job.seed)
        if error:
            return BuildRow(case, key, error=f"{name}: {error}")
    ours, theirs = rounds(builds, job)
    firsts = [build.ask("first") if first else None for build in builds]
    ratio, upper = ratio_of_bests(ours, theirs), upper_bound(ours, theirs)
    return BuildRow(case, key, min(ours), min(theirs), ratio, upper, *firsts)


def run(cases: dict[str, str], pythons: Sequence[Path], job: Job, env: dict[str, str],
        first: bool = True) -> Iterator[BuildRow]:  # fmt: skip
    """A row for each case (its id: its key), as they are measured."""
    with Build(pythons[0], env) as ours, Build(pythons[1], env) as theirs:
        for case, key in cases.items():
            yield measured(case, key, (ours, theirs), job, first)


def shown(row: BuildRow, width: int) -> str:
    if row.error:
        return f"{row.case:<{width}}  {row.error}"
    text = (
        f"{row.case:<{width}}  {duration(row.ours):>8}  {duration(row.theirs):>8}  "
        f"{row.ratio:6.3f}  {row.upper:6.3f}"
    )
    if row.first_ours is not None and row.first_theirs is not None:
        text += f"  first {duration(max(row.first_ours, 0))}, {duration(max(row.first_theirs, 0))}"
    return text


def means(rows: Iterable[BuildRow]) -> dict[str, float]:
    """Geometric mean of the ratios, by row of `floors.FLOORS`."""
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if not row.error:
            ratios.setdefault(row.key, []).append(row.ratio)
    return {key: geometric_mean(ratios[key]) for key in FLOORS if key in ratios}


def first_ratio(rows: Iterable[BuildRow]) -> float:
    """Geometric mean of this build's first calls by the other's; NaN where there are none."""
    return geometric_mean(
        [
            row.first_ours / row.first_theirs
            for row in rows
            if row.first_ours and row.first_theirs and min(row.first_ours, row.first_theirs) > 0
        ]
    )


def judge(runs: Sequence[Sequence[BuildRow]]) -> list[str]:
    """Complaints: a group's mean counts as measured first, a case only when every run that
    measures it says so; the later runs hold the suspects alone."""
    found = [
        f"{key}: geometric mean {mean:.3f} is below {MEAN}"
        for key, mean in means(runs[0]).items()
        if mean < MEAN
    ]
    if len(runs) < RUNS:
        return found
    guilty = set.intersection(*({row.case for row in run if row.is_slower} for run in runs))
    return found + [
        f"{row.case}: {row.error or f'ratio {row.ratio:.3f} is below {CASE}'}"
        for row in runs[-1]
        if row.case in guilty
    ]


def compare(
    cases: dict[str, str], venv: Path, job: Job, env: dict[str, str]
) -> tuple[list[BuildRow], list[str]]:
    """Measures and prints everything once and what is slower again; the rows and complaints."""
    pythons = (Path(sys.executable), venv / "bin" / "python")
    if not pythons[1].exists():
        raise SystemExit(f"--against {venv}: it has no bin/python")
    width = max(map(len, cases), default=0)
    print(f"{'':<{width}}  {'this':>8}  {'other':>8}  {'ratio':>6}  {'up to':>6}")
    runs: list[list[BuildRow]] = []
    left = cases
    while left and len(runs) < RUNS:
        if runs:
            print(f"\nagain, run {len(runs) + 1} of {RUNS}: what was slower", flush=True)
        runs.append([])
        for row in run(left, pythons, job, env, first=len(runs) == 1):
            runs[-1].append(row)
            print(shown(row, width), flush=True)
        left = {row.case: row.key for row in runs[-1] if row.is_slower}
    rows = runs[0] if runs else []
    print(f"\n{'geometric mean of the ratios':<44}{'mean':>7}")
    for key, mean in means(rows).items():
        print(f"{FLOORS[key].title:<44}{mean:7.3f}")
    print(f"{'first calls, this build by the other':<44}{first_ratio(rows):7.3f}")
    return rows, judge(runs) if runs else []
