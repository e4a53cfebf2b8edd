"""Two builds of tinyt beside each other, each in a process of its own, in turns: whether a change
of the code has made it slower. `python -m benchmarks.compare --against VENV` runs it.

A ratio is the other build's time by this one's: below 1 this one is slower.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.floors import FLOORS, group_means
from benchmarks.protocol import PATIENCE, RUNS, Job
from benchmarks.report import duration
from benchmarks.stats import geometric_mean, ratio_of_bests, upper_bound
from tinyt.cli.timing import in_turns

MEAN = 0.98
"""The least geometric mean of a group's ratios."""

CASE = 0.93
"""The least ratio of a case. Either counts as missed when all of `RUNS` runs miss it."""


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


def measured(case: str, key: str, builds: Sequence[Build], job: Job, first: bool) -> BuildRow:
    """One case; with ``first`` its first calls, too."""
    for name, build in zip(("this build", "the other build"), builds, strict=True):
        error = build.ask("prepare", case, job.seed)
        if error:
            return BuildRow(case, key, error=f"{name}: {error}")
    turns = [partial(build.ask, "time", job.seconds) for build in builds]
    ours, theirs = in_turns(turns, job.rounds, PATIENCE)
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


def first_ratio(rows: Iterable[BuildRow]) -> float:
    """Geometric mean of this build's first calls by the other's; NaN where there are none. Of cases
    where they take longer than a call: those of others are within the noise of calls."""
    return geometric_mean(
        [
            row.first_ours / row.first_theirs
            for row in rows
            if row.first_ours is not None and row.first_theirs is not None
            if min(row.first_ours, row.first_theirs) > max(row.ours, row.theirs)
        ]
    )


def slow_groups(rows: Iterable[BuildRow]) -> set[str]:
    """The groups whose mean this run has below `MEAN`."""
    return {key for key, mean in group_means(rows).items() if mean < MEAN}


def suspects(rows: Sequence[BuildRow]) -> dict[str, str]:
    """What is to be measured again (case: its key): cases that were slower, slow groups whole."""
    slow = slow_groups(rows)
    return {row.case: row.key for row in rows if row.is_slower or row.key in slow}


def judge(runs: Sequence[Sequence[BuildRow]]) -> list[str]:
    """Complaints, with the last run's figures: a group or a case counts when all of `RUNS` runs
    have it slower; the later runs hold the suspects alone."""
    if len(runs) < RUNS:
        return []
    groups = set.intersection(*map(slow_groups, runs))
    cases = set.intersection(*({row.case for row in run if row.is_slower} for run in runs))
    return [
        f"{key}: geometric mean {mean:.3f} is below {MEAN}"
        for key, mean in group_means(runs[-1]).items()
        if key in groups
    ] + [
        f"{row.case}: {row.error or f'ratio {row.ratio:.3f} is below {CASE}'}"
        for row in runs[-1]
        if row.case in cases
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
        left = suspects(runs[-1])
    rows = runs[0] if runs else []
    print(f"\n{'geometric mean of the ratios':<44}{'mean':>7}")
    for key, mean in group_means(rows).items():
        print(f"{FLOORS[key].title:<44}{mean:7.3f}")
    print(f"{'first calls, this build by the other':<44}{first_ratio(rows):7.3f}")
    return rows, judge(runs) if runs else []
