"""`cond`: one of two functions, as a value says that may not be known yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tinyt import _core
from tinyt._autograd import GradMode, Node, Saved, make_function_node, set_node
from tinyt._capture import recorder
from tinyt._core import CaptureError
from tinyt.compiler.control_flow.calls import (
    NOT_READ,
    NOWHERE,
    WHOLE,
    ZEROS,
    Call,
    Draw,
    Edge,
    Flat,
    Like,
    Part,
    Source,
    Total,
    drawn,
    key_of,
    like_of,
    looking,
    refuse_again,
    refuse_higher,
    zeros,
)
from tinyt.compiler.control_flow.trees import flatten, kind_of, require_tensors, unflatten
from tinyt.dtypes import bool as bool_dtype
from tinyt.tensor import Tensor, prim

_NAME = "Cond"


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: tuple[Any, ...] | list[Any] = (),
) -> Any:
    """``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``.

    ``pred`` is a number, or a tensor of one element: then both functions must return tensors, or
    tuples, lists and dicts of them, that are nested alike and have the same shapes and dtypes; both
    are looked at, one is run. Its results are new tensors. Gradients reach the operands and what
    the functions read besides; what only the function that was not run reads gets zeros. In a
    compiled function this is one node with both branches in it.

    RuntimeError for a tensor of several elements, operands that are no tensors, and functions whose
    results differ.
    """
    if not isinstance(pred, Tensor):
        if not isinstance(pred, (bool, int, float)):
            raise RuntimeError(
                f"cond: pred must be a number or a tensor of one element, got {type(pred).__name__}"
            )
        return true_fn(*operands) if pred else false_fn(*operands)
    if pred.numel() != 1:
        raise RuntimeError(
            f"cond: pred must be a tensor of one element, got shape {tuple(pred.shape)}"
        )
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: both branches must be callable")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands must be a tuple, got {type(operands).__name__}")
    require_tensors("cond", "operands", flatten(operands)[0])
    trees: dict[bool, Any] = {}

    def branch(which: bool) -> Flat:
        def flat(_: list[Tensor]) -> list[Tensor | None]:
            leaves, trees[which] = flatten((true_fn if which else false_fn)(*operands))
            require_tensors("cond", "what a branch returns", leaves)
            return leaves

        return flat

    run = _run if recorder() is None else _record
    results = run(pred, branch, trees)
    return unflatten(next(iter(trees.values())), results)


def _check(trees: dict[bool, Any], kinds: dict[bool, list[str]]) -> None:
    """RuntimeError where the branches' results differ."""
    if trees[True] != trees[False]:
        raise RuntimeError("cond: both branches must nest their results in the same way")
    for i, (a, b) in enumerate(zip(kinds[True], kinds[False], strict=True)):
        if a != b:
            raise RuntimeError(
                "cond: both branches must return the same shapes and dtypes, but result "
                f"{i} is {a} of true_fn and {b} of false_fn"
            )


# ---- eager


class _Taken:
    """The branch that was run, for its backward; and what the other one would have read."""

    __name__ = _NAME

    def __init__(self, call: Call, other: dict[tuple[int, int], tuple[Edge, Like]]) -> None:
        self.call: Call | None = call
        self.edges = {key_of(edge): edge for edge in call.edges}
        for key, (edge, _) in other.items():
            self.edges.setdefault(key, edge)
        self.likes = {key: like for key, (_, like) in other.items()}

    def release(self) -> None:
        """Frees what was saved."""
        self.call = None

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        refuse_higher("cond")
        call = self.call
        if call is None:
            raise refuse_again(_NAME)
        seeds = []
        for i, root in call.roots.items():
            g = grads[i]
            seeds.append(zeros(like_of(root)) if g is None else g)
        _, of_edges = call.gradients(seeds)
        total = Total()  # new tensors, whatever the branch makes
        total.add(call.edges, of_edges)
        found = total.gradients
        for key, like in self.likes.items():
            if found.get(key) is None:
                found[key] = zeros(like)
        return [found.get(key) for key in self.edges]


def _run(
    pred: Tensor, branch: Callable[[bool], Flat], trees: dict[bool, Any]
) -> list[Tensor | None]:
    """One of the branches as Python; the other is looked at."""
    which = bool(pred)
    call = Call(branch(which), [])
    part = None
    try:
        with looking():
            part = Part(branch(not which), [], set())
    except CaptureError:  # what cannot be recorded can still be run another time
        trees.pop(not which, None)
    roots = set(call.roots)
    other: dict[tuple[int, int], tuple[Edge, Like]] = {}
    if part is not None:
        _check(trees, {which: [kind_of(x) for x in call.outputs], not which: part.kinds})
        roots.update(part.roots)
        if part.grads is not None:
            other = {key_of(slope.edge): (slope.edge, slope.like) for slope in part.grads.edges}
    with GradMode(False):
        results = [None if x is None else prim.copy(x) for x in call.outputs]
    backward = _Taken(call, other)
    _attach(backward, results, roots, list(backward.edges.values()))
    return results


