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
    edit = Edit(graph)
    edit.by.update(_equal_numbers(graph))
    known: dict[Any, Sequence[int]] = {}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        op, attrs, inputs, outputs, _ = node
        if op in _WITH_FLOATS:  # 0.0 and -0.0 are equal to Python
            attrs = tuple([a.hex() if type(a) is float else a for a in attrs])
        first = known.setdefault((op, attrs, inputs), outputs)
        if first is outputs:
            return None
        if all([edit.take(old, new) for old, new in zip(outputs, first, strict=True)]):
            return first
        known[op, attrs, inputs] = outputs
        return None

    return edit.run(rule, _OPS)


def _equal_numbers(graph: Graph) -> dict[int, int]:
    """Of Python's numbers that are written out more than once: the first one."""
    by: dict[int, int] = {}
    known: dict[Any, int] = {}
    for item in graph.inputs:
        if item.weak and item.tensor is not None:
            number = item.tensor.item()
            key = item.tensor.dtype, repr(number)
            first = known.setdefault(key, item.value)
            if first != item.value:
                by[item.value] = first
                if graph.sizes is not None:
                    graph.sizes.merge_numbers(first, item.value)
    return by
