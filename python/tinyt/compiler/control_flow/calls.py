"""A call of a function with a tape of its own, and its recording as a part of a program.

In eager mode and in a recording a node of control flow is one node of the tape. Its gradients are
those of the calls, one after another, each added up before it is added to the others': so both
modes give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from tinyt import _core
from tinyt._autograd import BackwardPass, GradMode, Node, is_grad_enabled, next_number, outer_edges
from tinyt._capture import Recorder, recorder
from tinyt._core import CaptureError
from tinyt._tensor import dtype
from tinyt.compiler.control_flow.trees import kind_of
from tinyt.dtypes import ALL
from tinyt.ops.autocast import own_casts
from tinyt.tensor import Tensor, node_of, prim

# On lists of tensors; None stands for an output that is none.
Flat = Callable[[list[Tensor]], list[Tensor | None]]
Edge = tuple[Node | Tensor, int]
# Where an argument of a part lies (FlowSource of control_flow.h).
NOWHERE, WHOLE, SLICE, CARRY, NEXT = range(5)
Source = tuple[int, int, int]
Draw = tuple[int, int, int]
# Of an output of a conditional.
NOT_READ, ZEROS = -1, -2


def wants(x: Tensor) -> bool:
    """Whether operations on a tensor are on the tape."""
    return x.requires_grad and is_grad_enabled()


Like = tuple[tuple[int, ...], dtype, int]
"""Shape, dtype and device of a tensor, that as an attribute has it."""


def like_of(x: Tensor) -> Like:
    """A tensor's."""
    return tuple(x.shape), x.dtype, x._device_code


def filled(like: Like, value: float) -> Tensor:
    """A tensor of one number."""
    shape, t, device = like
    return prim.fill(shape, t, value, 0, 0.0, device)


def zeros(like: Like) -> Tensor:
    """A tensor of zeros."""
    return filled(like, 0.0)


def nothing(like: Like) -> Tensor:
    """What added to a tensor leaves its bits: zeros below zero."""
    return filled(like, -0.0)


def dense(x: Tensor) -> Tensor:
    """The elements in row-major order."""
    return x if x.is_contiguous() else x.contiguous()


def key_of(edge: Edge) -> tuple[int, int]:
    """Edges that are the same have the same one."""
    return id(edge[0]), edge[1]


def refuse_higher(op: str) -> None:
    """RuntimeError where a backward pass is to be differentiated."""
    if is_grad_enabled():
        raise RuntimeError(
            f"backward: create_graph=True does not reach through {op}; write the loop or branch in "
            "Python"
        )


def refuse_again(op: str) -> RuntimeError:
    """What was saved is gone."""
    return RuntimeError(
        f"backward: trying to backward through the graph a second time (at {op}), but its saved "
        "tensors have been freed; pass retain_graph=True to the first call"
    )


class Call:
    """A function called with placeholders for tensors: what it made, and the tape of that.

    ``edges`` are where gradients leave the call: to placeholders that want one (``inner``), and to
    what the function reads besides.
    """

    def __init__(self, function: Flat, placeholders: list[Tensor]) -> None:
        first = next_number()
        with own_casts():
            self.outputs = [_made_since(first, x) for x in function(placeholders)]
        self.roots = {i: x for i, x in enumerate(self.outputs) if x is not None and wants(x)}
        self.inner = {i: x for i, x in enumerate(placeholders) if x.requires_grad}
        own = {id(x) for x in self.inner.values()}
        reached = outer_edges(list(self.roots.values()), first)
        self.edges: list[Edge] = [edge for edge in reached if id(edge[0]) not in own]

    def gradients(
        self, seeds: Sequence[Tensor]
    ) -> tuple[dict[int, Tensor | None], list[Tensor | None]]:
        """From gradients of the roots to those of the placeholders that want one, by position, and
        of the edges."""
        targets: list[Edge] = [*((x, 0) for x in self.inner.values()), *self.edges]
        found: list[Tensor | None] = [None] * len(targets)
        backward_pass = BackwardPass({key_of(edge): i for i, edge in enumerate(targets)}, found)
        with GradMode(False):
            for root, seed in zip(self.roots.values(), seeds, strict=True):
                backward_pass.start(root, seed)
            backward_pass.run(True)
            backward_pass.arrived()
        count = len(self.inner)
        return dict(zip(self.inner, found[:count], strict=True)), found[count:]


def _made_since(first: int, x: Tensor | None) -> Tensor | None:
    """A tensor whose tape, if it has one, ends with a node of the call."""
    if x is not None and wants(x) and ((node := node_of(x)) is None or node.seq < first):
        return x.clone()
    return x


class Total:
    """Gradients of edges that one call after another adds to: dense, in memory of their own."""

    def __init__(self) -> None:
        self.edges: dict[tuple[int, int], Edge] = {}
        self.gradients: dict[tuple[int, int], Tensor | None] = {}

    def meet(self, edges: Sequence[Edge]) -> None:
        """Makes room for edges."""
        for edge in edges:
            self.edges.setdefault(key_of(edge), edge)

    def add(self, edges: Sequence[Edge], found: Sequence[Tensor | None]) -> None:
        """Adds what one call gave."""
        for edge, g in zip(edges, found, strict=True):
            if g is not None:
                have = self.gradients.get(key_of(edge))
                self.gradients[key_of(edge)] = prim.copy(g) if have is None else have.add_(g)


# ---- recordings


