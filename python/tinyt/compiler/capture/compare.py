"""Where two recordings of the same function differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tinyt import _core
from tinyt._capture import ByIdentity, is_same
from tinyt._tensor import view_dtype
from tinyt.compiler.graph.graph import Graph, Input, Node, Place, place_of
from tinyt.dtypes import uint8
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt.compiler.capture.sources import Lines


class Recorded(Protocol):
    """A graph, the places of the constants that were made while it was recorded, and where
    results and gradients come from."""

    core: _core.Graph
    constants: frozenset[Place]
    tree: Any
    results: list[tuple[int, Any]]
    set_grads: list[tuple[Tensor | int, int, Tensor | None]]

    @property
    def graph(self) -> Graph:
        """What was recorded."""


def _same(first: Recorded, x: Tensor, second: Recorded, y: Tensor) -> bool:
    """The same memory; of numbers and of constants made in the recording, the same values."""
    if place_of(x) == place_of(y):
        return True
    of_value = (x.dim() == 0 and y.dim() == 0) or (
        place_of(x) in first.constants and place_of(y) in second.constants
    )
    return of_value and x.dtype is y.dtype and _bytes_of(x) == _bytes_of(y)


def _bytes_of(x: Tensor) -> bytes:
    """The elements in their order."""
    flat = prim.reshape(prim.copy(x.detach().cpu()), (x.numel(),))
    return memoryview(view_dtype(flat, uint8)).tobytes()


def difference(one: Recorded, other: Recorded, lines: Lines | None = None) -> str | None:
    """What is not the same in the other recording, and at which of its lines; None where they are
    equal."""
    found = _graph_difference(one, one.graph, other, other.graph)
    if found is not None:
        what, node = found
        where = "" if lines is None else lines.of(node)
        return f"{what}, at {where}" if where else what
    if not is_same(_formulas(one), _formulas(other)):
        return "what is computed from numbers"
    if not is_same(one.tree, other.tree):
        return _tree_difference(one.tree, other.tree)
    if not _all_same(one, one.results, other, other.results):
        return "what is returned"
    grads = ([row for row in x.set_grads if row[1:] != (-1, None)] for x in (one, other))
    if not _all_same(one, next(grads), other, next(grads)):
        return "which gradients are set"
    return None


def _graph_difference(
    one: Recorded, first: Graph, other: Recorded, second: Graph
) -> tuple[str, int] | None:
    """Of the graphs of recordings, or of the parts that a node of control flow runs; and the node
    of the second graph that shows it, -1 where none does."""
    for i, (a, b) in enumerate(zip(first.nodes, second.nodes, strict=False)):
        if a._replace(attrs=()) != b._replace(attrs=()) or not is_same(a.attrs, b.attrs):
            return f"operation {i} was {_text(a)}, now it is {_text(b)}", i
        for part, now in zip(first.parts(i), second.parts(i), strict=True):
            if (found := _graph_difference(one, part, other, now)) is not None:
                return f"in {a.op}: {found[0]}", i
    was, now_are = len(first.nodes), len(second.nodes)
    if was != now_are:
        at = min(was, now_are - 1)
        return f"there were {was} operations, now there are {now_are}", at
    if len(first.inputs) != len(second.inputs):
        return f"there were {len(first.inputs)} inputs, now there are {len(second.inputs)}", -1
    for x, y in zip(first.inputs, second.inputs, strict=True):
        what = _input_difference(one, x, other, y)
        if what is not None:
            readers = (i for i, node in enumerate(second.nodes) if y.value in node.inputs)
            return what, next(readers, -1)
    if first.values != second.values:
        return "shapes or dtypes", -1
    if first.outputs != second.outputs or len(first.writes) != len(second.writes):
        return "what is returned or written", -1
    return None


def _input_difference(one: Recorded, x: Input, other: Recorded, y: Input) -> str | None:
    if (x.value, x.argument, x.live) != (y.value, y.argument, y.live):
        return "an input is used elsewhere"
    if x.live or x.tensor is None or y.tensor is None or _same(one, x.tensor, other, y.tensor):
        return None
    if x.weak and y.weak:
        return f"a number was {x.tensor.item()}, now it is {y.tensor.item()}"
    return f"another tensor of shape {tuple(y.tensor.shape)} is read"


def _tree_difference(x: Any, y: Any) -> str:
    """Of two descriptions of results."""
    if type(x) is type(y) is tuple and len(x) == len(y):
        if x[:1] == y[:1] == ("value",):
            return f"a result was {x[2]!r}, now it is {y[2]!r}"
        for a, b in zip(x, y, strict=True):
            if not is_same(a, b):
                return _tree_difference(a, b)
    if isinstance(x, ByIdentity) and isinstance(y, ByIdentity):
        kind = type(y.held).__name__
        return (
            f"a result of type {kind} is another object (lists, tuples and dicts are looked into)"
        )
    return "how results are nested"


def same_results(was: Any, now: Any) -> bool:
    """Whether the description of what a function has returned is that of a recorded result, in
    which a float that is read anew is a leaf."""
    if now is None and isinstance(was, tuple) and was[:2] == ("value", float):
        return True
    are_nested = all(type(x) is tuple and x[:1] != ("value",) for x in (was, now))
    if are_nested and len(was) == len(now):
        return all(same_results(a, b) for a, b in zip(was, now, strict=True))
    return is_same(was, now)


def _formulas(x: Recorded) -> tuple[tuple[Any, ...], ...]:
    """What is computed from numbers; of constants the value, too."""
    rows = x.core.scalars()
    return tuple((*row[:4], row[4] if row[0] == "constant" else None) for row in rows)


def _all_same(one: Recorded, first: Sequence[Any], other: Recorded, second: Sequence[Any]) -> bool:
    """Of rows of numbers and tensors."""
    return len(first) == len(second) and all(
        _same(one, x, other, y)
        if isinstance(x, Tensor) and isinstance(y, Tensor)
        else is_same(x, y)
        for a, b in zip(first, second, strict=True)
        for x, y in zip(a, b, strict=True)
    )


def _text(node: Node) -> str:
    return f"{node.op}{list(node.attrs)}" if node.attrs else node.op
