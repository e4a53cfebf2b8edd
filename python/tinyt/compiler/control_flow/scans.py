"""`scan`: a loop over the slices of tensors, in which a state is carried along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tinyt import _core
from tinyt._autograd import GradMode, Node, Saved, make_function_node, set_node
from tinyt._capture import recorder
from tinyt.compiler.control_flow.calls import (
    CARRY,
    NEXT,
    NOWHERE,
    SLICE,
    WHOLE,
    Call,
    Flat,
    Like,
    Part,
    Source,
    Total,
    dense,
    drawn,
    like_of,
    nothing,
    refuse_again,
    refuse_higher,
    wants,
    zeros,
)
from tinyt.compiler.control_flow.trees import flatten, mismatch, require_tensors, unflatten
from tinyt.ops.shape.join import stack
from tinyt.ops.shape.reshape import movedim
from tinyt.tensor import Tensor, prim

T = TypeVar("T")
_NAME = "Scan"


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Carries a state along the slices of tensors: ``carry, y = combine_fn(carry, x)`` for each.

    ``init`` is the first carry and ``xs`` what is cut into slices along ``dim`` (from the last one
    with ``reverse``): tensors, or tuples, lists and dicts of them. Returns the last carry and all
    ``y`` along a dimension of their own, which is ``dim`` where they have that many. A leaf of
    ``y`` may be None.

    The carry that ``combine_fn`` returns must be nested as ``init`` and have its shapes and dtypes;
    neither it nor ``x`` may be written to. Gradients reach ``init``, ``xs`` and what the function
    reads besides. In a compiled function a scan is one node, and its body is captured once.

    RuntimeError for other leaves than tensors, no slices, slices of different counts, and a carry
    that changes; IndexError for a ``dim`` that is not there.
    """
    first, init_tree = flatten(init)
    slices, xs_tree = flatten(xs)
    if not slices:
        return init, []
    at = _checked(combine_fn, first, slices, dim, reverse)
    first = [dense(x) for x in first]
    slices = [dense(movedim(x, at, 0)) for x in slices]
    trees: list[Any] = []

    def step(leaves: list[Tensor]) -> list[Tensor | None]:
        carry, x = leaves[: len(first)], leaves[len(first) :]
        result = combine_fn(unflatten(init_tree, carry), unflatten(xs_tree, x))
        after, y = _unpacked(result, first, init_tree)
        outputs, tree = flatten(y)
        require_tensors("scan", "what combine_fn returns", [x for x in outputs if x is not None])
        if trees and trees[0] != tree:
            raise RuntimeError("scan: combine_fn must nest its outputs in the same way every time")
        trees[:] = [tree]
        return [*after, *outputs]

    run = _run if recorder() is None else _record
    results = run(step, first, slices, reverse)
    carry, ys = results[: len(first)], results[len(first) :]
    if at:
        ys = [y if y is None or at >= y.dim() else movedim(y, 0, at) for y in ys]
    return unflatten(init_tree, carry), unflatten(trees[0], ys)


