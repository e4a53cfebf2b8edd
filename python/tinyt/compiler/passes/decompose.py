"""Fused rows that the device has no kernel for become what they are made of.

The core keeps the recordings (src/core/graph/decompositions.h); they are made again for the shapes
that they are put at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt import _core
from tinyt.compiler.graph.graph import OPS
from tinyt.compiler.passes.edit import CPU, Edit, on_device, walk
from tinyt.compiler.passes.views import contiguous

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence

    from tinyt.compiler.graph.graph import Graph, Node, Output


def lacking(device: int) -> Mapping[str, int]:
    """The fused rows that a device has no kernel for, and the numbers of the dtypes in which it has
    none, as bits."""
    return _core.lacking_rows(device)


def applies(graph: _core.Graph) -> bool:
    """Whether there may be such rows in a recording."""
    return any(map(lacking, graph.devices()))


def run(graph: Graph) -> Graph:
    """The graph without such rows."""
    without = {device: lacking(device) for device in graph.core.devices()}

    def lacks(edit: Edit, node: Node) -> bool:
        types = without[edit.device_of(node)].get(node.op, 0)
        return bool(types >> edit.values[node.inputs[0]].dtype.number & 1)

    return _replaced(graph, {op for rows in without.values() for op in rows}, lacks)


def only(graph: Graph, ops: Container[str]) -> Graph:
    """The graph without fused rows but ``ops``, and scalar ones."""
    fused = {
        name
        for name, row in OPS.items()
        if row["kind"] != "scalar" and "fused" in row["flags"] and name not in ops
    }
    return _replaced(graph, fused, lambda edit, node: True)


def _replaced(graph: Graph, ops: set[str], lacks: Callable[[Edit, Node], bool]) -> Graph:
    if not ops:
        return graph

    def rule(edit: Edit, node: Node) -> Sequence[int] | None:
        return _decomposed(edit, node) if lacks(edit, node) else None

    before = None
    while before is not graph:  # a decomposition may have fused rows in it
        before, graph = graph, walk(graph, rule, ops)
    return graph


def _decomposed(edit: Edit, node: Node) -> Sequence[int]:
    given, device = node.inputs, edit.device_of(node)
    operands = [(edit.values[v].shape, edit.values[v].dtype.number, edit.is_weak(v)) for v in given]
    made = edit.graph.from_core(_core.decomposition(node.op, node.attrs, operands))
    by: dict[int, int] = {}
    for item in made.inputs:
        by[item.value] = given[item.argument] if item.tensor is None else edit.add_input(item)
    for inner in made.nodes:
        for v in inner.outputs:
            by[v] = edit.reserve(made.values[v].shape, made.values[v].dtype)
        read, make = [by[v] for v in inner.inputs], [by[v] for v in inner.outputs]
        edit.append(inner.op, read, on_device(inner, CPU, device), make)
    roots = {edit.root(v) for v in given}
    found = [_own(edit, _seen(edit, output, by[output.value]), roots) for output in made.outputs]
    for old, new in zip(node.outputs, found, strict=True):
        edit.succeed(old, new)
    return found


def _seen(edit: Edit, output: Output, value: int) -> int:
    """A result as it lies in a value."""
    shape, t, *_ = edit.values[value]
    steps = tuple(s if n > 1 else 0 for n, s in zip(output.shape, output.stride, strict=True))
    if (shape, contiguous(shape), 0) == (output.shape, steps, output.offset):
        return value
    attrs = (output.shape, output.stride, output.offset)
    return edit.add("as_strided", (value,), attrs, output.shape, t)


def _own(edit: Edit, value: int, operands: set[int]) -> int:
    """A result that is an operand, or a view of one, in memory of its own."""
    if edit.root(value) not in operands:
        return value
    shape, t, *_ = edit.values[value]
    return edit.add("copy", (value,), (), shape, t)
