"""What a profile has seen: events in time, sums over events of one name, tables of both.

Times are microseconds, memory bytes, as in PyTorch. An event's own ("self") time is its time less
that of the events inside of it, on the same thread.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

_UNITS = ((1_000_000.0, "s"), (1_000.0, "ms"), (0.0, "us"))
_BYTES = ((2**30, "GB"), (2**20, "MB"), (2**10, "KB"))


def format_time(microseconds: float) -> str:
    """A time with its unit: "1.500ms"."""
    for least, unit in _UNITS:
        if microseconds >= least:
            return f"{microseconds / (least or 1.0):.3f}{unit}"
    return f"{microseconds:.3f}us"


def format_memory(nbytes: int) -> str:
    """A size with its unit: "39.06 KB"."""
    for least, unit in _BYTES:
        if abs(nbytes) >= least:
            return f"{nbytes / least:.2f} {unit}"
    return f"{nbytes} B"


def _share(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.2f}%" if whole else "NaN"


class Interval(NamedTuple):
    """From when to when."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """The time between the two."""
        return self.end - self.start


class _NoDevice:
    """PyTorch's figures of GPUs: zeros, for there is none."""

    device_time = device_time_total = self_device_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    cuda_time = cuda_time_total = self_cuda_time_total = 0.0
    cuda_memory_usage = self_cuda_memory_usage = 0
    is_async = is_remote = is_legacy = False
    node_id = -1
    use_device = None
    overload_name = ""
    device_type = "cpu"


class FunctionEvent(_NoDevice):
    """One operation, or one block of `record_function`, as it ran."""

    count = 1

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        input_shapes: Sequence[Sequence[int]] = (),
        concrete_inputs: Sequence[str] = (),
        cpu_memory_usage: int = 0,
        is_user_annotation: bool = False,
        flops: int = 0,
    ) -> None:
        self.id, self.thread = id, thread
        # Steps are one row of a table; a trace tells them apart.
        self.name = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.trace_name = name
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = [list(shape) for shape in input_shapes]
        self.input_dtypes = list(concrete_inputs)
        self.self_cpu_memory_usage = cpu_memory_usage
        self.is_user_annotation = is_user_annotation
        self.flops = flops
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.stack: list[str] = []
        self.scope = 0

    @property
    def key(self) -> str:
        """The name."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Microseconds from its beginning to its end."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of its own."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes of results that it and what is inside of it made."""
        return self.self_cpu_memory_usage + sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def cpu_time_str(self) -> str:
        """The time with its unit."""
        return format_time(self.cpu_time_total)

    cpu_time_total_str = cpu_time_str

    @property
    def self_cpu_time_total_str(self) -> str:
        """Its own time with its unit."""
        return format_time(self.self_cpu_time_total)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"thread={self.thread} input_shapes={self.input_shapes}>"
        )


class FunctionEventAvg(_NoDevice):
    """Events of one name together: sums, and `cpu_time`, which is their average."""

    def __init__(self, key: str = "", input_shapes: Any = None) -> None:
        self.key = key
        self.input_shapes = input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.flops = 0
        self.is_user_annotation = False
        self.stack: list[str] = []

    @property
    def name(self) -> str:
        """The name of the events."""
        return self.key

    @property
    def cpu_time(self) -> float:
        """Microseconds of an event on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Takes an event, or several, in; itself."""
        # An event inside of one of its own name is counted with that one.
        outer = getattr(other, "cpu_parent", None)
        while outer is not None and outer.name != other.name:
            outer = outer.cpu_parent
        if outer is None:
            self.cpu_time_total += other.cpu_time_total
            self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_time_total += other.self_cpu_time_total
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops
        self.count += other.count
        self.is_user_annotation = other.is_user_annotation
        return self

    __iadd__ = add

    @property
    def cpu_time_str(self) -> str:
        """The average time with its unit."""
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        """The time of all with its unit."""
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """The own time of all with its unit."""
        return format_time(self.self_cpu_time_total)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes}>"
        )


Event = Any  # FunctionEvent | FunctionEventAvg


