"""`while_loop`: a function applied to its own results as long as another one says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyt import _core
from tinyt._capture import recorder
from tinyt._core import CaptureError
from tinyt.compiler.control_flow.calls import CARRY, Flat, Part, dense, like_of, wants
from tinyt.compiler.control_flow.trees import flatten, mismatch, unflatten
from tinyt.tensor import Tensor


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: tuple[Any, ...] | list[Any],
) -> Any:
    """``values = body_fn(*values)`` as long as ``cond_fn(*values)``, from ``carried_inputs`` on.

    ``carried_inputs`` are tensors and integers, or tuples, lists and dicts of them. ``cond_fn``
    returns a bool or a 0-d bool tensor; ``body_fn`` must return a tuple or list that is nested as
    its arguments and has their shapes and dtypes. The result is a tuple of new tensors. In a
    compiled function the loop is one node, and its functions are captured once. There it carries
    tensors only, and functions draw no random numbers.

    Gradients reach ``carried_inputs`` and what the functions read, through every step that was
    run. A compiled loop has none, unless ``cond_fn`` returns bools (then the steps are recorded one
    by one): CaptureError where a value requires grad. RuntimeError for other values than these.
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("while_loop: cond_fn and body_fn must be callable")
    if not isinstance(carried_inputs, (tuple, list)):
        kind = type(carried_inputs).__name__
        raise RuntimeError(f"while_loop: carried_inputs must be a tuple or list, got {kind}")
    first, tree = flatten(tuple(carried_inputs))
    for x in first:
        if not isinstance(x, (Tensor, int)):
            raise RuntimeError(
                "while_loop: carried_inputs must consist of tensors and integers, got "
                f"{type(x).__name__}"
            )

    def condition(leaves: list[Any]) -> Any:
        answer = cond_fn(*unflatten(tree, leaves))
        if isinstance(answer, bool):
            return answer
        if isinstance(answer, Tensor) and answer.dim() == 0 and answer.dtype.name == "bool":
            return answer
        raise RuntimeError(
            f"while_loop: cond_fn must return a bool or a 0-d bool tensor, got {answer!r:.80}"
            if not isinstance(answer, Tensor)
            else "while_loop: cond_fn must return a bool or a 0-d bool tensor, got "
            f"{answer.dtype.name}{list(answer.shape)}"
        )

    def body(leaves: list[Any]) -> list[Any]:
        result = body_fn(*unflatten(tree, leaves))
        after, after_tree = flatten(tuple(result) if isinstance(result, list) else result)
        if after_tree != tree:
            raise RuntimeError("while_loop: body_fn must return a tuple nested as carried_inputs")
        if (found := mismatch(first, after)) is not None:
            at, old, new = found
            raise RuntimeError(
                f"while_loop: body_fn must return values like those it is given, but value {at} is "
                f"{new}, not {old}"
            )
        return after

    run = _run if recorder() is None else _record
    return unflatten(tree, run(condition, body, first))


def _run(
    condition: Callable[[list[Any]], Any], body: Callable[[list[Any]], list[Any]], first: list[Any]
) -> list[Any]:
    """The loop as Python."""
    leaves = [dense(x) if isinstance(x, Tensor) else x for x in first]
    while condition(leaves):
        leaves = [dense(x) if isinstance(x, Tensor) else x for x in body(leaves)]
    return [x.clone() if isinstance(x, Tensor) else x for x in leaves]


class _IsKnown(Exception):
    """The condition does not depend on what is computed."""


def _record(
    condition: Callable[[list[Any]], Any], body: Callable[[list[Any]], list[Any]], first: list[Any]
) -> list[Any]:
    """One node over the recorded functions; where the condition is known, the steps one by one."""

    def answer(leaves: list[Tensor]) -> list[Tensor | None]:
        found = condition(leaves)
        if isinstance(found, bool):
            raise _IsKnown
        return [found]

    if not all(isinstance(x, Tensor) for x in first):
        if not isinstance(condition(first), bool):
            raise CaptureError(
                "while_loop: how often a compiled loop runs depends on data, so that it cannot "
                "carry an integer; carry a tensor, as tinyt.tensor(0)"
            )
        return _run(condition, body, first)
    likes = [like_of(x) for x in first]
    flat: Flat = body
    try:
        parts = [Part(function, likes, set()).finish() for function in (answer, flat)]
    except _IsKnown:
        return _run(condition, body, first)
    if any(wants(x) for x in first) or parts[1].roots:
        raise CaptureError(
            "while_loop: a value requires grad, but how often a compiled loop runs is not known, "
            "so that nothing can be kept for its gradient; use scan, whose steps are counted, "
            "no_grad(), or a condition that does not depend on data"
        )
    if any(part.draws for part in parts):
        raise CaptureError(
            "while_loop: its functions draw random numbers, so that a program cannot know how far "
            "the generator is afterwards; draw them before the loop, or use scan"
        )
    inputs = [dense(x).detach() for x in first]
    sources = [part.sources(inputs) for part in parts]
    for part_sources in sources:
        part_sources[: len(first)] = [(CARRY, i, i) for i in range(len(first))]
    carries = [r for r in parts[1].results if r is not None]
    return list(
        _core.record_while(parts[0].now(sources[0]), parts[1].now(sources[1]), carries, inputs)
    )
