"""Whether a program does what its function does: the function, the interpreter and the program run
on the same inputs, and every node is computed again in float64. Names the first culprit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt import _core
from tinyt._autograd import GradMode
from tinyt._capture import rebuild
from tinyt.compiler import passes
from tinyt.compiler.capture.results import NUMBER, OUTPUT, VIEW
from tinyt.compiler.capture.trial import (
    Difference,
    Outcome,
    State,
    element_difference,
    outcome_difference,
)
from tinyt.compiler.graph.graph import Graph
from tinyt.compiler.graph.interpreter import interpret
from tinyt.compiler.switches import compiling
from tinyt.compiler.types import VerificationError
from tinyt.compiler.verify.judge import error_of
from tinyt.dtypes import float32
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt._capture import CompiledGraph

# Gradients of outputs with respect to inputs, given those of the outputs.
Grad = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Tensor]], Sequence[Tensor | None]]


class Verification(NamedTuple):
    """What was compared: when, how many results, gradients and memories bit for bit, how many nodes
    of the graph against float64, and how many of which operations were not, since there is no
    float64 form of them. ``worst``: the largest part of its bound that an error took up, and the
    operation."""

    when: str
    compared: int
    nodes: int
    unknown: dict[str, int]
    worst: tuple[float, str]

    def __str__(self) -> str:
        left = ", ".join(f"{name} ({count})" for name, count in self.unknown.items())
        return (
            f"{self.when}: {self.compared} values equal in the function, the interpreter and the "
            f"program; {self.nodes} nodes within their bounds of float64 (at most "
            f"{self.worst[0]:.0%} of it: {self.worst[1]})"
            + (f"; not looked at in float64: {left}" if left else "")
        )


class _Float64:
    """Watches an interpreter: every node against float64, from the values that it read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.unknown: Counter[str] = Counter()
        self.nodes = 0
        self.worst = 0.0, "none"
        self.wrong: tuple[int, int, Difference] | None = None  # node, value

    def __call__(
        self, number: int, attrs: tuple[Any, ...], inputs: list[Tensor], made: tuple[Tensor, ...]
    ) -> None:
        node = self._graph.nodes[number]
        found = error_of(node.op, attrs, inputs, made)
        if found is None:
            self.unknown[node.op] += 1
            return
        self.nodes += 1
        for value, (part, wrong) in zip(node.outputs, found, strict=True):
            if part > self.worst[0]:
                self.worst = part, node.op
            if wrong is not None and self.wrong is None:
                self.wrong = number, value, wrong


class Verifier:
    """Checks the programs of a function; ``grad`` differentiates the results of calls."""

    def __init__(self, function: Callable[..., Any], grad: Grad) -> None:
        self._function, self._grad = function, grad

    def check(self, entry: CompiledGraph, leaves: Sequence[Any], when: str) -> Verification | None:
        """Tries the call in all ways; everything is left as it was. None where the program does not
        stand for the call. VerificationError where they differ."""
        if not entry.ready(leaves):
            return None
        trial = _Trial(self._function, self._grad, entry, leaves)
        float64 = _Float64(entry.capture.graph)
        eager = trial.eager()
        interpreted = trial.interpreted(entry.capture.graph, float64)
        trial.require_capture(interpreted, eager)
        program = trial.program()
        found = outcome_difference(program, eager)
        if found is not None:
            raise trial.wrong_pass(eager) or trial.wrong_step(*found)
        if float64.wrong is not None:
            raise _node_error(entry.capture.graph, *float64.wrong)
        compared = len(eager.values) + len(eager.gradients) + len(eager.memory)
        compared += sum(x is not None for x in eager.grads)
        unknown = dict(sorted(float64.unknown.items()))
        return Verification(when, compared, float64.nodes, unknown, float64.worst)


