"""A report: what each step of a program works on, moves, computes and takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt.compiler.inspect import machine
from tinyt.compiler.inspect.cost import flops, traffic
from tinyt.dtypes import float32

if TYPE_CHECKING:
    from tinyt.compiler.capture.sources import Source
    from tinyt.compiler.inspect.facts import Facts, Inside, Lane, Operand, Step
    from tinyt.compiler.passes.recompute import Recomputed


class Row(NamedTuple):
    """A step. What only a measured run tells is None without one.

    ``share`` is the least time that the machine needs over the time that was measured, ``bound``
    what that limit comes from: "memory" or "arithmetic". ``reason`` says why the step ends where it
    does, ``boundary_bytes`` what is written and read again because of that. ``held_bytes`` is what
    the run holds then (planned), ``scratch_bytes`` what the kernel needed on top. ``lane`` is where
    it stands among steps that run side by side, None for one that runs alone. A step of control
    flow has the operations of all that it runs, which ``inside`` shows; its bytes are those of its
    own operands, each once. ``sources`` are the lines of the user's code, and the modules, that it
    comes from; for gradients, of the call of ``backward()``.
    """

    program: str
    number: int
    kind: str
    ops: tuple[str, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    bytes_read: int
    bytes_written: int
    flops: int
    seconds: float | None
    share: float | None
    bound: str
    reason: str
    boundary_bytes: int
    held_bytes: int
    scratch_bytes: int | None
    lane: Lane | None
    inside: tuple[Part, ...] = ()
    sources: tuple[Source, ...] = ()


class Part(NamedTuple):
    """A program that a step of control flow runs, and how often: where data says so, in the last
    run; -1: there was none. Bytes, operations and rows are those of one time."""

    name: str
    times: int
    bytes_read: int
    bytes_written: int
    flops: int
    rows: list[Row]


class Totals(NamedTuple):
    """A whole program; ``seconds`` is the sum of its steps, ``run_seconds`` the measured run with
    what measuring takes. ``peak_bytes`` is planned, ``measured_peak_bytes`` what the memory
    statistics showed, both with what kernels need; ``scratch_bytes`` the most that one needed."""

    program: str
    steps: int
    bytes_read: int
    bytes_written: int
    flops: int
    arena_bytes: int
    peak_bytes: int
    seconds: float | None
    run_seconds: float | None
    measured_peak_bytes: int | None
    scratch_bytes: int | None


class Report:
    """``rows`` and ``totals`` of the programs of a call; ``result`` is what the call returned,
    where the report was asked for with arguments; ``recomputed`` the values that are computed again
    for the sake of ``max_memory``. Its text is a table."""

    def __init__(
        self,
        rows: list[Row],
        totals: list[Totals],
        result: Any = None,
        recomputed: tuple[Recomputed, ...] = (),
    ) -> None:
        self.rows, self.totals, self.result = rows, totals, result
        self.recomputed = recomputed

    def __str__(self) -> str:
        parts = []
        for total in self.totals:
            rows = [row for row in self.rows if row.program == total.program]
            parts.append("\n".join([_title(total), *_table(rows), *_sums(total)]))
        if self.recomputed:
            parts.append("\n".join(["computed again:", *map(_again, self.recomputed)]))
        return "\n\n".join(parts)

    __repr__ = __str__


def make_report(programs: Iterable[Facts], result: Any = None) -> Report:
    """The report of some programs."""
    rows, totals = [], []
    recomputed: tuple[Recomputed, ...] = ()
    for program in programs:
        own = _rows(program)
        rows += own
        totals.append(_total(program, own))
        recomputed += program.recomputed
    return Report(rows, totals, result, recomputed)


def limit_of(step: Step, again: bool = False) -> tuple[float, str]:
    """The least seconds that this machine needs for a step, and what they are bound by."""
    moved = sum(traffic(step))
    seconds = moved / machine.bandwidth(moved, again) if moved else 0.0
    work = flops(step)
    products = work / machine.peak(step.dtype, float32, again) if work else 0.0
    return (products, "arithmetic") if products > seconds else (seconds, "memory")


def _rows(program: Facts) -> list[Row]:
    times = program.measures.steps() if program.measures is not None else None
    rows = []
    for number, step in enumerate(program.steps):
        seconds = share = scratch = None
        bound = ""
        if times is not None:
            begin, end, _, scratch, _ = times[number]
            seconds = (end - begin) * 1e-9
            least, bound = limit_of(step)
            if least > seconds:
                least, bound = limit_of(step, again=True)
            share = least / seconds if seconds > 0 else None
        read, written = traffic(step)
        rows.append(
            Row(
                program.name,
                number,
                step.kind,
                step.ops,
                step.inputs,
                step.outputs,
                read,
                written,
                flops(step),
                seconds,
                share,
                bound,
                step.reason,
                step.boundary_bytes,
                step.held_bytes,
                scratch,
                step.lane,
                tuple(map(_part, step.inside)),
                step.sources,
            )
        )
    return rows


def _part(inside: Inside) -> Part:
    rows = _rows(inside.program)
    return Part(
        inside.program.name,
        inside.times,
        sum(row.bytes_read for row in rows),
        sum(row.bytes_written for row in rows),
        sum(row.flops for row in rows),
        rows,
    )


def _total(program: Facts, rows: Sequence[Row]) -> Totals:
    measures = program.measures
    times = [] if measures is None else measures.steps()
    return Totals(
        program.name,
        len(rows),
        sum(row.bytes_read for row in rows),
        sum(row.bytes_written for row in rows),
        sum(row.flops for row in rows),
        program.arena_bytes,
        program.peak_bytes,
        None if measures is None else sum(row.seconds or 0.0 for row in rows),
        None if measures is None else measures.nanoseconds * 1e-9,
        None if measures is None else measures.peak_bytes,
        None if measures is None else max((scratch for *_, scratch, _ in times), default=0),
    )


# ---- text

_HEAD = (
    *(
        "#",
        "step",
        "source",
        "result",
        "lane",
        "read",
        "written",
        "FLOP",
        "held",
        "time",
        "limit",
        "cost",
    ),
    "ends",
)
_LEFT = {"step", "source", "result", "lane", "ends"}
_WIDEST = 40


def _title(total: Totals) -> str:
    steps = "1 step" if total.steps == 1 else f"{total.steps} steps"
    title = f"{total.program}: {steps}, arena {in_bytes(total.arena_bytes)}"
    title += f", peak {in_bytes(total.peak_bytes)} as planned"
    if total.measured_peak_bytes is not None and total.scratch_bytes is not None:
        title += f", {in_bytes(total.measured_peak_bytes)} as measured"
        title += f", scratch of kernels at most {in_bytes(total.scratch_bytes)}"
    return title


def _table(rows: Sequence[Row]) -> list[str]:
    cells = [_HEAD, *_lines(rows)]
    shown = [i for i in range(len(_HEAD)) if any(line[i] for line in cells[1:])]
    widths = [max(len(line[i]) for line in cells) for i in range(len(_HEAD))]
    return [
        "  ".join(
            line[i].ljust(widths[i]) if _HEAD[i] in _LEFT else line[i].rjust(widths[i])
            for i in shown
        ).rstrip()
        for line in cells
    ]


def _lines(rows: Sequence[Row], above: str = "", depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The cells of rows, and of what steps of control flow run below them."""
    for row in rows:
        number, step, *rest = _cells(row)
        yield above + number, "  " * depth + step, *rest
        for letter, part in zip("abc", row.inside, strict=False):
            yield "", "  " * (depth + 1) + _heading(part), *_of_one_time(part)
            yield from _lines(part.rows, f"{above}{number}{letter}", depth + 2)


