"""The backward pass of a compiled function whose result requires grad: a program of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

from tinyt import _core
from tinyt._autograd import (
    BackwardPass,
    GradMode,
    is_grad_enabled,
    make_function_node,
    outer_edges,
    set_node,
)
from tinyt._core import CaptureError
from tinyt.tensor import Tensor, node_of, prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt._capture import Recorder
    from tinyt._tensor import dtype


class Target(NamedTuple):
    """Where a gradient goes: a leaf, or the argument of that position."""

    leaf: Tensor | None
    position: int
    output: int  # of the later program; -1: no gradient arrives
    reach: int  # a bit for each root whose tape leads to it


class Backward:
    """What was recorded after the split point: from gradients of results to gradients of what they
    are computed from. ``roots`` are the results that have a tape, by their outputs' numbers."""

    def __init__(
        self,
        core: _core.Graph,
        recorder: Recorder,
        roots: Mapping[int, Tensor],
        first_node: int,
        placeholders: Sequence[Any],
    ) -> None:
        self.error: str | None = None
        self.targets: list[Target] = []
        self.spent = [k for k, x in roots.items() if _is_spent(x)]
        self.roots = [k for k in roots if k not in self.spent]
        tensors = [roots[k] for k in self.roots]
        self.shapes = [(tuple(x.shape), x.dtype, x._device_code) for x in tensors]
        edges = outer_edges(tensors, first_node)
        for edge, _ in edges:
            if not isinstance(edge, Tensor):
                raise CaptureError(
                    "compile: the result depends on a tensor with a tape that was made outside; "
                    "pass it as an argument, or detach it"
                )
        core.set_mark()
        self.outputs = len(core.outputs())
        try:
            self._record(core, recorder, tensors, edges, placeholders, first_node)
        except (CaptureError, MemoryError):
            raise
        except RuntimeError as error:  # as eager's backward has it
            self.error = str(error)

    @classmethod
    def restored(
        cls,
        error: str | None,
        targets: list[Target],
        spent: list[int],
        roots: list[int],
        shapes: list[tuple[tuple[int, ...], dtype, int]],
        outputs: int,
    ) -> Backward:
        """What a file says of one; ``shapes`` are those of the roots, ``outputs`` those that come
        before the split point."""
        made: Backward = cls.__new__(cls)
        made.error, made.targets, made.spent = error, targets, spent
        made.roots, made.shapes, made.outputs = roots, shapes, outputs
        return made

    def _record(
        self,
        core: _core.Graph,
        recorder: Recorder,
        roots: Sequence[Tensor],
        edges: Sequence[tuple[Node | Tensor, int]],
        placeholders: Sequence[Any],
        first_node: int,
    ) -> None:
        place = {id(x): i for i, x in enumerate(placeholders)}
        reach = _reach(roots, first_node)
        seeds = [recorder.seed(x, ("seed", k)) for k, x in enumerate(roots)]
        found: list[Tensor | None] = [None] * len(edges)
        backward_pass = BackwardPass(
            {(id(edge), output): i for i, (edge, output) in enumerate(edges)}, found
        )
        with GradMode(False):
            for root, seed in zip(roots, seeds, strict=True):
                backward_pass.start(root, seed)
            backward_pass.run(False)
            backward_pass.arrived()
        outputs = 0
        for (edge, _), gradient in zip(edges, found, strict=True):
            position = place.get(id(edge), -1)
            leaf = edge if position < 0 and isinstance(edge, Tensor) else None
            output = -1 if gradient is None else outputs
            self.targets.append(Target(leaf, position, output, reach[id(edge)]))
            if gradient is not None:
                core.add_output(gradient)
                outputs += 1

    def plan(self, core: _core.Graph) -> None:
        """Makes the program; the recording has ended."""
        if self.error is not None:
            return
        self.program = _core.Program(core, 2)
        self._uses = self.program.uses()

    def attach(
        self,
        outputs: Sequence[Tensor],
        leaves: Sequence[Any],
        arguments: Sequence[Tensor | None],
        given: Sequence[float],
        draws: Sequence[tuple[int, int]],
        profile: Any = None,
    ) -> None:
        """Makes the results of a run, which come first among its outputs, outputs of one node of
        the tape; of those whose tape is spent, of nodes that say so."""
        inputs = [t.leaf if t.leaf is not None else leaves[t.position] for t in self.targets]
        backward: Any
        if self.error is None:
            backward = _Backward(self, arguments, given, draws, outputs[self.outputs :], profile)
        else:
            backward = Refusal(self.error)
        node = make_function_node(backward, inputs, len(self.roots))
        for k, output in enumerate(self.roots):
            set_node(outputs[output], node, k)
        for output in self.spent:
            set_node(outputs[output], make_function_node(Refusal(_SECOND_TIME), [], 1), 0)

    def run(
        self,
        grads: Sequence[Tensor | None],
        arguments: Sequence[Tensor | None],
        given: Sequence[float],
        draws: Sequence[tuple[int, int]],
        saved: Sequence[Tensor],
        profile: Any = None,
    ) -> list[Tensor | None]:
        """The gradients of the targets, None where no result with a gradient leads; a profile
        measures the run."""
        seeds = [
            prim.fill(shape, dtype, 0.0, 0, 0.0, device)
            if g is None
            else g
            if g.is_contiguous()
            else prim.copy(g)
            for g, (shape, dtype, device) in zip(grads, self.shapes, strict=True)
        ]
        measures = None if profile is None else _core.Measures(self.program)
        with GradMode(False):
            outputs = self.program.run([*arguments, *seeds, *saved], given, draws, measures)
        if outputs is None:
            raise RuntimeError("backward: a number that the compiled function read is another now")
        if profile is not None:
            profile.backward = measures
        present = sum(1 << k for k, g in enumerate(grads) if g is not None)
        return [
            outputs[t.output] if t.output >= 0 and t.reach & present else None for t in self.targets
        ]