def _checked(combine_fn: Any, first: list[Any], slices: list[Any], dim: Any, reverse: Any) -> int:
    """The dimension, counted from the first; RuntimeError where an argument will not do."""
    if not callable(combine_fn):
        raise RuntimeError(f"scan: combine_fn must be callable, got {combine_fn!r}")
    if not isinstance(dim, int):
        raise RuntimeError(f"scan: dim must be an int, got {type(dim).__name__}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"scan: reverse must be a bool, got {type(reverse).__name__}")
    if not first:
        raise RuntimeError("scan: init must have at least one tensor")
    require_tensors("scan", "init", first)
    require_tensors("scan", "xs", slices)
    rank = slices[0].dim()
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise IndexError(f"scan: dim must be in [{-max(rank, 1)}, {max(rank, 1) - 1}], got {dim}")
    at = dim + rank if dim < 0 else dim
    counts = [x.shape[at] if at < x.dim() else 0 for x in slices]
    if 0 in counts or any(n != counts[0] for n in counts):
        shapes = ", ".join(str(tuple(x.shape)) for x in slices)
        raise RuntimeError(
            f"scan: all of xs must have the same number of slices along dim {at}, and at least "
            f"one; got shapes {shapes}"
        )
    return at


def _unpacked(result: Any, first: list[Tensor], tree: Any) -> tuple[list[Tensor], Any]:
    """The leaves of the carry that a step returns, and its other result."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise RuntimeError(
            f"scan: combine_fn must return two things, the carry and an output, got {result!r:.80}"
        )
    after, after_tree = flatten(result[0])
    require_tensors("scan", "the carry", after)
    if after_tree != tree:
        raise RuntimeError("scan: combine_fn must return a carry that is nested as init")
    if (found := mismatch(first, after)) is not None:
        at, old, new = found
        raise RuntimeError(
            f"scan: combine_fn must return a carry like init, but its leaf {at} is {new}, not {old}"
        )
    return after, result[1]


# ---- eager


class _Steps:
    """The steps of a scan, for its backward."""

    __name__ = _NAME

    def __init__(self, calls: list[Call], carries: int, order: list[int]) -> None:
        self.calls: list[Call] | None = calls
        self.carries, self.order = carries, order
        self.total = Total()
        for call in calls:
            self.total.meet(call.edges)

    def release(self) -> None:
        """Frees what was saved."""
        self.calls = None

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        refuse_higher("scan")
        if self.calls is None:
            raise refuse_again(_NAME)
        calls, n = self.calls, self.carries
        slices = len(node.edges) - n - len(self.total.edges)
        carried: dict[int, Tensor | None] = dict(enumerate(grads[:n]))
        of_slices: list[list[Tensor | None]] = [[None] * len(calls) for _ in range(slices)]
        total = Total()
        for call, at in zip(reversed(calls), reversed(self.order), strict=True):
            seeds = []
            for i, root in call.roots.items():
                of_y = grads[i] if i >= n else None
                g = carried.get(i) if of_y is None else of_y.select(0, at)
                seeds.append(zeros(like_of(root)) if g is None else g)
            found, of_edges = call.gradients(seeds)
            carried = {i: g for i, g in found.items() if i < n}
            for i, g in found.items():
                if i >= n:
                    of_slices[i - n][at] = g
            total.add(call.edges, of_edges)
        of_first = [carried.get(i) for i in range(n)]
        out = [_zeros_for(node, i) if g is None else prim.copy(g) for i, g in enumerate(of_first)]
        out += [self._stacked(node, n + i, found) for i, found in enumerate(of_slices)]
        return out + [total.gradients.get(key) for key in self.total.edges]

    def _stacked(self, node: Node, i: int, found: list[Tensor | None]) -> Tensor | None:
        if not node.needs_input(i):
            return None
        like = tuple(node.shape(i)[1:]), node.dtype(i), node.device_code(i)
        return stack([zeros(like) if g is None else g for g in found])


def _zeros_for(node: Node, i: int) -> Tensor | None:
    """The gradient of an input that no step reads."""
    if not node.needs_input(i):
        return None
    return zeros((tuple(node.shape(i)), node.dtype(i), node.device_code(i)))


def _run(
    step: Flat, first: list[Tensor], slices: list[Tensor], reverse: bool
) -> list[Tensor | None]:
    """The steps as Python."""
    n, steps = len(first), slices[0].shape[0]
    order = list(range(steps))[:: -1 if reverse else 1]
    calls: list[Call] = []
    carry, wanting = [x.detach() for x in first], [wants(x) for x in first]
    of_slices = [wants(x) for x in slices]
    for at in order:
        leaves = [*(x.detach() for x in carry), *(x.detach().select(0, at) for x in slices)]
        for x, wanted in zip(leaves, [*wanting, *of_slices], strict=True):
            x.requires_grad_(wanted)
        versions = [x._writes for x in leaves]
        call = Call(step, leaves)
        if [x._writes for x in leaves] != versions:
            raise RuntimeError("scan: combine_fn must not write into its inputs; clone them first")
        calls.append(call)
        carry = [dense(x).detach() for x in call.outputs[:n] if x is not None]
        wanting = [i in call.roots for i in range(n)]
    with GradMode(False):
        ys = [
            None if any(y is None for y in column) else stack([y for y in column if y is not None])
            for column in zip(*(calls[at].outputs[n:] for at in order), strict=True)
        ]
        results: list[Tensor | None] = [prim.copy(x) for x in carry]
    results += ys
    roots = {i for i in calls[-1].roots if i < n}
    roots |= {i for call in calls for i in call.roots if i >= n}
    if roots:
        backward = _Steps(calls, n, order)
        edges = list(backward.total.edges.values())
        node = make_function_node(backward, [*first, *slices], len(results), edges)
        for i in roots:
            set_node(_there(results[i]), node, i)
    return results


def _there(x: T | None) -> T:
    assert x is not None
    return x


# ---- recorded


class _Recorded:
    """A scan as a node of a program, for its backward: a scan in the other direction over what the
    steps kept."""

    __name__ = _NAME

    def __init__(self, part: Part, steps: int, reverse: bool, carries: int) -> None:
        self.part, self.steps, self.reverse, self.carries = part, steps, reverse, carries
        self.saved: dict[tuple[str, int], Saved] | None = {}

    def save(self, kind: str, tensors: Mapping[int, Tensor]) -> None:
        """Keeps tensors by what they are and a number."""
        for i, x in tensors.items():
            _there(self.saved)[kind, i] = Saved(x, -1)

    def release(self) -> None:
        """Frees what was saved."""
        self.saved = None

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        refuse_higher("scan")
        if self.saved is None:
            raise refuse_again(_NAME)
        part, of_part = self.part, _there(self.part.grads)
        if of_part.refusal:
            raise of_part.refusal()
        saved = {key: x.unpack(node) for key, x in _there(self.saved).items()}
        inputs: list[Tensor] = []

        def put(x: Tensor) -> int:
            inputs.append(x)
            return len(inputs) - 1

        sources: list[Source] = [(NOWHERE, -1, -1)] * part.core.arguments
        for i in (i for i in range(part.given) if part.reads[i]):
            if i < self.carries:
                sources[i] = NEXT, put(saved["carries", i]), put(saved["inputs", i])
            else:
                sources[i] = SLICE, put(saved["inputs", i]), -1
        for argument, _ in part.outside:
            if part.reads[argument]:
                sources[argument] = WHOLE, put(saved["outside", argument]), -1
        for argument, i in of_part.seeds.items():
            g, like = grads[i], part.likes[i]
            if i < self.carries:
                at = put(zeros(like) if g is None else g)
                # Of what no step takes a gradient through, only the last step's reaches anything.
                kind = CARRY if i in of_part.inner else WHOLE
                sources[argument] = kind, at, of_part.inner.get(i, -1)
            else:
                sources[argument] = (
                    (WHOLE, put(zeros(like)), -1) if g is None else (SLICE, put(g), -1)
                )
        likes = {g.result: g.like for g in of_part.edges}
        for argument, result in of_part.added.items():
            sources[argument] = CARRY, put(nothing(likes[result])), result
        for r in part.kept:
            sources.append((WHOLE if r in part.fixed else SLICE, put(saved["kept", r]), -1))
        return self._record(node, sources, inputs)

    def _record(
        self, node: Node, sources: list[Source], inputs: list[Tensor]
    ) -> list[Tensor | None]:
        part, of_part, n = self.part, _there(self.part.grads), self.carries
        firsts = [i for i in of_part.inner if i < n and node.needs_input(i)]
        slices = [i for i in of_part.inner if i >= n]
        out = _core.record_scan(
            part.later(sources),
            self.steps,
            not self.reverse,
            [*(of_part.inner[i] for i in firsts), *(g.result for g in of_part.edges)],
            [of_part.inner[i] for i in slices],
            inputs,
        )
        found: list[Tensor | None] = [None] * part.given
        for i, g in zip(firsts, out, strict=False):
            found[i] = g
        for i, g in zip(slices, out[len(firsts) + len(of_part.edges) :], strict=True):
            found[i] = g
        return [*found, *out[len(firsts) : len(firsts) + len(of_part.edges)]]


def _record(
    step: Flat, first: list[Tensor], slices: list[Tensor], reverse: bool
) -> list[Tensor | None]:
    """One node over a recorded step."""
    n, steps = len(first), slices[0].shape[0]
    inputs = [*first, *slices]
    likes = [*map(like_of, first), *((tuple(x.shape[1:]), x.dtype, x._device_code) for x in slices)]
    wanting = frozenset(i for i, x in enumerate(inputs) if wants(x))
    part, roots = _part_of(step, likes, wanting, n, steps)
    part.finish(repeats=True)
    finals = [_there(r) for r in part.results[:n]]
    made = [r for r in part.results[n:] if r is not None]
    read = [i for i in range(n) if part.grads and part.reads[i]]
    of_steps = [r for r in part.kept if r not in part.fixed]
    sources = part.sources(inputs)
    for i in range(n):
        sources[i] = CARRY, i, finals[i]
    for i in range(n, part.given):
        sources[i] = SLICE, i, -1
    out = _core.record_scan(
        part.now(sources, drawn(part, steps)),
        steps,
        reverse,
        [*finals, *part.fixed],
        [*made, *(finals[i] for i in read), *of_steps],
        inputs,
    )
    fixed, ys = out[n : n + len(part.fixed)], iter(out[n + len(part.fixed) :])
    results = [*out[:n], *(None if r is None else next(ys) for r in part.results[n:])]
    if part.grads:
        backward = _Recorded(part, steps, reverse, n)
        backward.save("carries", dict(zip(read, ys, strict=False)))
        backward.save("kept", dict(zip([*part.fixed, *of_steps], [*fixed, *ys], strict=True)))
        backward.save("inputs", {i: inputs[i] for i in range(part.given) if part.reads[i]})
        backward.save("outside", {a: x for a, x in part.outside if part.reads[a]})
        node = make_function_node(backward, [*first, *slices], len(results), part.edges)
        for i in roots:
            set_node(_there(results[i]), node, i)
    return results


def _part_of(
    step: Flat, likes: Sequence[Like], first: frozenset[int], carries: int, steps: int
) -> tuple[Part, set[int]]:
    """One recording for all steps, and the results of the scan that have a gradient.

    As in eager mode, a carry wants a gradient in a step if it has one after the step before. In the
    recording all do that want one in any step: what is too much of it reaches no tensor that wants
    one.
    """
    slices = {i for i in first if i >= carries}
    parts: dict[frozenset[int], Part] = {}
    roots: set[int] = set()
    wanting = first
    for _ in range(steps):
        if wanting not in parts:
            parts[wanting] = Part(step, likes, set(wanting), sums=True)
        of_last = parts[wanting].roots
        roots.update(i for i in of_last if i >= carries)
        before, wanting = wanting, frozenset(slices.union(i for i in of_last if i < carries))
        if wanting == before:
            break
    roots.update(i for i in of_last if i < carries)
    every = frozenset().union(*parts) if roots else frozenset()
    return parts.get(every) or Part(step, likes, set(every), sums=True), roots
