"""A run as a trace that chrome://tracing and ui.perfetto.dev open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from tinyt.compiler.inspect.cost import flops, traffic
from tinyt.compiler.inspect.facts import usage
from tinyt.compiler.inspect.report import inside_text, shortened

if TYPE_CHECKING:
    from tinyt.compiler.inspect.facts import Facts, Step


def trace_events(program: Facts, name: str) -> list[dict[str, Any]]:
    """Events of a measured run: its steps by threads, and its memory over time."""
    assert program.measures is not None
    pid = os.getpid()
    times, held = program.measures.steps(), usage(program)
    events: list[dict[str, Any]] = [_named("process_name", f"tinyt: {name}", pid, 0)]
    events += [
        _named("thread_name", f"steps, thread {tid}", pid, tid)
        for tid in sorted({thread for *_, thread in times})
    ]
    for number, (step, time) in enumerate(zip(program.steps, times, strict=True)):
        begin, end, _, scratch, thread = time
        start = begin / 1000.0  # microseconds
        events.append(
            {
                "name": shortened(step.ops),
                "cat": step.kind,
                "ph": "X",
                "ts": start,
                "dur": (end - begin) / 1000.0,
                "pid": pid,
                "tid": thread,
                "args": _arguments(number, step, scratch),
            }
        )
        use = held[number]
        arena = step.held_bytes - use.block - use.result
        parts = {"arena": arena, "blocks": use.block, "results": use.result}
        events.append(_counter("memory", start, pid, {**parts, "scratch": scratch}))
        events.append(_counter("arena", start, pid, {"in use": use.arena}))
    finish = program.measures.nanoseconds / 1000.0
    left = held[-1].result if held else 0
    parts = {"arena": 0, "blocks": 0, "results": left, "scratch": 0}
    events.append(_counter("memory", finish, pid, parts))
    events.append(_counter("arena", finish, pid, {"in use": 0}))
    return events


def _named(what: str, name: str, pid: int, tid: int) -> dict[str, Any]:
    return {"name": what, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}


def _counter(name: str, ts: float, pid: int, values: dict[str, int]) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": ts, "pid": pid, "tid": 0, "args": values}


def _arguments(number: int, step: Step, scratch: int) -> dict[str, Any]:
    read, written = traffic(step)
    return {
        "step": number,
        **({"lane": str(step.lane)} if step.lane else {}),
        "ops": list(step.ops),
        "inputs": [str(x) for x in step.inputs],
        "outputs": [str(x) for x in step.outputs],
        "bytes read": read,
        "bytes written": written,
        "FLOP": flops(step),
        **dict(inside_text(step)),
        "ends": step.reason,
        "boundary bytes": step.boundary_bytes,
        "scratch bytes": scratch,
    }
