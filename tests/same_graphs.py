"""Whether two graphs say the same, and run to the same bits."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

import tinyt
from drawn import same
from tinyt import Tensor, _core
from tinyt._tensor import view_dtype
from tinyt.compiler import interpret
from tinyt.compiler.graph.graph import Graph


def bytes_of(x: Tensor) -> bytes:
    dense = x.detach().cpu().contiguous().reshape(-1)
    return memoryview(view_dtype(dense, tinyt.uint8)).tobytes() if x.numel() else b""


def plain(graph: Graph) -> Any:
    """All that a graph says, its values numbered in the order in which they appear."""
    numbers: dict[int, int] = {}

    def named(values: Sequence[int]) -> list[int]:
        return [numbers.setdefault(v, len(numbers)) for v in values]

    def bits(x: Any) -> Any:
        return struct.pack("<d", x) if isinstance(x, float) else x

    inputs = [
        # What a live number is now is not what the graph is.
        (
            named([x.value]),
            x.argument,
            (x.weak, x.live),
            x.tensor is not None and not x.live and bytes_of(x.tensor),
        )
        for x in graph.inputs
    ]
    nodes = [
        (n.op, [bits(x) for x in n.attrs], named(n.inputs), named(n.outputs)) for n in graph.nodes
    ]
    kinds = [
        (graph.values[v].shape, graph.values[v].dtype, graph.values[v].device) for v in numbers
    ]
    outputs = [(named([o.value]), *o[1:]) for o in graph.outputs]
    writes = [
        (named([w.value]), w.argument, w.target is not None and bytes_of(w.target))
        for w in graph.writes
    ]
    parts = [[plain(part) for part in graph.parts(i)] for i in range(len(graph.nodes))]
    return inputs, nodes, kinds, outputs, writes, graph.split_point, parts


def run(graph: Graph, draws: Sequence[tuple[int, int]], planned: bool) -> list[Any]:
    """Results on arguments of the recorded geometries, and arguments afterwards; or the error."""
    rng = np.random.default_rng(5)
    arguments = []
    for x in graph.inputs:
        if x.argument >= 0:
            shape, t = graph.values[x.value][:2]
            made = tinyt.tensor(rng.integers(0, 3, shape)).to(t)
            arguments.append(made)
    try:
        if planned:
            results = _core.Program(graph.to_core()).run(arguments, [], list(draws))
            assert results is not None
        else:
            results = interpret(graph, arguments, draws)
    except (RuntimeError, ValueError, IndexError) as error:
        return [type(error)]
    return [(x.stride(), x.clone()) for x in (*results, *arguments)]


def check_runs(graph: Graph, again: Graph, draws: Sequence[tuple[int, int]]) -> None:
    """The same results, and the same in arguments and captured memory."""
    memory = [w.target for w in graph.writes if w.target is not None]
    before = [x.clone() for x in memory]
    for planned in (False, True)[: 1 if graph.split_point.node >= 0 else 2]:
        found = []
        for g in (graph, again):
            for x, old in zip(memory, before, strict=True):
                x.detach().copy_(old)
            found.append([*run(g, draws, planned), *((x.stride(), x.clone()) for x in memory)])
        if planned and found[0][0] is RuntimeError:  # of an argument that lies otherwise than dense
            continue
        for want, got in zip(*found, strict=True):
            if isinstance(want, tuple) and isinstance(got, tuple):
                assert want[0] == got[0]
                same(want[1], got[1])
            else:
                assert want is got