_SECOND_TIME = (
    "backward: trying to backward through the graph a second time (at Compiled), but its saved "
    "tensors have been freed; pass retain_graph=True to the first call"
)


def _is_spent(x: Tensor) -> bool:
    """Whether a backward pass has freed a part of a tensor's tape."""
    waiting, seen = [node_of(x)], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        if node.is_freed:
            return True
        seen.add(node)
        waiting += [edge for edge, _ in node.next_functions]
    return False


def _reach(roots: Sequence[Tensor], first_node: int) -> dict[int, int]:
    """By id, what the tapes of the roots reach: a bit for each root that does, as eager's pass from
    this root alone would. All edges of a node count: one that is reached gets all its gradients."""
    reach: dict[int, int] = {}
    nodes: dict[int, Node] = {}  # by number, those to visit
    for k, x in enumerate(roots):
        if (made := node_of(x)) is not None:
            nodes[made.seq] = made
            reach[id(made)] = reach.get(id(made), 0) | 1 << k
    waiting = [-number for number in nodes]  # inputs are older than what was made of them
    heapify(waiting)
    while waiting:
        node = nodes[-heappop(waiting)]
        for edge in node.edges:
            if edge is None:
                continue
            reach[id(edge)] = reach.get(id(edge), 0) | reach[id(node)]
            if not isinstance(edge, Tensor) and first_node <= edge.seq and edge.seq not in nodes:
                nodes[edge.seq] = edge
                heappush(waiting, -edge.seq)
    return reach


class Refusal:
    """The backward of what has none: an error."""

    __name__ = "Compiled"

    def __init__(self, message: str) -> None:
        self._message = message

    def release(self) -> None:
        """Nothing is saved."""

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        """RuntimeError."""
        raise RuntimeError(self._message)


class _Backward:
    """The backward of one run. Keeps what the later program reads, as the tape would."""

    __name__ = "Compiled"

    def __init__(
        self,
        backward: Backward,
        arguments: Sequence[Tensor | None],
        given: Sequence[float],
        draws: Sequence[tuple[int, int]],
        saved: Sequence[Tensor],
        profile: Any = None,
    ) -> None:
        self._backward, self._profile = backward, profile
        taken = arguments[: len(arguments) - len(backward.shapes)]
        self._arguments = [
            x.detach() if used and x is not None else None
            for x, used in zip(taken, backward._uses, strict=False)
        ]
        self._given, self._draws, self._from_forward = given, draws, saved
        self._versions = [x._version for x in self._saved()]
        self._freed = False

    def _saved(self) -> list[Tensor]:
        arguments = [x for x in self._arguments if x is not None]
        return [*arguments, *self._from_forward, *self._backward.program.captured()]

    def release(self) -> None:
        """Frees what was saved."""
        self._arguments, self._from_forward, self._freed = [], (), True

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        if self._freed:
            raise RuntimeError(_SECOND_TIME)
        if is_grad_enabled():
            raise RuntimeError(
                "backward: create_graph=True does not reach through a compiled function; "
                "differentiate inside it, or call the function itself"
            )
        for x, version in zip(self._saved(), self._versions, strict=True):
            if x._version != version:
                raise RuntimeError(
                    "backward: one of the variables needed for gradient computation has been "
                    f"modified by an inplace operation: [{x.dtype.name} {tuple(x.shape)}], read by "
                    f"a compiled function, is at version {x._version}; expected version {version} "
                    "instead"
                )
        return self._backward.run(
            grads, self._arguments, self._given, self._draws, self._from_forward, self._profile
        )