class _Trial:
    """One call, in several ways."""

    def __init__(
        self, function: Callable[..., Any], grad: Grad, entry: CompiledGraph, leaves: Sequence[Any]
    ) -> None:
        self._function, self._grad = function, grad
        self._entry, self._leaves = entry, leaves
        self._capture = entry.capture
        self._graph = entry.capture.graph  # as passes leave it
        self._state = State(self._capture, leaves)
        self._seeds = _seeds_of(self._capture)
        # Not where eager's backward fails, too.
        self._has_backward = bool(self._seeds) and self._capture.backward.error is None

    # ---- the ways

    def eager(self) -> Outcome:
        """The function itself."""
        args, kwargs = rebuild((tuple, self._entry.description), self._leaves)

        def run() -> Any:
            with compiling():
                return self._function(*args, **kwargs)

        return self._state.outcome(run, self._through)

    def program(self) -> Outcome:
        """The program."""
        return self._state.outcome(lambda: self._entry.call(self._leaves), self._through)

    def interpreted(self, graph: Graph, observer: Any = None) -> Outcome:
        """The graph, one unfused operation after another."""
        later: list[Tensor] = []

        def run() -> Any:
            arguments, given, draws = self._inputs()
            graph.core.refresh(given)
            with GradMode(False):
                outputs = list(interpret(graph, arguments, draws, True, observer))
            first = self._capture.backward.outputs if self._seeds else len(outputs)
            later[:] = outputs[first:]
            numbers = [value for *_, value in graph.core.scalars()]
            return self._entry.accept(outputs[:first], self._leaves, numbers)

        def through(values: list[Any]) -> list[Any]:
            targets = self._capture.backward.targets if self._has_backward else ()
            return [None if t.output < 0 else later[t.output] for t in targets]

        return self._state.outcome(run, through)

    def _inputs(self) -> tuple[list[Tensor | None], list[float], list[tuple[int, int]]]:
        """(arguments, numbers, draws) of a run of the whole graph: with the gradients of results
        that the later part takes."""
        taken, given, draws = self._entry.inputs(self._leaves)
        own = len(taken) - len(self._seeds)
        arguments: list[Tensor | None] = [*taken[:own], *self._seeds]
        return arguments, given, draws

    def _through(self, values: list[Any]) -> list[Any]:
        """The gradients that arrive through the results."""
        if not self._has_backward:
            return []
        roots = self._roots_among(values)
        targets = self._capture.backward.targets
        inputs = [self._leaves[t.position] if t.leaf is None else t.leaf for t in targets]
        return list(self._grad(roots, inputs, self._seeds))

    def _roots_among(self, values: list[Any]) -> list[Tensor]:
        """The results that have a tape, in the order of their outputs."""
        outputs: dict[int, Tensor] = {}
        tensors: list[Any] = [x for x in values if isinstance(x, Tensor)]
        places = [place for place in self._capture.results if place[0] != NUMBER]
        for (kind, what), x in zip(places, tensors, strict=True):
            if kind == OUTPUT:
                outputs[what] = x
            elif kind == VIEW and what[0] == OUTPUT:
                outputs[what[1]] = x._base
        return [outputs[k] for k in self._capture.backward.roots]

    # ---- who is to blame

    def require_capture(self, interpreted: Outcome, eager: Outcome) -> None:
        """VerificationError where the recorded graph is not the function."""
        found = outcome_difference(interpreted, eager, tape=False)
        if found is None:
            return
        where, wrong = found
        raise VerificationError(
            f"compile: the captured graph does not do what the function does: {where}: "
            f"{wrong.message}",
            "capture",
            "capture",
            -1,
            wrong.position,
        )

    def wrong_pass(self, eager: Outcome) -> VerificationError | None:
        """The first pass after which the graph means something else; of one that was simplified as
        another one, only whether it does."""
        if self._capture.resized is not None:
            resized = Graph.from_core(self._capture.resized)
            return self._wrong_after(resized, -1, "sizes", "simplified with other sizes", eager)
        for number, (name, run) in enumerate(passes.PASSES):
            after = passes.everywhere(run, self._graph)
            if after is self._graph:
                continue
            wrong = self._wrong_after(after, number, name, f"after pass {number} ({name})", eager)
            if wrong is not None:
                return wrong
        return None

    def _wrong_after(
        self, after: Graph, number: int, name: str, when: str, eager: Outcome
    ) -> VerificationError | None:
        found = outcome_difference(self.interpreted(after), eager, tape=False)
        if found is None:
            self._graph = after
            return None
        where, wrong = found
        return VerificationError(
            f"compile: {when}, the graph does not do what the function does: "
            f"{where}: {wrong.message}",
            "pass",
            name,
            number,
            wrong.position,
        )

    def wrong_step(self, where: str, wrong: Difference) -> VerificationError:
        """The first step of the program whose value is not the interpreter's; the passes have been
        looked at."""
        graph = self._graph
        values: dict[int, Tensor] = {}

        def keep(number: int, _: Any, __: Any, made: tuple[Tensor, ...]) -> None:
            for value, x in zip(graph.nodes[number].outputs, made, strict=True):
                values[value] = prim.copy(x)

        self.interpreted(graph, keep)
        says = f"compile: the program does not do what the function does: {where}: {wrong.message}"
        watcher = _Watcher(graph, self._entry.program_object, values)
        try:
            self._watch(watcher)
        except Exception as error:
            says += f"; watched, it fails: {error!r}"
        finally:
            self._state.restore()
        return watcher.error(says, wrong.position)

    def _watch(self, watcher: _Watcher) -> None:
        """Runs the program, and where there is one the program of the backward pass."""
        arguments, given, draws = self._inputs()
        outputs = _core.watch(watcher.program, arguments, given, draws, watcher)
        if self._has_backward and not watcher.has_found and outputs is not None:
            backward = self._capture.backward
            watcher.program = backward.program
            carried = outputs[backward.outputs :]
            _core.watch(backward.program, [*arguments, *carried], given, draws, watcher)


