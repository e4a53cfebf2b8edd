"""The reference interpreter: what a graph means, one node after another, slowly and plainly.

Every node is a pure function of its values. Geometry attributes (``as_strided``, ``update``) count
elements from the start of a dense value, so values are made dense before they are seen that way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tinyt.compiler.graph.graph import FLOW, OPS, Graph, Node
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

Draws = Sequence[tuple[int, int]]
# Called with each node that has run: its number, its attributes at this run, the values that it
# read and made.
Observer = Callable[[int, tuple[Any, ...], list["Tensor"], tuple["Tensor", ...]], None]


def interpret(
    graph: Graph,
    arguments: Sequence[Tensor | None] = (),
    draws: Draws = (),
    writes: bool = True,
    observer: Observer | None = None,
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
    _run_nodes(graph, values, draws, observer)
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


def _run_nodes(
    graph: Graph, values: dict[int, Tensor], draws: Draws, observer: Observer | None = None
) -> None:
    """Adds what nodes make to the values."""
    for i, node in enumerate(graph.nodes):
        inputs, attrs = [values[v] for v in node.inputs], _attributes(node, draws)
        results = _run(graph, i, inputs, attrs, draws)
        for number, result in zip(node.outputs, results, strict=True):
            expected = graph.values[number]
            if tuple(result.shape) != expected.shape or result.dtype is not expected.dtype:
                raise RuntimeError(
                    f"interpret: {node.op} gave {result.dtype.name}{list(result.shape)}, recorded "
                    f"as {expected.dtype.name}{list(expected.shape)}"
                )
            values[number] = result
        if observer is not None:
            observer(i, attrs, inputs, results)


def _memory(x: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    """All that an argument reaches of its memory, in the shape that was recorded."""
    if x is None:
        raise RuntimeError(f"interpret: an argument of shape {shape} is missing")
    if tuple(x.shape) == shape:
        return x.detach()
    steps = zip(x.shape, x.stride(), strict=True)
    first = sum((n - 1) * step for n, step in steps if step < 0)
    return prim.as_strided(x.detach(), shape, (1,), x.storage_offset() + first)


# The operations that take their inputs as one sequence, and those that draw numbers.
_ANY_NUMBER = {name for name, row in OPS.items() if row["inputs"] < 0}
_RANDOM = {name for name, row in OPS.items() if "random" in row["flags"]}


def _attributes(node: Node, draws: Draws) -> tuple[Any, ...]:
    """Those of a random operation begin where its generator is."""
    if node.op not in _RANDOM:
        return node.attrs
    *rest, generator, taken = node.attrs
    seed, first = draws[generator]
    return (*rest, seed, first + taken)


def _run(
    graph: Graph, number: int, inputs: list[Tensor], attrs: tuple[Any, ...], draws: Draws
) -> tuple[Tensor, ...]:
    node = graph.nodes[number]
    if node.op in FLOW:
        return _FLOW[node.op](graph, number, inputs, draws)
    run = getattr(prim, node.op, None)
    if run is None:
        return graph.run_opaque(node, inputs, draws)
    if node.op in ("as_strided", "view_as_complex"):  # of values that lie dense
        inputs = [prim.copy(inputs[0])]
    if node.op in _ANY_NUMBER:
        return (run(tuple(inputs), *attrs),)
    results = run(*inputs, *attrs)
    return results if isinstance(results, tuple) else (results,)


# ---- control flow: nodes that run recordings of their own (control_flow.h)

# Where an argument lies.
_NOWHERE, _WHOLE, _SLICE, _CARRY, _NEXT = range(5)


class _Part:
    """A recording that a node runs."""

    def __init__(self, graph: Graph, numbers: Iterator[int]) -> None:
        self.graph = graph
        self.sources = [_take(numbers, 3) for _ in range(next(numbers))]
        self.draws = [_take(numbers, 3) for _ in range(next(numbers))]
        self.arguments = [x.value for x in graph.inputs if x.argument >= 0]

    def run(self, arguments: Sequence[Tensor | None], draws: Draws, step: int = 0) -> list[Tensor]:
        """The results of one step."""
        values = {x.value: x.tensor for x in self.graph.inputs if x.tensor is not None}
        for number, x in zip(self.arguments, arguments, strict=True):
            if x is not None:
                shape = self.graph.values[number].shape
                values[number] = prim.reshape(prim.copy(x), shape)
        own = [(draws[g][0], draws[g][1] + first + step * n) for g, first, n in self.draws]
        _run_nodes(self.graph, values, own)
        return [prim.copy(values[output.value]) for output in self.graph.outputs]


def _take(numbers: Iterator[int], count: int) -> list[int]:
    return [next(numbers) for _ in range(count)]


def _list(numbers: Iterator[int]) -> list[int]:
    return _take(numbers, next(numbers))


def _item(x: Tensor, i: int) -> Tensor:
    return prim.reshape(prim.slice(x, 0, i, i + 1), tuple(x.shape[1:]))


def _scan(graph: Graph, number: int, inputs: list[Tensor], draws: Draws) -> tuple[Tensor, ...]:
    numbers = iter(graph.nodes[number].attrs)
    steps, is_reversed = _take(numbers, 2)
    part = _Part(graph.parts(number)[0], numbers)
    finals, stacks = _list(numbers), _list(numbers)
    order = range(steps)[:: -1 if is_reversed else 1]
    results: list[Tensor] = []
    found: dict[int, list[Tensor]] = {}
    for step, at in enumerate(order):
        after = order[step + 1] if step + 1 < steps else None
        arguments = [_lies(source, inputs, results, at, after) for source in part.sources]
        found[at] = results = part.run(arguments, draws, step)
    rows = [
        prim.cat(tuple(prim.reshape(found[i][r], (1, *results[r].shape)) for i in range(steps)), 0)
        for r in stacks
    ]
    return *(results[r] for r in finals), *rows


def _lies(
    source: Sequence[int],
    inputs: list[Tensor],
    results: list[Tensor],
    at: int,
    after: int | None,
) -> Tensor | None:
    """An argument of a step: ``at`` and ``after`` are its slice and that of the next step."""
    kind, i, other = source
    if kind == _CARRY and results:
        return results[other]
    if kind == _NEXT:
        return inputs[other] if after is None else _item(inputs[i], after)
    if kind == _NOWHERE:
        return None
    return _item(inputs[i], at) if kind == _SLICE else inputs[i]


def _cond(graph: Graph, number: int, inputs: list[Tensor], draws: Draws) -> tuple[Tensor, ...]:
    node = graph.nodes[number]
    numbers = iter(node.attrs)
    branches = [(_Part(part, numbers), _list(numbers)) for part in graph.parts(number)]
    part, rows = branches[bool(inputs[0])]
    results = part.run(
        [inputs[i] if kind == _WHOLE else None for kind, i, _ in part.sources], draws
    )
    kinds = [graph.values[v] for v in node.outputs]
    return tuple(
        results[r] if r >= 0 else prim.fill(kind.shape, kind.dtype, 0.0, 0)
        for r, kind in zip(rows, kinds, strict=True)
    )


def _while_loop(
    graph: Graph, number: int, inputs: list[Tensor], draws: Draws
) -> tuple[Tensor, ...]:
    numbers = iter(graph.nodes[number].attrs)
    carries = _list(numbers)
    carry = inputs[: len(carries)]
    condition, body = (_Part(part, numbers) for part in graph.parts(number))

    def run(part: _Part) -> list[Tensor]:
        places = {_CARRY: carry, _WHOLE: inputs}
        return part.run([places[k][i] if k in places else None for k, i, _ in part.sources], draws)

    while bool(run(condition)[0]):
        results = run(body)
        carry = [results[r] for r in carries]
    return tuple(prim.copy(x) for x in carry)


_FLOW = {"scan": _scan, "cond": _cond, "while_loop": _while_loop}