class PartGrad(NamedTuple):
    """A gradient that the later part of a recording gives to an edge: its shape and dtype, and the
    number of the result."""

    edge: Edge
    like: Like
    result: int


class PartGrads(NamedTuple):
    """What the later part of a recording gives and takes: nothing where this fails, which is to be
    raised where a gradient arrives."""

    inner: dict[int, int]  # position of a placeholder -> result
    edges: list[PartGrad]
    added: dict[int, int]  # argument -> the result that is this argument and something more
    seeds: dict[int, int]  # argument -> the output whose gradient it is
    refusal: Callable[[], Exception] | None = None


class Part:
    """A function recorded once, with what a program needs to run it again and again.

    ``likes`` are what its arguments look like, ``wanting`` the positions of those that want a
    gradient. ``sums``: gradients of edges are added to an argument each. It is to be settled before
    it is used.
    """

    def __init__(
        self, function: Flat, likes: Sequence[Like], wanting: set[int], sums: bool = False
    ) -> None:
        owner = recorder()
        assert owner is not None
        core, depth = _core.new_part(), owner.depth
        try:
            owner.begin_part()
            core.begin(owner)
            placeholders = [_argument(core, x) for x in likes]
            for i in wanting:
                placeholders[i].requires_grad_()
            call = Call(function, placeholders)
            self.results = [None if x is None else core.add_result(x) for x in call.outputs]
            self.kinds = [kind_of(x) for x in call.outputs]
            self.likes = {i: like_of(x) for i, x in call.roots.items()}
            self.roots = list(call.roots)
            self.draws = owner.draws
            self._made = len(core.outputs())
            self.grads = _record_slopes(core, owner, call, sums) if call.roots else None
            self.edges: list[Edge] = []
            if self.grads:
                given = [slope.edge for slope in self.grads.edges]
                self.edges = call.edges if self.grads.refusal else given
            if owner.draws != self.draws:
                raise CaptureError(
                    "compile: a gradient inside of cond or scan draws random numbers; draw them in "
                    "forward"
                )
        finally:
            core.end()
            owner.end_parts(depth)
        self.core, self.given = core, len(likes)

    def finish(self, repeats: bool = False) -> Part:
        """Finds what it reads from outside, and what its gradients read. Where it ``repeats``, what
        is the same each time is computed outside."""
        if repeats:
            _core.hoist(self.core)
        self.outside: list[tuple[int, Tensor]] = _core.take_outside(self.core)
        self.reads: list[bool] = []
        differs: list[bool] = []
        if self.grads:
            self.reads, differs = _core.later_reads(self.core, self.given)
        self.kept = list(range(self._made, self._made + len(differs)))
        self.fixed = [r for r, of_step in zip(self.kept, differs, strict=True) if not of_step]
        self._now, self._later = self.core, self.core
        if self.grads:
            self._now, self._later = _core.split(self.core)
        return self

    def now(self, sources: list[Source], draws: Sequence[Draw] = ()) -> Any:
        """What runs first, as `_core.record_scan` and its like take it."""
        return self._now, sources, list(draws)

    def later(self, sources: list[Source]) -> Any:
        """The gradients, in the same way."""
        return self._later, sources, []

    def sources(self, inputs: list[Tensor]) -> list[Source]:
        """Where the arguments lie, of those that stand for tensors outside; adds these."""
        sources: list[Source] = [(NOWHERE, -1, -1)] * self.core.arguments
        for argument, x in self.outside:
            sources[argument] = (WHOLE, len(inputs), -1)
            inputs.append(x)
        return sources


def drawn(part: Part, steps: int = 1) -> list[Draw]:
    """Takes the counters that a part needs for all its steps, as eager steps take them."""
    owner = recorder()
    assert owner is not None
    found: list[Draw] = []
    for generator, count in part.draws:
        at, first = owner.draw(generator, 4 * count * steps, lambda *place: place)
        found.append((at, first, count))
    return found


def _argument(core: _core.Graph, like: Like) -> Tensor:
    """What stands for a dense tensor."""
    return core.add_argument(like[0], ALL.index(like[1]), like[2])


def _record_slopes(core: _core.Graph, owner: Recorder, call: Call, sums: bool) -> PartGrads:
    """Records the gradients of a call, as a later part."""
    first = len(core.outputs())
    core.set_mark()
    grads = PartGrads({}, [], {}, {})
    seeds = []
    for output, root in call.roots.items():
        grads.seeds[core.arguments] = output
        seeds.append(_argument(core, like_of(root)))
    refused = owner.refused
    try:
        inner, found = call.gradients(seeds)
    except Exception as error:
        owner.forgive(refused)
        return PartGrads({}, [], {}, {}, partial(type(error), *error.args))
    with GradMode(False):
        for i, g in inner.items():
            x = zeros(like_of(call.inner[i])) if g is None else g
            grads.inner[i] = core.add_result(x) - first
        for edge, g in zip(call.edges, found, strict=True):
            if g is None:
                continue
            argument, total = core.arguments, g
            if sums:
                total = prim.add(_argument(core, like_of(g)), g)
            result = core.add_result(total) - first
            if sums:
                grads.added[argument] = result
            grads.edges.append(PartGrad(edge, like_of(g), result))
    return grads


@contextmanager
def looking() -> Iterator[None]:
    """Operations of the block are recorded, and nothing else: to see what they would make."""
    core, owner = _core.Graph(), Recorder()
    try:
        core.begin(owner)
        yield
    finally:
        core.end()
        owner.restore()
        owner.forgive()
