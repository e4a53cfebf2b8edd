"""Less memory for more work: values that are cheap to compute are dropped while nothing reads them
and computed again before what reads them next, until a program's peak fits a limit.

The plan says where the peak is and what lies in memory then; a change stays only where the plan of
the changed graph holds less. The kernels are deterministic, so that bits stay; draws, steps of an
optimiser and control flow are never repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from tinyt import _core
from tinyt.compiler.graph.graph import OPS, Node, Value
from tinyt.compiler.passes.edit import FAULTING, RANDOM, SCALARS, VIEWS

if TYPE_CHECKING:
    from tinyt._tensor import dtype
    from tinyt.compiler.capture.sources import Lines
    from tinyt.compiler.graph.graph import Graph

_REDUCTIONS = frozenset(name for name, row in OPS.items() if row["kind"] == "reduce")
# Besides: what moves elements, and what passes over rows once or twice.
_ROWS = frozenset({"softmax", "log_softmax", "layer_norm", "group_norm", "batch_norm"})
_MOVES = frozenset(
    {"cast", "copy", "to_device", "fill", "iota", "pad", "pad_border", "flip", "cat"}
)
CHEAP = (SCALARS | VIEWS | _REDUCTIONS | _ROWS | _MOVES) - FAULTING - RANDOM

_PASSES_OF_ROWS = 3  # over memory, as much time as these take
_DEEPEST = 12  # nodes, views aside, that one value may take


class Recomputed(NamedTuple):
    """A value that is computed again: by what, how large it is, and the nodes that it takes."""

    op: str
    shape: tuple[int, ...]
    dtype: dtype
    nbytes: int
    nodes: tuple[str, ...]


class Fit(NamedTuple):
    """A graph whose programs fit, and what they compute again."""

    graph: Graph
    core: _core.Graph
    recomputed: tuple[Recomputed, ...]


class MemoryLimit(Exception):
    """No plan fits: the program with the least peak, which of a graph's it is, and the graph."""

    def __init__(self, graph: Graph, program: _core.Program, part: int) -> None:
        super().__init__(graph, program, part)
        self.graph, self.program, self.part = graph, program, part


def fit(graph: Graph, limit: int) -> Fit:
    """The graph, changed until each of its programs needs at most so many bytes at its peak with
    the threads that there are now; MemoryLimit where that cannot be reached."""
    found = Fit(graph, graph.to_core(), ())
    parts = (1, 2) if graph.split_point.node >= 0 else (0,)
    for part in parts:
        found = _fit_part(found, part, limit)
    for part in parts[:-1]:  # what has changed later may have changed this one
        program = _core.Program(found.core, part)
        if program.peak_bytes > limit:
            raise MemoryLimit(found.graph, program, part)
    return found


def _fit_part(found: Fit, part: int, limit: int) -> Fit:
    tried: set[int] = set()
    program = _core.Program(found.core, part)
    while (have := _Totals.of(program, limit)).peak > limit:
        moment = _Moment(found.graph, program, part, have.step)
        choices = [choice for choice in moment.choices() if choice.value not in tried]
        better = _best(found, choices, part, limit, have)
        if better is None:
            raise MemoryLimit(found.graph, program, part)
        found, program, used = better
        tried |= used
    return found


class _Totals(NamedTuple):
    """The peak of a program, the first step that has it, and by how much steps are too large."""

    peak: int
    step: int
    excess: int

    @classmethod
    def of(cls, program: _core.Program, limit: int) -> _Totals:
        pairs = zip(program.held_bytes(), program.scratch_bytes(), strict=True)
        totals = [held + scratch for held, scratch in pairs]
        if not totals:
            return cls(0, 0, 0)
        peak = max(totals)
        return cls(peak, totals.index(peak), sum(max(0, n - limit) for n in totals))

    def beats(self, other: _Totals) -> bool:
        return (self.peak, self.excess) < (other.peak, other.excess)


class _Choice(NamedTuple):
    """A value to compute again, for readers after the peak."""

    value: int
    score: float
    saved: int
    again: frozenset[int]  # the values of memory that are made anew, it among them
    readers: tuple[int, ...]  # nodes


