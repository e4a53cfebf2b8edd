"""The reference interpreter: what a graph means, one node after another, slowly and plainly.

Every node is a pure function of its values. Geometry attributes (``as_strided``, ``update``) count
elements from the start of a dense value, so values are made dense before they are seen that way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tinyt import _core
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.compiler.graph import Graph, Node
    from tinyt.tensor import Tensor

Draws = Sequence[tuple[int, int]]


def interpret(
    graph: Graph, arguments: Sequence[Tensor] = (), draws: Draws = (), writes: bool = True
) -> tuple[Tensor, ...]:
    """Runs the graph on its inputs as they are now and returns its outputs.

    ``arguments`` have the geometry that was recorded; ``draws`` are (seed, first counter) of every
    generator. Captured memory is written last, and only if ``writes``.
    """
    graph.verify()
    values: dict[int, Tensor] = {}
    for item in graph.inputs:
        if item.tensor is not None:
            values[item.value] = item.tensor
        else:
            shape = graph.values[item.value].shape
            values[item.value] = _memory(arguments[item.argument], shape)
    for i, node in enumerate(graph.nodes):
        results = _run(graph, i, node, [values[v] for v in node.inputs], draws)
        for number, result in zip(node.outputs, results, strict=True):
            expected = graph.values[number]
            if tuple(result.shape) != expected.shape or result.dtype is not expected.dtype:
                raise RuntimeError(
                    f"interpret: {node.op} gave {result.dtype.name}{list(result.shape)}, recorded "
                    f"as {expected.dtype.name}{list(expected.shape)}"
                )
            values[number] = result
    # Copies: nothing returned or written may change with the memory that is written below.
    outputs = tuple(
        prim.as_strided(prim.copy(values[o.value]), o.shape, o.stride, o.offset)
        for o in graph.outputs
    )
    if writes:
        sources = [prim.copy(values[w.value]) for w in graph.writes]
        for source, write in zip(sources, graph.writes, strict=True):
            target = write.target
            if target is None:
                target = _memory(arguments[write.argument], tuple(source.shape))
            target._assign(source)
    return outputs


def _memory(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """All that an argument reaches of its memory, in the shape that was recorded."""
    if tuple(x.shape) == shape:
        return x.detach()
    steps = zip(x.shape, x.stride(), strict=True)
    first = sum((n - 1) * step for n, step in steps if step < 0)
    return prim.as_strided(x.detach(), shape, (1,), x.storage_offset() + first)


# The operations that take their inputs as one sequence, and those that draw numbers.
_ANY_NUMBER = {row["name"] for row in _core.op_table() if row["inputs"] < 0}
_RANDOM = {row["name"] for row in _core.op_table() if "random" in row["flags"]}


def _run(
    graph: Graph, number: int, node: Node, inputs: list[Tensor], draws: Draws
) -> tuple[Tensor, ...]:
    run = getattr(prim, node.op, None)
    if run is None:
        return graph.core.run_opaque(number, inputs)
    attrs = node.attrs
    if node.op == "as_strided":
        inputs = [prim.copy(inputs[0])]
    elif node.op in _RANDOM:
        *rest, generator, taken = attrs
        seed, first = draws[generator]
        attrs = (*rest, seed, first + taken)
    if node.op in _ANY_NUMBER:
        return (run(tuple(inputs), *attrs),)
    results = run(*inputs, *attrs)
    return results if isinstance(results, tuple) else (results,)
