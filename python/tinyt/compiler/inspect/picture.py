"""A program as a graph of its steps: DOT, or one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tinyt.compiler.inspect.cost import flops, traffic
from tinyt.compiler.inspect.layout import bars_of, edges_of, spots_of
from tinyt.compiler.inspect.report import in_bytes, in_seconds, inside_text, scaled, shortened

if TYPE_CHECKING:
    from os import PathLike

    from tinyt.compiler.capture.sources import Source
    from tinyt.compiler.inspect.facts import Facts, Operand, Step

_PAGES = (".html", ".htm")
_GRAPHVIZ = (".dot", ".gv")
_MOST_SOURCES = 8  # of a step


class Picture:
    """A graph to be drawn: a node for each step, an edge for what it reads of another one."""

    def __init__(self, programs: Sequence[Facts], name: str) -> None:
        self._programs, self._name = programs, name

    def dot(self) -> str:
        """The graph for Graphviz, a cluster for each program."""
        lines = ["digraph {", "  node [shape=box];", f"  label={_quoted(self._name)};"]
        for k, program in enumerate(self._programs):
            lines += [f"  subgraph cluster_{k} {{", f"    label={_quoted(program.name)};"]
            for number, step in enumerate(program.steps):
                label = _quoted(f"{number}: {shortened(step.ops)}\n{_result(step)}")
                lines.append(f"    p{k}s{number} [label={label}];")
            for edge in edges_of(program):
                what = _quoted(str(edge.operand))
                lines.append(f"    p{k}s{edge.source} -> p{k}s{edge.target} [label={what}];")
            lines.append("  }")
        return "\n".join([*lines, "}", ""])

    def html(self) -> str:
        """A page with the graph to zoom and pan, coloured by time, memory or kind of step, and the
        memory of the run over its steps. It loads nothing and runs without a network."""
        import html
        import json

        data = {"name": self._name, "programs": [_drawn(p) for p in self._programs]}
        # Text that looks like markup must not end the element that it stands in.
        text = json.dumps(data).replace("<", "\\u003c")
        page = _resource("page.html")
        for mark, value in (
            ("{{title}}", html.escape(self._name)),
            ("{{style}}", _resource("page.css")),
            ("{{script}}", _resource("page.js")),
            ("{{data}}", text),
        ):
            before, _, after = page.partition(mark)
            page = before + value + after
        return page

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the page where the name ends in ``.html`` or ``.htm``, DOT for Graphviz where it
        ends in ``.dot`` or ``.gv``. ValueError, before anything is written, for another ending."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending not in (*_PAGES, *_GRAPHVIZ):
            have = f"the ending {path.suffix!r}" if path.suffix else "no ending"
            raise ValueError(
                f"save: the name must end in {', '.join((*_PAGES, *_GRAPHVIZ))}, {path.name!r} has "
                f"{have}; for a picture save a .dot and run `dot -Tsvg graph.dot -o graph.svg`"
            )
        text = self.dot() if ending in _GRAPHVIZ else self.html()
        path.write_text(text, encoding="utf-8")


def _resource(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _drawn(program: Facts) -> dict[str, Any]:
    """What the page draws of a program."""
    edges = edges_of(program)
    spots = spots_of(len(program.steps), edges)
    measures = program.measures
    times = None if measures is None else measures.steps()
    values = None if measures is None else measures.values()
    nodes = []
    for number, step in enumerate(program.steps):
        read, written = traffic(step)
        details = _details(program, number)
        node: dict[str, Any] = {
            "title": shortened(step.ops, 26),
            "kind": step.kind,
            "result": _result(step),
            "row": spots[number].row,
            "column": spots[number].column,
            "memory": read + written,
            "details": details,
        }
        if times is not None and values is not None:
            begin, end, *_ = times[number]
            node["time"] = (end - begin) / 1000.0
            node["timeText"] = in_seconds((end - begin) * 1e-9)
            details += [["time", node["timeText"]], *_previews(step, values[number])]
        nodes.append(node)
    return {
        "name": program.name,
        "nodes": nodes,
        "edges": [[edge.source, edge.target, str(edge.operand)] for edge in edges],
        "bars": [list(bar) for bar in bars_of(program)],
        "held": [step.held_bytes for step in program.steps],
        "arena": program.arena_bytes,
        "peak": program.peak_bytes,
        "measured": measures is not None,
    }


def _result(step: Step) -> str:
    """What the step makes first, and the lane that it runs in."""
    found = [str(x) for x in step.outputs[:1]]
    return ", ".join([*found, f"lane {step.lane}"] if step.lane else found)


def _details(program: Facts, number: int) -> list[list[str]]:
    """(what, text) pairs about a step."""
    step = program.steps[number]
    read, written = traffic(step)
    found = [["step", f"{number}: {' '.join(step.ops)}"]]
    found += [["source", _source(x)] for x in step.sources[:_MOST_SOURCES]]
    if len(step.sources) > _MOST_SOURCES:
        found.append(["source", f"{len(step.sources) - _MOST_SOURCES} more"])
    found += [["reads", f"{x} from {_where(program, x)}"] for x in step.inputs]
    found += [["writes", f"{x} to {_where(program, x)}"] for x in step.outputs]
    if step.lane:
        beside = f"steps {step.lane.first} to {step.lane.last}, this one in lane {step.lane.number}"
        found.append(["side by side", beside])
    return [
        *found,
        ["bytes read", in_bytes(read)],
        ["bytes written", in_bytes(written)],
        ["FLOP", scaled(flops(step))],
        *inside_text(step),
        ["held", in_bytes(step.held_bytes)],
        ["ends with", f"{step.reason} ({in_bytes(step.boundary_bytes)})"],
    ]


def _source(source: Source) -> str:
    where = f"{source.file}:{source.line}"
    return f"{source.module}, {where}" if source.module else where


def _where(program: Facts, x: Operand) -> str:
    place = program.places[x.place]
    if place.kind == "arena":
        return f"the arena at {place.position}"
    if place.kind in ("argument", "result"):
        return f"{place.kind} {place.position}"
    return {"block": "a block", "outside": "captured memory"}[place.kind]


def _previews(step: Step, values: Sequence[Any]) -> list[list[str]]:
    """The first elements of each output."""
    found = []
    for x, value in zip(step.outputs, values, strict=True):
        shown = ", ".join(_number(v) for v in value.tolist())
        more = ", …" if x.numel > value.numel() else ""
        found.append(["values", f"{shown}{more}"])
    return found


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, (float, complex)) else str(value)
