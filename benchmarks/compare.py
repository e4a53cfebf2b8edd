"""tinyt beside PyTorch: times, ratios, shares of the machine's limit.

    python -m benchmarks.compare                                   # all groups, all cores
    python -m benchmarks.compare --groups matmul --cases BERT      # some of them
    python -m benchmarks.compare --check --threads 1,2 --isa native,avx2
    python -m benchmarks.compare --check --against VENV            # another build of tinyt

benchmarks/README.md says what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import builds, facts, report
from benchmarks.cases import GROUPS, collect
from benchmarks.floors import group_means, judge, suspects
from benchmarks.protocol import PEERS, RUNS, Job, Row
from tinyt.config import get_num_threads

# Each library's own switch for the same instruction set. PyTorch hands products and convolutions
# to MKL and oneDNN, which do not look at ATEN_CPU_CAPABILITY.
ISAS: dict[str, dict[str, str]] = {
    "native": {},
    "avx2": {
        "TINYT_ISA": "x86-64-v3",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
    },
}


@dataclass
class Result:
    """What a worker found."""

    facts: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    peaks: dict[str, Any] = field(default_factory=dict)


def environment(job: Job) -> dict[str, str]:
    """This process's, with the job's threads and instruction set for both libraries."""
    switches = {name for row in ISAS.values() for name in row}
    kept = {name: value for name, value in os.environ.items() if name not in switches}
    threads = ("TINYT_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NPROC")  # XLA: NPROC
    return kept | ISAS[job.isa] | {name: str(job.threads) for name in threads}


def start_worker(job: Job, result: Result, show: Callable[[Row], None]) -> int:
    """Runs a job in a process of its own and adds what it tells to ``result``; its exit status."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment(job),
        cwd=Path(__file__).parents[1],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(asdict(job)))
        process.stdin.close()
        for line in process.stdout:
            ((kind, value),) = json.loads(line).items()
            if kind == "row":
                result.rows.append(Row.read(value))
                show(result.rows[-1])
            elif kind == "facts":
                result.facts = value
                print(report.combination(value), flush=True)
            elif kind == "peaks":
                result.peaks = value
            else:
                print(f"note: {value}", flush=True)
    return process.returncode


def run_worker(job: Job, show: Callable[[Row], None]) -> Result:
    """Runs a whole job. A case that ends the process is a row too; the others go on in a new one.

    ``show`` sees every row as it comes.
    """
    result = Result()
    left = job
    while status := start_worker(left, result, show):
        if not result.facts:
            raise SystemExit(f"the worker ended with status {status} before it began")
        done = {row.id for row in result.rows}
        missing = [case for case in job.cases if case not in done]
        if not missing:
            print(f"note: the worker ended with status {status} after its last case", flush=True)
            break
        culprit, *others = missing
        group, _, name = culprit.partition("/")
        result.rows.append(Row(group, name, error=f"the process ended with status {status}"))
        show(result.rows[-1])
        left = replace(job, cases=tuple(others))
    return result


def run_combination(job: Job, check: bool) -> tuple[Result, list[str]]:
    """Measures everything once, and with ``check`` the suspects again; the complaints."""
    table = report.Table(job.cases)
    result = run_worker(job, table.row)
    print(report.means(result.rows))
    print(report.peaks(result.peaks), flush=True)
    if not check:
        return result, []
    runs = [result.rows]
    while len(runs) < RUNS and (again := suspects(runs[-1])):
        print(f"\nagain, run {len(runs) + 1} of {RUNS}: what missed something", flush=True)
        fewer = replace(job, cases=tuple(case for case in job.cases if case in again))
        runs.append(run_worker(fewer, report.Table(fewer.cases).row).rows)
    return result, judge(runs)


def run_builds(job: Job, keys: dict[str, str], venv: Path) -> tuple[dict[str, Any], list[str]]:
    """Beside another build: what is written of it, and the complaints."""
    cases = {case: keys[case] for case in job.cases}
    rows, found = builds.compare(cases, venv, job, environment(job))
    written = {"isa": job.isa, "threads": job.threads, "means": group_means(rows)}
    return written | {"cases": [asdict(row) for row in rows]}, found


def numbers(text: str) -> list[int]:
    """``1,2`` as a list of positive numbers."""
    found = [int(part) for part in text.split(",")]
    if min(found) < 1:
        raise ValueError
    return found


def names(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Reads ``a,b``; each must be known."""

    def read(text: str) -> list[str]:
        found = text.split(",")
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        return found

    return read


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.compare", description="tinyt beside PyTorch on this machine's CPU"
    )
    add = parser.add_argument
    add("--check", action="store_true", help="exit with 1 where a floor is missed (floors.py)")
    add(
        "--threads",
        type=numbers,
        default=[get_num_threads()],
        metavar="1,2",
        help="of both (all cores)",
    )
    add("--isa", type=names(list(ISAS)), default=["native"], metavar="native,avx2", help="(native)")
    add(
        "--groups",
        "--only",
        type=names(GROUPS),
        default=list(GROUPS),
        metavar="A,B",
        help=", ".join(GROUPS),
    )
    add("--cases", type=re.compile, default=re.compile(""), metavar="REGEX", help="in group/name")
    add("--against", type=Path, metavar="VENV", help="beside another build, not PyTorch")
    add("--peers", type=names(PEERS), default=[], metavar="A,B", help=f"too: {', '.join(PEERS)}")
    add("--rounds", type=int, default=9, metavar="N", help="of each case, the best counts (9)")
    add("--seconds", type=float, default=0.03, help="of a library in a round (0.03)")
    add("--seed", type=int, default=None, metavar="N", help="of values and drawn shapes (fresh)")
    add("--quick", action="store_true", help="small cases, short rounds: does everything run?")
    add("--json", type=Path, metavar="FILE", help="write the result of record")
    add("--list", action="store_true", help="names of the cases, and nothing else")
    args = parser.parse_args(argv)
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 31)
    if args.quick:
        args.rounds, args.seconds = 2, 0.001
    return args


def main(argv: Sequence[str] | None = None) -> int:
    args = parse(argv)
    keys = {case.id: case.part or case.group for case in collect(args.seed)}
    chosen = [
        case.id
        for case in collect(args.seed)
        if case.group in args.groups
        and args.cases.search(case.id)
        and (case.is_small or not args.quick)
    ]
    if args.list:
        print("\n".join(chosen))
        return 0
    head = facts.machine() | {"seed": args.seed, "rounds": args.rounds}
    print(report.head(head, len(chosen)))
    written, complaints = [], []
    for isa in args.isa:
        for threads in args.threads:
            job = Job(
                threads,
                isa,
                args.seed,
                tuple(chosen),
                args.rounds,
                args.seconds,
                memory=not args.quick,
                peers=tuple(args.peers),
            )
            print(f"\n== {isa}, {threads} threads ==")
            if args.against:
                entry, found = run_builds(job, keys, args.against)
                complaints += [f"{isa}, {threads} threads: {text}" for text in found]
                written.append(entry)
                continue
            result, found = run_combination(job, args.check)
            complaints += [f"{isa}, {threads} threads: {text}" for text in found]
            written.append(
                {"isa": isa, **result.facts, "peaks": result.peaks}
                | {"means": group_means(result.rows), "missed": found if args.check else None}
                | {"cases": [asdict(row) for row in result.rows]}
            )
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(head | {"combinations": written}, indent=1) + "\n")
    if args.check:
        print("\n" + ("\n".join(complaints) or "every floor holds"))
        print(f"seed {args.seed}")
    return 1 if args.check and complaints else 0


if __name__ == "__main__":
    sys.exit(main())