def _best(
    found: Fit, choices: Sequence[_Choice], part: int, limit: int, have: _Totals
) -> tuple[Fit, _core.Program, set[int]] | None:
    """The first change that the plan confirms: of as many values as are needed, of half of them,
    and so on; then of single ones."""
    needed = have.peak - limit
    count, saved = 0, 0
    while count < len(choices) and saved < needed:
        saved += choices[count].saved
        count += 1
    attempts: list[Sequence[_Choice]] = []
    while count > 1:
        attempts.append(choices[:count])
        count //= 2
    attempts += [[choice] for choice in choices]
    for attempt in attempts:
        graph, made = _changed(found.graph, attempt)
        graph.verify()
        core = graph.to_core()
        program = _core.Program(core, part)
        if _Totals.of(program, limit).beats(have):
            values = {choice.value for choice in attempt}
            return Fit(graph, core, found.recomputed + made), program, values
    return None


class _Moment:
    """A graph as it is during the step of a program at which that holds most."""

    def __init__(self, graph: Graph, program: _core.Program, part: int, step: int) -> None:
        self.graph, self.step = graph, step
        self.held = program.held_values(step)
        self._steps = program.steps_of_nodes()
        nodes, split_point = graph.nodes, graph.split_point.node
        self._own = range(split_point if part == 2 else 0, split_point if part == 1 else len(nodes))
        self.roots = list(range(len(graph.values)))
        self._readers: list[list[int]] = [[] for _ in graph.values]
        self._pinned: set[int] = set()
        for i, node in enumerate(nodes):
            if node.op in VIEWS:
                self.roots[node.outputs[0]] = self.roots[node.inputs[0]]
                continue
            for root in {self.roots[v] for v in node.inputs}:
                self._readers[root].append(i)
                if i not in self._own:
                    self._pinned.add(root)
        ends = [o.value for o in graph.outputs] + [w.value for w in graph.writes]
        self._pinned.update(self.roots[v] for v in ends)

    def choices(self) -> list[_Choice]:
        """What could be dropped during this step, the best first."""
        found = [self._choice(value) for value, _ in self.held if value >= 0]
        chosen = [choice for choice in found if choice is not None]
        return sorted(chosen, key=lambda choice: -choice.score)

    def _choice(self, value: int) -> _Choice | None:
        value = self.roots[value]
        maker = self.graph.values[value].node
        if value in self._pinned or maker < 0 or maker not in self._own:
            return None
        readers = self._readers[value]
        if self._steps[maker] >= self.step or any(self._steps[i] == self.step for i in readers):
            return None
        late = tuple(i for i in readers if self._steps[i] > self.step)
        if not late:
            return None
        until = min(self._steps[i] for i in late)
        again: set[int] = set()
        kept = self._collect(value, until, again)
        if kept is None:
            return None
        saved = self._nbytes(value) - kept
        if saved <= 0:
            return None
        early = [self._steps[i] for i in readers if self._steps[i] < self.step]
        lifetime = until - max([self._steps[maker], *early])
        cost = sum(self._cost(self.graph.nodes[self.graph.values[v].node]) for v in again)
        return _Choice(value, saved * lifetime / max(1.0, cost), saved, frozenset(again), late)

    def _collect(self, value: int, until: int, again: set[int]) -> int | None:
        """Adds what has to be computed again to have a value at a step; the bytes that must be kept
        longer for that, or None where it is not cheap."""
        node = self.graph.nodes[self.graph.values[value].node]
        if node.op not in CHEAP or len(again) == _DEEPEST:
            return None
        again.add(value)
        kept = 0
        for root in {self.roots[v] for v in node.inputs} - again:
            if not self._may_read(root):
                return None
            if self._is_there(root, until):
                continue
            deeper = self._collected(root, until, again)
            if deeper is None:  # it stays
                kept += self._nbytes(root)
            else:
                kept += deeper
        return kept

    def _collected(self, value: int, until: int, again: set[int]) -> int | None:
        """As `_collect`, where that is less than to keep the value; else nothing is added."""
        if self.graph.values[value].node not in self._own:
            return None
        own = set(again)
        kept = self._collect(value, until, own)
        if kept is None or kept >= self._nbytes(value):
            return None
        again |= own
        return kept

    def _may_read(self, root: int) -> bool:
        """Not where only a backward pass that runs later would keep a value, for this alone."""
        made_here = self.graph.values[root].node in self._own
        return self._own.start == 0 or made_here or any(i in self._own for i in self._readers[root])

    def _is_there(self, root: int, until: int) -> bool:
        """Whether memory holds a value at a step anyway."""
        return (
            self.graph.values[root].node < 0
            or root in self._pinned
            or any(self._steps[i] >= until for i in self._readers[root])
        )

    def _nbytes(self, value: int) -> int:
        return _nbytes(self.graph.values[value])

    def _cost(self, node: Node) -> float:
        """Of computing a node again, in bytes moved."""
        moved = sum(map(self._nbytes, (*node.inputs, *node.outputs)))
        return float(moved * _PASSES_OF_ROWS if node.op in _ROWS else moved)


