"""What `benchmarks.compare` prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.floors import FLOORS, group_means
from benchmarks.protocol import Row


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
        self.group = ""

    def row(self, row: Row) -> None:
        if row.group != self.group:
            self.group = row.group
            print(
                f"\n{FLOORS[row.group].title:<{self.width}}  {'tinyt':>8}  {'torch':>8}  "
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
        return text.rstrip()


def means(rows: Sequence[Row]) -> str:
    """One line a group: geometric mean, floor, how many cases are below one."""
    lines = [
        f"\n{'geometric mean of the ratios':<44}{'mean':>6}{'floor':>7}{'cases':>7}{'below':>7}"
    ]
    for group, mean in group_means(rows).items():
        floor = FLOORS[group]
        ratios = [row.ratio for row in rows if row.group == group and not row.error]
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
    return "\n".join(lines)
