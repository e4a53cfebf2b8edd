"""Moves repetition behind elementwise ops: computes once what is repeated, and lets an op repeat
its operands itself.

Only among operands of one dtype: what an operand counts for in promotion depends on its rank.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tinyt.compiler.passes.edit import SCALARS, walk, with_flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

_CONDITIONAL = with_flag("predicate_first")
_OPS = SCALARS | {"cast"}


def run(graph: Graph) -> Graph:
    """The graph with every `expand` as late as it may be."""
    if not any([node.op == "expand" for node in graph.nodes]):
        return graph
    return walk(graph, _rule, _OPS)


def _rule(edit: Edit, node: Node) -> Sequence[int] | None:
    if not any([edit.maker(v, "expand") for v in node.inputs]):
        return None
    counted = node.inputs[node.op in _CONDITIONAL :]
    if len({edit.values[v].dtype for v in counted if not edit.is_weak(v)}) > 1:
        return None
    inputs = [_before(edit, v) for v in node.inputs]
    shape, t, *_ = edit.values[node.outputs[0]]
    small = _broadcast([edit.values[v].shape for v in inputs])
    if prod(small) >= prod(shape) and small != shape:
        return None
    made = edit.add(node.op, inputs, node.attrs, small, t)
    return (made if small == shape else edit.add("expand", (made,), (shape,), shape, t),)


def _before(edit: Edit, value: int) -> int:
    """What is repeated, unless it is a number of Python's, or memory that nobody keeps."""
    node = edit.maker(value, "expand")
    return value if node is None or edit.is_weak(node.inputs[0]) else node.inputs[0]


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((n for n in sizes if n != 1), 1) for sizes in zip(*padded, strict=True))