class _Watcher:
    """Sees every step of a run and keeps the first that reads or makes a wrong value."""

    def __init__(self, graph: Graph, program: _core.Program, values: dict[int, Tensor]) -> None:
        self.program = program
        self._graph, self._values = graph, values
        self._found: tuple[int, bool, int, Difference] | None = None

    def __call__(self, step: int, done: bool, seen: list[tuple[int, Tensor]]) -> None:
        if self._found is not None:
            return
        for value, x in seen:
            want = self._values.get(value)
            wrong = element_difference(x, want) if want is not None else None
            if wrong is not None:
                self._found = step, done, value, wrong
                return

    @property
    def has_found(self) -> bool:
        """Whether a step was wrong."""
        return self._found is not None

    def error(self, says: str, position: tuple[int, ...] | None) -> VerificationError:
        """The error that names what was found."""
        if self._found is None:
            return VerificationError(
                f"{says}. Every step is right: what is returned or written lies in the wrong place",
                "plan",
                "plan",
                -1,
                position,
            )
        step, done, value, wrong = self._found
        ops = ", ".join(self.program.steps()[step])
        what = f"{_value(self._graph, value)}: {wrong.message}"
        if done:
            message = f"{says}. Step {step} ({ops}) is the first that is wrong, from right operands"
            return VerificationError(f"{message}: {what}", "region", ops, step, wrong.position)
        message = f"{says}. Before step {step} ({ops}) runs, an operand has been overwritten"
        return VerificationError(f"{message}: {what}", "plan", ops, step, wrong.position)


def _node_error(graph: Graph, number: int, value: int, wrong: Difference) -> VerificationError:
    op = graph.nodes[number].op
    return VerificationError(
        f"compile: node {number} ({op}) is not within its bound of float64: "
        f"{_value(graph, value)}: {wrong.message}",
        "node",
        op,
        number,
        wrong.position,
    )


def _value(graph: Graph, number: int) -> str:
    value = graph.values[number]
    by = f" of node {value.node} ({graph.nodes[value.node].op})" if value.node >= 0 else ""
    return f"%{number}{by}, {value.dtype.name} {list(value.shape)}"


def _seeds_of(capture: Any) -> list[Tensor]:
    """Gradients for the results that have a tape, spread around one."""
    backward = capture.backward
    if backward is None:
        return []
    seeds = []
    for shape, dtype, device in backward.shapes:
        n = math.prod(shape)
        ramp = prim.iota(n, float32, 0.5, 1.0 / max(n, 1), 0, 0, device)
        seeds.append(prim.reshape(prim.cast(ramp, dtype), shape))
    return seeds
