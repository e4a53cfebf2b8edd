"""What a program consists of, and what a measured run of it was like, as plain Python values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt.compiler.capture.sources import sources_of
from tinyt.dtypes import ALL

if TYPE_CHECKING:
    from tinyt import _core
    from tinyt._capture import CompiledGraph
    from tinyt._tensor import dtype
    from tinyt.compiler.capture.sources import Source
    from tinyt.compiler.passes.recompute import Recomputed


class Operand(NamedTuple):
    """A tensor that a step reads or writes, and where it lies: in which place, from which byte."""

    place: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: dtype

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the operand covers: what is repeated counts once."""
        if self.numel == 0:
            return 0
        steps = [(n, abs(s)) for n, s in zip(self.shape, self.stride, strict=True) if s != 0]
        reach = 1 + sum((n - 1) * s for n, s in steps)
        return min(math.prod(n for n, _ in steps), reach) * self.dtype.itemsize

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one after the last."""
        if self.numel == 0:
            return self.offset, self.offset
        size = self.dtype.itemsize
        steps = [(n - 1) * s for n, s in zip(self.shape, self.stride, strict=True)]
        first = sum(s for s in steps if s < 0) * size
        last = sum(s for s in steps if s > 0) * size
        return self.offset + first, self.offset + last + size

    def __str__(self) -> str:
        return f"{self.dtype.name}{list(self.shape)}"


class Allocation(NamedTuple):
    """Memory that operands lie in: ``arena`` (position: the first byte), ``block`` and ``result``
    (taken by the run), ``argument`` (position: its number), ``outside`` (captured, or a number).
    Used from step ``first`` to ``last``; -1: by none."""

    kind: str
    nbytes: int
    position: int
    first: int
    last: int


class Lane(NamedTuple):
    """Where a step stands that runs beside others: steps ``first`` to ``last`` run side by side,
    those of a lane one after another."""

    number: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.number} of {self.first}-{self.last}"


class Inside(NamedTuple):
    """A program that a step of control flow runs, and how often: where data says so, in the last
    run; -1: there was none."""

    program: Facts
    times: int


class Step(NamedTuple):
    """A step: one op, a ``region`` of several, a ``copy``, or an ``opaque`` one as an
    optimiser's. ``elements``: those that each op of a region works on. ``lane``: None where the
    step runs alone. ``inside``: what a step of control flow runs. ``sources``: the lines of the
    user's code that it comes from; those of a backward pass are where that was called."""

    kind: str
    ops: tuple[str, ...]
    dtype: dtype
    attrs: tuple[Any, ...]
    elements: tuple[int, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    reason: str
    boundary_bytes: int
    held_bytes: int
    lane: Lane | None
    inside: tuple[Inside, ...] = ()
    sources: tuple[Source, ...] = ()


class Facts(NamedTuple):
    """A program: ``call``, or ``backward``, which runs in ``backward()`` of the results, or what a
    step of control flow runs."""

    name: str
    steps: list[Step]
    places: list[Allocation]
    arena_bytes: int
    peak_bytes: int
    measures: _core.Measures | None
    recomputed: tuple[Recomputed, ...] = ()  # of all programs of a call: noted with the first


# What the programs of a step of control flow are, in their order.
_INSIDE = {
    "scan": ("step",),
    "cond": ("if false", "if true"),
    "while_loop": ("condition", "body"),
}


def read_program(
    program: _core.Program, name: str, measures: _core.Measures | None = None
) -> Facts:
    """The facts of a program, with the measures of a run."""

    def operands(rows: tuple[Any, ...]) -> tuple[Operand, ...]:
        return tuple(
            Operand(place, offset, shape, stride, ALL[number])
            for place, offset, shape, stride, number in rows
        )

    def inside(number: int, op: str) -> tuple[Inside, ...]:
        parts = program.parts(number)
        names = _INSIDE.get(op, ())[: len(parts)]
        return tuple(
            Inside(read_program(part, name), times)
            for name, (part, times) in zip(names, parts, strict=True)
        )

    lanes = {
        step: Lane(number, first, last)
        for first, last, group in program.sides()
        for number, lane in enumerate(group)
        for step in lane
    }
    rows = zip(program.describe(), program.boundaries(), program.held_bytes(), strict=True)
    steps = [
        Step(
            kind,
            ops,
            ALL[number],
            attrs,
            elements,
            operands(read),
            operands(made),
            *why,
            held,
            lanes.get(step),
            inside(step, ops[0]) if kind == "opaque" else (),
        )
        for step, ((kind, ops, number, attrs, elements, read, made), why, held) in enumerate(rows)
    ]
    places = [Allocation(*row) for row in program.places()]
    return Facts(name, steps, places, program.arena_bytes, program.peak_bytes, measures)


class Usage(NamedTuple):
    """Bytes in use during a step: within the arena, in blocks, in results."""

    arena: int
    block: int
    result: int


def usage(program: Facts) -> list[Usage]:
    """What is in use during each step."""
    kinds = Usage._fields
    change = [[0] * len(kinds) for _ in range(len(program.steps) + 1)]
    for place in program.places:
        if place.kind in kinds and place.first >= 0:
            change[place.first][kinds.index(place.kind)] += place.nbytes
            change[place.last + 1][kinds.index(place.kind)] -= place.nbytes
    held, found = [0] * len(kinds), []
    for step in change[:-1]:
        held = [a + b for a, b in zip(held, step, strict=True)]
        found.append(Usage(*held))
    return found


def read_entry(entry: CompiledGraph) -> list[Facts]:
    """The programs of a captured call, with what was measured last."""
    profile = entry.profile
    call = _with_sources(
        read_program(entry.program_object, "call", profile and profile.call),
        entry.program_object,
        entry,
    )
    found = [call._replace(recomputed=entry.capture.recomputed)]
    backward = entry.capture.backward
    if backward is not None and backward.error is None:
        steps = read_program(backward.program, "backward", profile and profile.backward)
        found.append(_with_sources(steps, backward.program, entry))
    return found


def _with_sources(facts: Facts, program: _core.Program, entry: CompiledGraph) -> Facts:
    found = sources_of(program, entry.capture.origins, entry.capture.lines)
    steps = [
        step._replace(sources=sources) for step, sources in zip(facts.steps, found, strict=True)
    ]
    return facts._replace(steps=steps)
