"""Removes nodes whose values nobody reads.

Kept are nodes that may find fault with values (an index out of range, an integer divided by 0: the
recorded function raises that error whether it uses the result or not), control flow, and what has
an effect beside its results. A draw that nobody reads goes: how far a run advances a generator is
not told by the nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.compiler.graph.graph import FLOW, OPS, Value
from tinyt.compiler.passes.edit import FAULTING, SCALARS

if TYPE_CHECKING:
    from collections.abc import Collection

    from tinyt.compiler.graph.graph import Graph, Node


def run(graph: Graph, replaced: Collection[int] = ()) -> Graph:
    """The graph without dead nodes; among them those that made ``replaced`` values, whatever they
    might find fault with."""
    wanted = bytearray(len(graph.values))
    for output in graph.outputs:
        wanted[output.value] = 1
    for write in graph.writes:
        wanted[write.value] = 1
    keep = bytearray(len(graph.nodes))
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        outputs = node.outputs
        if (
            wanted[outputs[0]]
            or (len(outputs) > 1 and any([wanted[v] for v in outputs]))
            or (outputs[0] not in replaced and _may_fail(graph, node))
        ):
            keep[i] = 1
            for v in node.inputs:
                wanted[v] = 1
    if all(keep):
        return graph
    place, kept = [-1] * len(keep), 0
    nodes = []
    for i, node in enumerate(graph.nodes):
        if keep[i]:
            place[i], kept = kept, kept + 1
            nodes.append(node)
    values = [
        v if v[2] < 0 or place[v[2]] == v[2] else Value(v[0], v[1], place[v[2]], v[3])
        for v in graph.values
    ]
    split_point = graph.split_point
    if split_point.node >= 0:
        split_point = split_point._replace(node=sum(keep[: split_point.node]))
    return graph._replace(nodes=nodes, values=values, split_point=split_point)


def _may_fail(graph: Graph, node: Node) -> bool:
    if node.op not in OPS:
        return node.op in FLOW or graph.is_ordered(node)
    if node.op not in FAULTING:
        return False
    made = graph.values[node.outputs[0]].dtype
    return node.op not in SCALARS or not made.is_floating_point