def _attach(
    backward: Any, results: list[Tensor | None], roots: set[int], edges: list[Edge]
) -> None:
    """Makes those of the results that have gradients outputs of a node of the tape."""
    if roots:
        node = make_function_node(backward, [], len(results), edges)
        for i in sorted(roots):
            x = results[i]
            assert x is not None
            set_node(x, node, i)


# ---- recorded


class _Recorded:
    """A conditional as a node of a program, for its backward: one of the branches' gradients."""

    __name__ = _NAME

    def __init__(
        self, pred: Tensor, parts: Sequence[Part], kept: Sequence[dict[int, Tensor]]
    ) -> None:
        self.parts = parts
        self.pred = Saved(pred, -1)
        self.kept: list[dict[int, Saved]] | None = [
            {r: Saved(x, -1) for r, x in of_branch.items()} for of_branch in kept
        ]
        self.outside = [
            {a: Saved(x, -1) for a, x in part.outside if part.grads and part.reads[a]}
            for part in parts
        ]
        self.edges: dict[tuple[int, int], Edge] = {}
        self.results: list[dict[tuple[int, int], int]] = []
        for part in (parts[True], parts[False]):
            self.edges.update({key_of(edge): edge for edge in part.edges})
        for part in parts:
            of_part = part.grads.edges if part.grads else []
            self.results.append({key_of(slope.edge): slope.result for slope in of_part})

    def release(self) -> None:
        """Frees what was saved."""
        self.kept = None
        self.outside = []

    def __call__(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        refuse_higher("cond")
        if self.kept is None:
            raise refuse_again(_NAME)
        if not self.edges:
            return []
        for part in self.parts:
            if part.grads and part.grads.refusal:
                raise CaptureError(
                    f"cond: the gradient of a branch cannot be recorded: {part.grads.refusal()}"
                )
        inputs = [self.pred.unpack(node)]

        def put(x: Tensor) -> Source:
            inputs.append(x)
            return WHOLE, len(inputs) - 1, -1

        branches, results = [], []
        for part, kept, outside, found in zip(
            self.parts, self.kept, self.outside, self.results, strict=True
        ):
            results.append([found.get(key, ZEROS) for key in self.edges])
            if part.grads is None:
                branches.append(Part(lambda _: [], [], set()).finish().now([]))
                continue
            sources: list[Source] = [(NOWHERE, -1, -1)] * part.core.arguments
            for argument, saved in outside.items():
                sources[argument] = put(saved.unpack(node))
            for argument, i in part.grads.seeds.items():
                g = grads[i]
                sources[argument] = put(zeros(part.likes[i]) if g is None else g)
            sources += [put(kept[r].unpack(node)) for r in part.kept]
            branches.append(part.later(sources))
        when_false, when_true = branches
        return list(_core.record_cond(when_false, when_true, results[0], results[1], inputs))


def _record(
    pred: Tensor, branch: Callable[[bool], Flat], trees: dict[bool, Any]
) -> list[Tensor | None]:
    """One node over both branches."""
    parts = [Part(branch(which), [], set()).finish() for which in (False, True)]
    _check(trees, {which: parts[which].kinds for which in (False, True)})
    with GradMode(False):
        chosen = prim.reshape(prim.cast(pred.detach(), bool_dtype), ())
    inputs = [chosen]
    sources = [part.sources(inputs) for part in parts]
    results = [[r for r in part.results if r is not None] for part in parts]
    count = len(results[0])
    for which in (False, True):
        results[which] += parts[which].kept
        results[not which] += [NOT_READ] * len(parts[which].kept)
    draws = _drawn(parts)
    when_false, when_true = (
        part.now(sources[which], draws[which]) for which, part in enumerate(parts)
    )
    out = _core.record_cond(when_false, when_true, results[0], results[1], inputs)
    values: list[Tensor | None] = list(out[:count])
    kept_values = iter(out[count:])
    kept = [dict(zip(part.kept, kept_values, strict=False)) for part in parts]
    backward = _Recorded(chosen, parts, kept)
    roots = {i for part in parts for i in part.roots}
    _attach(backward, values, roots, list(backward.edges.values()))
    return values


def _drawn(parts: Sequence[Part]) -> list[list[Draw]]:
    """What the branches draw: as much of each generator, whichever runs."""
    counts = [{id(generator): count for generator, count in part.draws} for part in parts]
    if counts[0] != counts[1]:
        raise CaptureError(
            "cond: the branches draw different amounts of random numbers, so that a program cannot "
            "know how far the generator is afterwards; draw them before, and pass them to both"
        )
    first = drawn(parts[0])
    places = {id(generator): d for (generator, _), d in zip(parts[0].draws, first, strict=True)}
    return [first, [places[id(generator)] for generator, _ in parts[1].draws]]