def _heading(part: Part) -> str:
    times = (
        "each time" if part.times < 0 else "1 time" if part.times == 1 else f"{part.times} times"
    )
    return f"{part.name}, {times}:"


def _of_one_time(part: Part) -> tuple[str, ...]:
    """The cells after the name: one time's, and of all times the bytes."""
    each = in_bytes(part.bytes_read), in_bytes(part.bytes_written), scaled(part.flops)
    read, written = (in_bytes(max(part.times, 0) * n) for n in part[2:4])
    in_all = f"{read} read, {written} written in all" if part.times > 1 else ""
    return "", "", "", *each, "", "", "", "", in_all


def inside_text(step: Step) -> list[list[str]]:
    """(which part, what it does) of a step of control flow."""
    found = []
    for part in map(_part, step.inside):
        each = f"{in_flops(part.flops)}, {in_bytes(part.bytes_read)} read, "
        each += f"{in_bytes(part.bytes_written)} written"
        steps = "; ".join(shortened(row.ops) for row in part.rows)
        found.append([_heading(part)[:-1], f"{each}: {steps}"])
    return found


def _cells(row: Row) -> tuple[str, ...]:
    limit = "" if row.share is None else f"{row.share:.0%} {row.bound[:3]}"
    return (
        str(row.number),
        shortened(row.ops),
        source_text(row.sources),
        str(row.outputs[0]) if row.outputs else "",
        str(row.lane or ""),
        in_bytes(row.bytes_read),
        in_bytes(row.bytes_written),
        scaled(row.flops),
        in_bytes(row.held_bytes),
        "" if row.seconds is None else in_seconds(row.seconds),
        limit,
        in_bytes(row.boundary_bytes) if row.boundary_bytes else "",
        row.reason,
    )