def _nbytes(value: Value) -> int:
    return prod(value.shape) * value.dtype.itemsize


class _Copies:
    """Makes nodes anew, in front of one that reads what they make."""

    def __init__(self, graph: Graph, values: list[Value], again: frozenset[int]) -> None:
        self._graph, self._values, self._again = graph, values, again
        self._known: dict[int, int] = {}
        self.nodes: list[Node] = []

    def value(self, v: int) -> int:
        """What stands for a value now."""
        at = self._graph.values[v].node
        if v in self._known or at < 0 or not self._is_new(v):
            return self._known.get(v, v)
        node = self._graph.nodes[at]
        inputs = tuple([self.value(x) for x in node.inputs])
        outputs = range(len(self._values), len(self._values) + len(node.outputs))
        self._values += [self._graph.values[x] for x in node.outputs]
        self._known.update(zip(node.outputs, outputs, strict=True))
        self.nodes.append(Node(node.op, node.attrs, inputs, tuple(outputs)))
        return self._known[v]

    def _is_new(self, v: int) -> bool:
        while v not in self._again:
            at = self._graph.values[v].node
            if at < 0 or self._graph.nodes[at].op not in VIEWS:
                return False
            v = self._graph.nodes[at].inputs[0]
        return True


def _changed(graph: Graph, choices: Iterable[_Choice]) -> tuple[Graph, tuple[Recomputed, ...]]:
    """The graph that computes these values again, and how."""
    values = list(graph.values)
    added: dict[int, list[Node]] = {}
    nodes = list(graph.nodes)
    made = []
    for choice in choices:
        copies = _Copies(graph, values, choice.again)
        for i in choice.readers:
            inputs = tuple([copies.value(v) for v in graph.nodes[i].inputs])
            # Another choice may have changed this reader's inputs already.
            before = zip(graph.nodes[i].inputs, nodes[i].inputs, inputs, strict=True)
            merged = tuple([new if new != old else now for old, now, new in before])
            nodes[i] = nodes[i]._replace(inputs=merged)
        added.setdefault(min(choice.readers), []).extend(copies.nodes)
        shape, t, at, _ = graph.values[choice.value]
        ops = tuple(node.op for node in copies.nodes)
        made.append(Recomputed(graph.nodes[at].op, shape, t, _nbytes(values[choice.value]), ops))
    ordered: list[Node] = []
    for i, node in enumerate(nodes):
        ordered += added.get(i, ())
        ordered.append(node)
    for i, node in enumerate(ordered):
        for v in node.outputs:
            values[v] = values[v]._replace(node=i)
    split_point = graph.split_point
    if split_point.node >= 0:
        before_it = sum(len(extra) for i, extra in added.items() if i < split_point.node)
        split_point = split_point._replace(node=split_point.node + before_it)
    return graph._replace(nodes=ordered, values=values, split_point=split_point), tuple(made)


# ---- what is said where nothing helps

_SHOWN = 12


def refusal(error: MemoryLimit, limit: int, name: str, lines: Lines) -> str:
    """Why a function cannot run in so much memory: the largest tensors at the peak."""
    graph, program = error.graph, error.program
    have = _Totals.of(program, limit)
    held = sorted(program.held_values(have.step), key=lambda pair: -pair[1])
    scratch = program.scratch_bytes()[have.step]
    ops = " ".join(program.steps()[have.step])
    which = ("", " (forward)", " (backward)")[error.part]
    text = [
        f"compile: {name}{which} needs {have.peak} bytes at its peak, max_memory is {limit}, and "
        f"nothing cheap is left to compute again. Step {have.step} ({ops}) holds:"
    ]
    if scratch:
        text.append(f"  {scratch:>13} bytes  scratch memory of its kernel")
    for value, nbytes in held[:_SHOWN]:
        text.append(f"  {nbytes:>13} bytes  {_described(graph, value, lines)}")
    if len(held) > _SHOWN:
        rest = sum(nbytes for _, nbytes in held[_SHOWN:])
        text.append(f"  {rest:>13} bytes  {len(held) - _SHOWN} more")
    return "\n".join(text)


def _described(graph: Graph, value: int, lines: Lines) -> str:
    if value < 0:
        return "a copy"
    shape, t, at, _ = graph.values[value]
    text = f"{t.name}{list(shape)}"
    if at < 0:
        return text
    node = graph.nodes[at]
    where = lines.of(node.origin)
    return f"{text} of {node.op}" + (f", {where}" if where else "")
