"""Graphs that are not a compiled function's, as C or as kernels of a GPU's language."""

from __future__ import annotations

from math import prod
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from tinyt import _core, dtypes
from tinyt.compiler.export.api import drawn, name_in_c, run_once, title_of
from tinyt.compiler.export.calls import EMITTERS
from tinyt.compiler.export.checks import Recorded
from tinyt.compiler.export.kernels import laid_out
from tinyt.compiler.export.program import export_program
from tinyt.compiler.export.project import write_project
from tinyt.compiler.export.values import Value
from tinyt.compiler.inspect.facts import read_program
from tinyt.compiler.inspect.report import make_report
from tinyt.compiler.passes import decompose, simplify

if TYPE_CHECKING:
    from tinyt.compiler.graph.graph import Graph
    from tinyt.compiler.inspect.facts import Step


def program_of(graph: Graph, decomposed: bool = False) -> tuple[_core.Program, _core.Graph]:
    """A graph planned as one program; with ``decomposed`` without ops that have no form in C.
    NotImplementedError where a part of it runs later."""
    if graph.split_point.node >= 0:
        raise NotImplementedError("compile: a graph in two parts is two programs")
    graph = simplify(graph)
    if decomposed:
        graph = simplify(decompose.only(graph, EMITTERS))
    core = graph.to_core()
    return _core.Program(core), core


def export_graph(
    graph: Graph, directory: str | PathLike[str], name: str, weights: str | None = None
) -> list[Path]:
    """Writes the program of a graph as a project in C, as `Compiled.export_c` does."""
    name = name_in_c(name, name)
    program, core = program_of(graph, True)
    counters: dict[int, int] = {}
    steps = program.describe()
    for step, which, first in program.draws():
        numel = prod(steps[step][6][0][2])
        counters[which] = max(counters.get(which, 0), first + -(-numel // 4))
    taken = [counters.get(i, 0) for i in range(1 + max(counters, default=-1))]
    parts = export_program(program, range(len(program.results())), core, taken)
    given = [drawn(port, i) for i, port in enumerate(parts.inputs)]
    numbers = [value for kind, *_, value in core.scalars() if kind == "given"]
    expected, after = run_once(program, core, parts, given, numbers, range(len(parts.outputs)))
    title = title_of(name)
    check = Recorded(parts, given, expected, after)
    return write_project(Path(directory), name, parts, title, weights, check)


def kernels_of(graph: Graph, dialect: str) -> str:
    """The fused kernels of a graph's program in a language, each with a comment that names its
    steps; other steps are named alone."""
    program, _ = program_of(graph)
    functions: dict[str, str] = {}
    lines: list[str] = []
    for number, step in enumerate(read_program(program, "graph").steps):
        made = ", ".join(map(str, step.outputs))
        lines.append(f"// step {number}: {' '.join(step.ops)}: {made}")
        if step.kind == "region":
            called, text = _kernel(program, number, step, dialect)
            functions.update(called)
            lines.append(text)
        else:
            lines.append("// no fused kernel\n")
    text = "\n".join([*functions.values(), *lines])
    return f"{_core.source_beginning(text, dialect)}\n{text}"


def _kernel(
    program: _core.Program, number: int, step: Step, dialect: str
) -> tuple[list[tuple[str, str]], str]:
    kernel, product = program.kernel(number), program.product(number)
    operands = list(step.inputs)
    loads = [Value(x.shape, x.stride, x.dtype, "") for x in operands]
    if product is not None:  # its result is an operand, or lies in none
        _, _, count, operand, (_, _, shape, stride, t) = product
        loads = loads[count:]
        if operand >= 0:
            loads.insert(operand, Value(shape, stride, dtypes.ALL[t], ""))
    found = laid_out(kernel, loads)
    return found.kernel.source_parts(found.inner, f"kernel_{number}", dialect)


def report_of(graph: Graph) -> str:
    """What each step of a graph's program works on."""
    return str(make_report([read_program(program_of(graph)[0], "graph")]))
