"""Where the steps of a program stand in a drawing: layers from top to bottom, edges downwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tinyt.compiler.inspect.facts import Facts, Operand

_SWEEPS = 6


class Edge(NamedTuple):
    """What a step reads of what an earlier one has written."""

    source: int
    target: int
    operand: Operand


class Spot(NamedTuple):
    """Row and column of a step; columns may be fractions, at least one apart."""

    row: int
    column: float


def edges_of(program: Facts) -> list[Edge]:
    """The flow of data: from the last writers of the bytes that a step reads."""
    writers: dict[int, list[tuple[int, int, int]]] = {}  # of a place: (first byte, end, step)
    found: dict[tuple[int, int, int], Edge] = {}
    for number, step in enumerate(program.steps):
        for x in step.inputs:
            first, end = x.span
            for begin, stop, source in writers.get(x.place, ()):
                if begin < end and first < stop:
                    found.setdefault((source, number, x.place), Edge(source, number, x))
        for x in step.outputs:
            first, end = x.span
            dense = end - first == x.nbytes
            known = writers.setdefault(x.place, [])
            known[:] = [w for w in known if not (dense and first <= w[0] and w[1] <= end)]
            known.append((first, end, number))
    return list(found.values())


def spots_of(count: int, edges: Sequence[Edge]) -> list[Spot]:
    """Each step one row below the lowest that it reads from; within a row in the order that its
    neighbours have on average, found by going down and up some times."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for edge in edges:
        above[edge.target].append(edge.source)
        below[edge.source].append(edge.target)
    row = [0] * count
    for n in range(count):
        row[n] = 1 + max((row[source] for source in above[n]), default=-1)
    for n in reversed(range(count)):  # what reads nothing stands beside what reads it
        if not above[n] and below[n]:
            row[n] = max(0, min(row[target] for target in below[n]) - 1)
    rows: list[list[int]] = [[] for _ in range(max(row, default=-1) + 1)]
    for n in range(count):
        rows[row[n]].append(n)
    column = [0.0] * count
    for line in rows:
        for i, n in enumerate(line):
            column[n] = i - (len(line) - 1) / 2
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for line in reversed(rows) if sweep % 2 else rows:
            _settle(line, neighbours, column)
    return [Spot(row[n], column[n]) for n in range(count)]


def _settle(line: list[int], neighbours: Sequence[Sequence[int]], column: list[float]) -> None:
    """Puts each step of a row below (above) the mean of its neighbours, one apart at least."""
    wanted = {
        n: sum(column[m] for m in neighbours[n]) / len(neighbours[n])
        if neighbours[n]
        else column[n]
        for n in line
    }
    line.sort(key=lambda n: wanted[n])
    placed: list[float] = []
    for n in line:
        placed.append(max(wanted[n], placed[-1] + 1) if placed else wanted[n])
    shift = sum(wanted[n] - x for n, x in zip(line, placed, strict=True)) / max(len(line), 1)
    for n, x in zip(line, placed, strict=True):
        column[n] = x + shift


class Bar(NamedTuple):
    """Memory over time: bytes from ``offset`` on, from step ``first`` to ``last``."""

    kind: str
    first: int
    last: int
    offset: int
    nbytes: int


def bars_of(program: Facts) -> list[Bar]:
    """The memory that a run takes: the arena as it is laid out, and on top of it each block and
    result where there is room in the drawing."""
    bars = [
        Bar("arena", place.first, place.last, place.position, place.nbytes)
        for place in program.places
        if place.kind == "arena" and place.first >= 0
    ]
    own = [p for p in program.places if p.kind in ("block", "result") and p.first >= 0]
    alive: list[Bar] = []
    for place in sorted(own, key=lambda p: (p.first, p.last)):
        alive = [bar for bar in alive if bar.last >= place.first]
        alive.sort(key=lambda bar: bar.offset)
        offset = program.arena_bytes
        for bar in alive:
            if offset + place.nbytes <= bar.offset:
                break
            offset = max(offset, bar.offset + bar.nbytes)
        alive.append(Bar(place.kind, place.first, place.last, offset, place.nbytes))
        bars.append(alive[-1])
    return bars
