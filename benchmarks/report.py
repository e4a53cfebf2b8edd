"""What `benchmarks.compare` prints, and the page of its results of record, which
`python -m benchmarks.report benchmarks/results/*.json > benchmarks/results/README.md` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.floors import FLOORS, group_means
from benchmarks.protocol import Compiled, Row


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    for factor, unit in ((1e9, "ns"), (1e6, "us"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def head(facts: dict[str, Any], cases: int) -> str:
    return (
        f"{cases} cases, seed {facts['seed']}, best of {facts['rounds']} rounds\n"
        f"{facts['processor']}, {facts['cores']} cores; commit {facts['commit']}"
    )


def combination(facts: dict[str, Any]) -> str:
    return (
        f"tinyt {facts['level']}, {facts['threads']} threads; "
        f"torch {facts['torch']} {facts['torch_level']}, {facts['torch_threads']} threads"
    )


class Table:
    """Rows as they come, with a heading for each group."""

    def __init__(self, cases: Sequence[str]) -> None:
        self.width = max((len(case.partition("/")[2]) for case in cases), default=0)
        self.key = ""

    def row(self, row: Row) -> None:
        if row.key != self.key:
            self.key = row.key
            print(
                f"\n{FLOORS[row.key].title:<{self.width}}  {'tinyt':>8}  {'torch':>8}  "
                f"{'ratio':>6}  {'up to':>6}  {'limit':>5}"
            )
        print(self.line(row), flush=True)

    def line(self, row: Row) -> str:
        if row.error:
            return f"{row.name:<{self.width}}  {row.error}"
        share = "" if row.share is None else f"{row.share:.0%}"
        text = (
            f"{row.name:<{self.width}}  {duration(row.tinyt):>8}  {duration(row.torch):>8}  "
            f"{row.ratio:6.2f}  {row.upper:6.2f}  {share:>5}"
        )
        if row.tinyt_bytes is not None and row.torch_bytes is not None:
            text += f"  peak {row.tinyt_bytes / 1e6:.1f} MB, torch {row.torch_bytes / 1e6:.1f} MB"
        if row.compiled is not None:
            text += f"  {beside_eager(row.compiled)}"
        for name, peer in row.peers.items():
            text += f", {name} {duration(peer.seconds)}, first {duration(peer.first)}"
        return text.rstrip()


def beside_eager(found: Compiled) -> str:
    """A compiled function by eager tinyt's figures; system allocations only where there are any."""
    text = (
        f"eager {found.ratio:.2f} up to {found.upper:.2f}, first {duration(max(found.first, 0))}, "
        f"tensors {found.peak / 1e6:.3g} MB, eager {found.eager_peak / 1e6:.3g} MB"
    )
    if found.system_allocations:
        text += f", {found.system_allocations} system allocations"
    return text


def means(rows: Sequence[Row]) -> str:
    """One line a group or part: geometric mean, floor, how many cases are below one."""
    lines = [
        f"\n{'geometric mean of the ratios':<44}{'mean':>6}{'floor':>7}{'cases':>7}{'below':>7}"
    ]
    for group, mean in group_means(rows).items():
        floor = FLOORS[group]
        ratios = [row.ratio for row in rows if row.key == group and not row.error]
        below = sum(ratio < floor.case for ratio in ratios)
        lines.append(f"{floor.title:<44}{mean:6.2f}{floor.mean:7.1f}{len(ratios):7}{below:7}")
    errors = sum(bool(row.error) for row in rows)
    if errors:
        lines.append(f"{errors} cases failed")
    return "\n".join(lines)


def size(nbytes: int) -> str:
    return f"{nbytes >> 20} MiB" if nbytes >= 1 << 20 else f"{nbytes >> 10} KiB"


def peaks(found: dict[str, Any]) -> str:
    """The measured limits: arithmetic, then bandwidth by reads : writes and size in memory."""
    if not found:
        return ""
    lines = ["\nlimits of this machine, measured in this run"]
    for kind, rate in found["rates"].items():
        lines.append(f"  {kind:<10}{rate / 1e9:8.0f} G operations/s")
    for mix, figures in sorted(found["bandwidths"].items()):
        parts = [
            f"{size(int(nbytes))} {figure / 1e9:.1f}"
            for nbytes, figure in sorted(figures.items(), key=lambda item: int(item[0]))
        ]
        lines.append(f"  {mix:<10}GB/s at {', '.join(parts)}")
    if found.get("round_trips"):
        least, most = (duration(seconds) for seconds in found["round_trips"])
        lines.append(f"  a cache line from core to core and back: {least} to {most}")
    return "\n".join(lines)


def columns(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def page(records: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The lines of the page of results of record, by the names of their files."""
    found = [(name, record, c) for name, record in records.items() for c in record["combinations"]]
    yield "# Results of record"
    yield ""
    yield "Written by `python -m benchmarks.report` from the files beside it; not edited by hand."
    yield "Ratios are PyTorch's time by tinyt's, percentages are shares of the machine's limit;"
    yield "of compiled functions also eager tinyt's time by theirs, and how much longer their first"
    yield "two calls take ([what they say](../README.md))."
    yield ""
    yield columns(["Run", "File", "Commit", "Processor", "tinyt", "PyTorch", "Threads", "Seed"])
    yield columns(["---"] * 8)
    for run, (name, record, c) in enumerate(found, 1):
        processor = f"{record['processor']}, {record['cores']} cores"
        peer = f"{c['torch']} {c['torch_level']}"
        yield columns(
            [run, name, record["commit"], processor, c["level"], peer, c["threads"], record["seed"]]
        )
    yield ""
    yield columns(["Geometric mean", "Asked", *(f"Run {i + 1}" for i in range(len(found)))])
    yield columns(["---"] * (len(found) + 2))
    for group, floor in FLOORS.items():
        means = [c["means"].get(group) for _, _, c in found]
        if means.count(None) == len(means):
            continue
        yield columns([floor.title, floor.mean, *("" if m is None else f"{m:.2f}" for m in means)])
    for run, (_, _, c) in enumerate(found, 1):
        if c["missed"] is None:
            continue
        yield ""
        yield f"Run {run} of {len(c['cases'])} cases, missed in three processes:"
        yield ""
        yield from (f"- {text}" for text in c["missed"] or ["nothing"])
    yield from tables([[Row.read(case) for case in c["cases"]] for _, _, c in found])


def tables(runs: list[list[Row]]) -> Iterator[str]:
    """A table for each group: every case's ratio and share of the limit in every run."""
    for group, floor in FLOORS.items():
        cells: dict[str, list[str]] = {}
        for run, rows in enumerate(runs):
            for row in rows:
                if row.key == group:
                    cells.setdefault(row.name, [""] * len(runs))[run] = cell(row)
        if cells:
            yield from ("", f"## {floor.title}", "")
            yield columns(["Case", *(f"Run {i + 1}" for i in range(len(runs)))])
            yield columns(["---"] * (len(runs) + 1))
            yield from (columns([name, *found]) for name, found in cells.items())


def cell(row: Row) -> str:
    if row.error:
        return "failed"
    text = f"{row.ratio:.2f}" + ("" if row.share is None else f", {row.share:.0%}")
    if row.compiled is not None:
        text += f", eager {row.compiled.ratio:.2f}, first {duration(max(row.compiled.first, 0))}"
    return text


if __name__ == "__main__":
    files = map(Path, sys.argv[1:])
    print("\n".join(page({file.name: json.loads(file.read_text()) for file in files})))
