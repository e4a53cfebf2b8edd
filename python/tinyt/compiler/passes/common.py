"""Common subexpressions: equal nodes over the same values become one.

Draws and nodes that are no rows of the op table are never equal. The second of two large values
stays where the first one would be kept for it: memory counts for more than time there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinyt.compiler.graph.graph import OPS
from tinyt.compiler.passes.edit import RANDOM, Edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node

_OPS = frozenset(OPS) - RANDOM
_WITH_FLOATS = frozenset(name for name, row in OPS.items() if ":f" in row["attributes"])


def run(graph: Graph) -> Graph:
    """The graph with one node for all that are equal."""
    by = _equal_numbers(graph)
    if not by and not _has_equal_nodes(graph):
        return graph
    edit = Edit(graph)
    edit.by.update(by)
    known: dict[Any, Sequence[int]] = {}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        key, outputs = _key(node), node.outputs
        first = known.setdefault(key, outputs)
        if first is outputs:
            return None
        if all([edit.take(old, new) for old, new in zip(outputs, first, strict=True)]):
            return first
        known[key] = outputs
        return None

    return edit.run(rule, _OPS)


def _key(node: Node) -> Any:
    """What equal nodes have in common."""
    op, attrs, inputs, _, _ = node
    if op in _WITH_FLOATS:  # 0.0 and -0.0 are equal to Python
        attrs = tuple([a.hex() if type(a) is float else a for a in attrs])
    return op, attrs, inputs


def _has_equal_nodes(graph: Graph) -> bool:
    keys = [_key(node) for node in graph.nodes if node.op in _OPS]
    return len(set(keys)) < len(keys)


def _equal_numbers(graph: Graph) -> dict[int, int]:
    """Of Python's numbers that are written out more than once: the first one, by the others that
    nodes read."""
    by: dict[int, int] = {}
    known: dict[Any, int] = {}
    numbers = [item for item in graph.inputs if item.weak and item.tensor is not None]
    read = {v for node in graph.nodes for v in node.inputs} if len(numbers) > 1 else ()
    for item in numbers:
        if item.value in read:
            key = item.tensor.dtype, repr(item.tensor.item())  # type: ignore[union-attr]
            first = known.setdefault(key, item.value)
            if first != item.value:
                by[item.value] = first
                if graph.sizes is not None:
                    graph.sizes.merge_numbers(first, item.value)
    return by