class EventList(list[Event]):
    """Events, or sums of them, and how they are shown."""

    supported_export_stacks_metrics: Sequence[str] = ()

    def __init__(
        self, events: Iterable[Event] = (), profile_memory: bool = False, with_flops: bool = False
    ) -> None:
        super().__init__(events)
        self._profile_memory, self._with_flops = profile_memory, with_flops

    def __str__(self) -> str:
        return self.table()

    def nest(self) -> None:
        """Finds for each event of a thread the one that it ran in."""
        by_thread: dict[int, list[FunctionEvent]] = {}
        for event in self:
            by_thread.setdefault(event.thread, []).append(event)
        for events in by_thread.values():
            open_: list[FunctionEvent] = []
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while open_ and open_[-1].time_range.end < event.time_range.end:
                    open_.pop()
                if open_:
                    event.cpu_parent = open_[-1]
                    open_[-1].cpu_children.append(event)
                open_.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all events."""
        return float(sum(event.self_cpu_time_total for event in self))

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """The sums over events of one name, and of the same shapes of operands if asked for."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = str(event.input_shapes) if group_by_input_shape else None
            average = found.get((event.name, shapes))
            if average is None:
                average = FunctionEventAvg(
                    event.name, event.input_shapes if group_by_input_shape else None
                )
                found[event.name, shapes] = average
            average.add(event)
        return EventList(found.values(), self._profile_memory, self._with_flops)

    def total_average(self) -> FunctionEventAvg:
        """The sum over all events."""
        total = FunctionEventAvg("Total")
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, one a line.

        Args:
            sort_by: what the largest of stands first: "cpu_time", "cpu_time_total",
                "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage" or "count"; those
                of "cuda_…" and "device_…" are zero. None: as the events are.
            row_limit: the most lines; -1 for all.
            max_name_column_width, max_shapes_column_width: the longest names and shapes.
            header: a line above.
            top_level_events_only: leaves out events inside of others.
            max_src_column_width, time_unit: PyTorch's; no effect.

        Raises AttributeError for a `sort_by` that no event has.
        """
        rows: list[Event] = list(self)
        if sort_by is not None:
            rows.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        if top_level_events_only:
            rows = [event for event in rows if getattr(event, "cpu_parent", None) is None]
        limit = len(rows) if row_limit < 0 else row_limit
        columns = self._columns(max_name_column_width, max_shapes_column_width)
        cells = [[text(event) for _, text in columns] for event in rows[:limit]]
        return _as_text([title for title, _ in columns], cells, self.self_cpu_time_total, header)

    def _columns(self, names: int, shapes: int) -> list[tuple[str, Callable[[Event], str]]]:
        """(title, text of an event) for every column."""
        whole = self.self_cpu_time_total
        columns: list[tuple[str, Callable[[Event], str]]] = [
            ("Name", lambda e: _cut(e.key, names)),
            ("Self CPU %", lambda e: _share(e.self_cpu_time_total, whole)),
            ("Self CPU", lambda e: e.self_cpu_time_total_str),
            ("CPU total %", lambda e: _share(e.cpu_time_total, whole)),
            ("CPU total", lambda e: e.cpu_time_total_str),
            ("CPU time avg", lambda e: e.cpu_time_str),
        ]
        if self._profile_memory:
            columns += [
                ("CPU Mem", lambda e: format_memory(e.cpu_memory_usage)),
                ("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage)),
            ]
        columns.append(("# of Calls", lambda e: str(e.count)))
        if any(event.input_shapes for event in self):
            columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), shapes)))
        if self._with_flops:
            columns.append(("Total FLOPs", lambda e: str(e.flops) if e.flops else "--"))
        return columns

    def export_chrome_trace(self, path: str) -> None:
        """Writes the events as a trace that chrome://tracing and Perfetto open."""
        write_trace(path, self, {})

    def export_stacks(self, path: str, metric: str) -> NoReturn:
        """NotImplementedError: events have no stacks of Python."""
        raise NotImplementedError("export_stacks: events have no stacks; use cProfile for Python")


def _cut(text: str, width: int | None) -> str:
    return text if not width or len(text) <= width else text[: width - 3] + "..."


def _as_text(titles: list[str], cells: list[list[str]], whole: float, header: str | None) -> str:
    widths = [
        max(len(title), 12 if i else 0, *(len(row[i]) for row in cells), 0)
        for i, title in enumerate(titles)
    ]
    rule = "  ".join("-" * width for width in widths)

    def line(row: list[str]) -> str:
        return "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))

    above = [] if header is None else ["=" * len(rule), header]
    body = [line(row) for row in cells]
    below = f"Self CPU time total: {format_time(whole)}"
    return "\n".join([*above, rule, line(titles), rule, *body, rule, below, ""])


def write_trace(path: str, events: Iterable[FunctionEvent], metadata: dict[str, Any]) -> None:
    """A file of Chrome's trace event format; one that ends in ".gz" is compressed.

    Source: "Trace Event Format", https://github.com/google/perfetto (docs), complete events ("X")
    with microseconds.
    """
    process = os.getpid()
    found: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "tinyt"}}
    ]
    for event in events:
        facts: dict[str, Any] = {"External id": event.id}
        if event.input_shapes:
            facts |= {"Input Dims": event.input_shapes, "Input type": event.input_dtypes}
        if event.self_cpu_memory_usage:
            facts["Bytes"] = event.self_cpu_memory_usage
        found.append(
            {
                "ph": "X",
                "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                "name": event.trace_name,
                "pid": process,
                "tid": event.thread,
                "ts": event.time_range.start,
                "dur": event.cpu_time_total,
                "args": facts,
            }
        )
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [],
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": found,
        "traceName": str(path),
    }
    text = json.dumps(trace).encode()
    with open(path, "wb") as file:
        file.write(gzip.compress(text) if str(path).endswith(".gz") else text)