def source_text(sources: Sequence[Source]) -> str:
    """The first source of a step, and how many more there are."""
    if not sources:
        return ""
    text = str(sources[0])
    if len(text) > _WIDEST:
        text = f"…{text[1 - _WIDEST :]}"
    return text if len(sources) == 1 else f"{text} +{len(sources) - 1}"


def _again(value: Recomputed) -> str:
    text = f"  {value.op} {value.dtype.name}{list(value.shape)}, {in_bytes(value.nbytes)}"
    return text if len(value.nodes) == 1 else f"{text}: {shortened(value.nodes)}"


def _sums(total: Totals) -> list[str]:
    text = f"total: {in_bytes(total.bytes_read)} read, {in_bytes(total.bytes_written)} written"
    text += f", {in_flops(total.flops)}"
    if total.seconds is not None and total.run_seconds is not None:
        text += f", {in_seconds(total.seconds)} in steps"
    return [text]


def shortened(ops: Sequence[str], widest: int = _WIDEST) -> str:
    """The names of a step's ops, the middle ones left out where they are many."""
    text = " ".join(ops)
    if len(text) <= widest:
        return text
    kept = list(ops[:-1])
    while kept and len(f"{' '.join(kept)} … {ops[-1]} ({len(ops)})") > widest:
        kept.pop()
    return f"{' '.join(kept)} … {ops[-1]} ({len(ops)})".lstrip()


def scaled(
    x: float, factor: float = 1000.0, units: Sequence[str] = ("", "k", "M", "G", "T")
) -> str:
    """Three digits and a unit."""
    unit = 0
    while unit + 1 < len(units) and abs(x) >= factor - 0.5:
        x /= factor
        unit += 1
    text = f"{x:.0f}" if unit == 0 or abs(x) >= 99.95 else f"{x:.3g}"
    return f"{text} {units[unit]}" if units[unit] else text


def in_bytes(nbytes: float) -> str:
    """As in "1.5 MiB"."""
    return scaled(nbytes, 1024.0, ("B", "KiB", "MiB", "GiB", "TiB"))


def in_flops(count: float) -> str:
    """As in "271 MFLOP"."""
    return scaled(count, 1000.0, ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"))


def in_seconds(seconds: float) -> str:
    """As in "12.5 us"."""
    return scaled(seconds * 1e9, 1000.0, ("ns", "us", "ms", "s"))
