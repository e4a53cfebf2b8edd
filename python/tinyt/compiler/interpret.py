"""The reference interpreter: what a graph means, one node after another, slowly and plainly.

Every node is a pure function of its values. Geometry attributes (``as_strided``, ``update``) count
elements from the start of a dense value, so values are made dense before they are seen that way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt import _core
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.compiler.graph import Graph, Node
    from tinyt.tensor import Tensor


def interpret(graph: Graph, writes: bool = True) -> tuple[Tensor, ...]:
    """Runs the graph on its inputs as they are now and returns its outputs.

    Captured memory is written last, and only if ``writes``.
    """
    graph.verify()
    values: dict[int, Tensor] = dict(graph.inputs)
    for node in graph.nodes:
        results = _run(node, [values[v] for v in node.inputs])
        for number, result in zip(node.outputs, results, strict=True):
            expected = graph.values[number]
            if tuple(result.shape) != expected.shape or result.dtype is not expected.dtype:
                raise RuntimeError(
                    f"interpret: {node.op} gave {result.dtype.name}{list(result.shape)}, recorded "
                    f"as {expected.dtype.name}{list(expected.shape)}"
                )
            values[number] = result
    # Copies: nothing returned or written may change with the memory that is written below.
    outputs = tuple(prim.copy(values[v]) for v in graph.outputs)
    if writes:
        sources = [prim.copy(values[v]) for v, _ in graph.writes]
        for source, (_, target) in zip(sources, graph.writes, strict=True):
            target._assign(source)
    return outputs


# The operations that take their inputs as one sequence.
_ANY_NUMBER = {row["name"] for row in _core.op_table() if row["inputs"] < 0}


def _run(node: Node, inputs: list[Tensor]) -> tuple[Tensor, ...]:
    if node.op == "as_strided":
        inputs = [prim.copy(inputs[0])]
    if node.op in _ANY_NUMBER:
        return (getattr(prim, node.op)(tuple(inputs), *node.attrs),)
    results = getattr(prim, node.op)(*inputs, *node.attrs)
    return results if isinstance(results, tuple) else (results,)
