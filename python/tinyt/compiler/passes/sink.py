"""Moves a permutation that is read element by element to before the elementwise ops whose result it
turns: they all run as one region, which reads its operand turned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt._core import GATHERED_BYTES
from tinyt.compiler.passes.edit import FAULTING, SCALARS, uses_of, walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tinyt.compiler.graph.graph import Graph, Node
    from tinyt.compiler.passes.edit import Edit

_FUSES = (SCALARS - FAULTING) | {"cast"}
_READERS = _FUSES | {"copy", "reshape"}

_MOST = 16  # nodes that one permutation is moved over

# Bytes. For shorter rows and several operands a tiled copy is faster: measured,
# benchmarks/cases/compile.py has such cases.
_LONG_ROW = 128


def run(graph: Graph) -> Graph:
    """The graph with permutations before elementwise ops where that saves a pass over memory."""
    uses = uses_of(graph)
    readers = {v: node.op for node in graph.nodes for v in node.inputs}
    readers |= {output.value: "copy" for output in graph.outputs}
    readers |= {write.value: "copy" for write in graph.writes}

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        (x,), (made,) = node.inputs, node.outputs
        reader = readers.get(made)
        if uses[made] != 1 or reader not in _READERS:
            return None
        chain = _above(edit, x, uses)
        wide = _operand(edit, chain)
        if wide is None or edit.crosses(wide) or not _pays(edit, node, wide, reader):
            return None
        # It is kept in the place of what is made of it.
        if not edit.may_read(wide):
            if edit.nbytes(edit.root(wide)) > edit.nbytes(x):
                return None
            edit.keep(wide)
        to = edit.values[made].shape
        turned = {wide: edit.add("permute", (wide,), node.attrs, to, edit.values[wide].dtype)}
        for inner in chain:
            old = inner.outputs[0]
            inputs = [turned.get(v, v) for v in inner.inputs]
            turned[old] = edit.add(inner.op, inputs, inner.attrs, to, edit.values[old].dtype)
        uses.extend([1] * (len(edit.values) - len(uses)))
        return (turned[x],)

    return walk(graph, rule, ("permute",))


def _pays(edit: Edit, node: Node, wide: int, reader: str) -> bool:
    """Whether the region is as fast on turned memory: rows that stay rows, or squares of elements
    (is_readable in plan_regions.cpp). What is too large for these is copied before the region
    instead of after it, and pays where the reader joins the region."""
    (x,), (dims,) = node.inputs, node.attrs
    shape, t, *_ = edit.values[x]
    if not dims:
        return False
    if edit.nbytes(x) > GATHERED_BYTES:
        return reader in _FUSES and edit.nbytes(wide) <= edit.nbytes(x)
    return dims[-1] != len(dims) - 1 or shape[-1] * t.itemsize >= _LONG_ROW


def _operand(edit: Edit, chain: list[Node]) -> int | None:
    """The one operand of the nodes that is no single number."""
    wide = {v for node in chain for v in node.inputs if edit.values[v].shape}
    wide -= {node.outputs[0] for node in chain}
    return wide.pop() if len(wide) == 1 else None


def _above(edit: Edit, value: int, uses: list[int]) -> list[Node]:
    """The elementwise nodes that make a value and are read by nothing else, in program order."""
    shape = edit.values[value].shape
    found: list[Node] = []
    left = [value]
    while left:
        v = left.pop()
        node = edit.makers[v]
        if (
            node is None
            or node.op not in _FUSES
            or uses[v] != 1
            or len(found) == _MOST
            or edit.values[v].shape != shape
            or any([s and s != shape for s in (edit.values[i].shape for i in node.inputs)])
        ):
            continue
        found.append(node)
        left += node.inputs
    return found[::-1]
