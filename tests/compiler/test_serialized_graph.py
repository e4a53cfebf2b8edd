"""Graphs as words: made again they are equal, run to the same bits, and words that are none are
errors, whatever they are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import tinyt
from drawn import functions, recorded
from fuzz.case import function_of, inputs_of, nets_of
from fuzz.draw import drawn
from op_rows import Op
from op_samples import OPS
from same_graphs import check_runs, plain
from sampling import build, flat
from tinyt import Tensor, _core
from tinyt.compiler import simplify
from tinyt.compiler.graph.graph import Graph
from tinyt.library import custom_op


def again(core: _core.Graph, generators: int) -> Graph:
    """The graph that is made of its words."""
    words, names, memories = _core.serialized(core)
    return Graph.from_core(_core.deserialized(words, names, memories, generators))


def used(graph: Graph) -> Graph:
    """Without inputs that nothing uses, as words leave them out."""
    read = {v for node in graph.nodes for v in node.inputs}
    read |= {x.value for x in (*graph.outputs, *graph.writes)}
    storages = {w.target._storage_id for w in graph.writes if w.target is not None}
    inputs = [
        x
        for x in graph.inputs
        if x.argument >= 0
        or x.value in read
        or (x.tensor is not None and x.tensor._storage_id in storages)
    ]
    inside = {i: tuple(map(used, parts)) for i, parts in graph.inside.items()}
    return graph._replace(inputs=inputs, inside=inside)


def check(graph: Graph, draws: Sequence[tuple[int, int]] = ()) -> None:
    """The same graph, and the same bits of its runs."""
    found = again(graph.to_core(), len(draws))
    found.verify()
    want = used(Graph.from_core(graph.to_core()))
    assert plain(found) == plain(want)
    check_runs(want, found, draws)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operation(op: Op, rng: np.random.Generator) -> None:
    """Each row of the samples, as it is simplified."""
    function = op.function(tinyt)
    for number, dtype in enumerate(op.dtypes):
        for sample in list(op.samples(rng, dtype))[: None if number == 0 else 1]:
            args, kwargs = build(tinyt, (sample.args, sample.kwargs))

            def call(args: Any = args, kwargs: Any = kwargs) -> list[Tensor]:
                results = flat(function(*args, **kwargs))
                return [x for x in results if isinstance(x, Tensor)]

            try:
                recording = recorded(call)
            except tinyt.CaptureError:
                continue
            draws = [(7, 16 * i) for i in range(len(recording._recorder.draws))]
            check(simplify(recording.graph), draws)


@given(functions())
def test_drawn_functions(function: Callable[..., tuple[Tensor, ...]]) -> None:
    """Some write to the two tensors that they capture."""
    args = [tinyt.tensor([[1.5, -0.0, 0.0], [-2.5, float("inf"), 3.0]]), tinyt.tensor([0.5, 1.0])]
    recording = recorded(function, *args)
    draws = [(5, 0)] * len(recording._recorder.draws)
    for graph in (recording.graph, simplify(recording.graph)):
        check(graph, draws)


@pytest.mark.parametrize("part", range(4))
def test_fuzz_graphs(part: int, request: pytest.FixtureRequest) -> None:
    """What `tinyt.compile` captures of drawn graphs: backward passes, loops, branches, writes."""
    seed = request.config.getoption("--seed")
    written = 0
    with np.errstate(all="ignore"):
        for number in range(20 * part, 20 * part + 20):
            case = drawn(np.random.default_rng([seed, number]))
            compiled = tinyt.compile(function_of(case, nets_of(case)))
            try:
                compiled(*inputs_of(case))
            except (RuntimeError, ValueError, IndexError, NotImplementedError):
                continue
            for entry in compiled.entries:
                draws = [(7, 16 * i) for i in range(len(entry.capture.draws))]
                check(Graph.from_core(entry.capture.planned), draws)
                written += 1
    assert written >= 5


def flow_graph() -> Graph:
    """With each node of control flow, one in another, and random numbers in all."""
    xs = tinyt.ones(3, 4)

    def step(carry: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        carry = tinyt.cond(row.sum() > 2, lambda c: c * 2, lambda c: c + 1, (carry,))
        return carry + tinyt.rand(4), carry * row

    def function(first: Tensor) -> tuple[Tensor, ...]:
        last, all_of = tinyt.scan(step, first, xs, reverse=True)
        looped = tinyt.while_loop(lambda x: x.sum() < 30, lambda x: (x + 1.5,), (last,))
        return last, all_of, looped[0], tinyt.randn(2)

    return recorded(function, tinyt.ones(4)).graph


def test_control_flow() -> None:
    check(flow_graph(), [(3, 0)])


def test_a_custom_operation_is_code() -> None:
    @custom_op("mine::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return x * 2

    @twice.register_fake
    def _(x: Tensor) -> Tensor:
        return tinyt.empty_like(x)

    with pytest.raises(NotImplementedError, match="mine::twice is an operation of your own"):
        _core.serialized(recorded(lambda x: twice(x), tinyt.ones(2)).graph.to_core())


def step_core() -> _core.Graph:
    """Of a whole training step, with conditions, counters and numbers."""
    net = tinyt.nn.Linear(3, 2)
    optimizer = tinyt.optim.AdamW(net.parameters(), lr=0.1, amsgrad=True)
    scaler = tinyt.amp.GradScaler("cpu")

    def step(x: Tensor, rate: float) -> Tensor:
        optimizer.zero_grad()
        loss = (tinyt.dropout(net(x), 0.5, True) * rate).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    compiled = tinyt.compile(step)
    for rate in (1.5, 2.5, 3.5):
        compiled(tinyt.ones(4, 3), rate)
    core: _core.Graph = compiled.entries[0].capture.planned
    return core


HARMLESS = (RuntimeError, ValueError, TypeError, IndexError)


def mutate(words: list[int], rng: random.Random) -> list[int]:
    """Other words: some changed, taken out, put in or moved."""
    out = list(words)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(out))
        kind = rng.randrange(6)
        if kind == 0:
            out[at] += rng.choice([-1, 1])
        elif kind == 1:
            out[at] = rng.choice([-1, 0, 1, 2, 7, 255, 2**31, 2**62, -(2**63), 2**63 - 1])
        elif kind == 2:
            del out[at : at + rng.randint(1, 3)]
        elif kind == 3:
            out.insert(at, rng.randrange(-2, 40))
        elif kind == 4:
            out[at] = out[rng.randrange(len(out))]
        else:
            end = at + rng.randint(1, 8)
            out[at:end] = reversed(out[at:end])
        out = out or [0]
    return [(x + 2**63) % 2**64 - 2**63 for x in out]


def attack(core: _core.Graph, generators: int, count: int, seed: int) -> int:
    """Reads changed words, plans and runs what is a graph; how many were."""
    words, names, memories = _core.serialized(core)
    rng, was = random.Random(seed), words.tolist()
    copies = [x.clone() for x in memories]
    graphs = 0
    for _ in range(count):
        changed = tinyt.tensor(mutate(was, rng), dtype=tinyt.int64)
        others = list(names)
        if rng.random() < 0.1:
            others[rng.randrange(len(others))] = rng.choice(names)
        try:
            made = _core.deserialized(changed, others, copies, generators)
            parts = (1, 2) if made.split_point()[0] >= 0 else (0,)
            programs = [_core.Program(made, part) for part in parts]
            if parts == (0,) and programs[0].peak_bytes < 2**26 and made.arguments <= 2:
                run(made, programs[0], generators)
        except (*HARMLESS, MemoryError):
            continue
        graphs += 1
    return graphs


def run(core: _core.Graph, program: _core.Program, generators: int) -> None:
    graph = Graph.from_core(core)
    shapes = [graph.values[x.value] for x in graph.inputs if x.argument >= 0]
    if all(sum(v.shape) < 2**16 for v in shapes):
        arguments = [tinyt.ones(v.shape).to(v.dtype) for v in shapes]
        program.run(arguments, [1.5] * 8, [(0, 0)] * generators)


def attack_both(count: int, seed: int) -> None:
    attack(step_core(), 1, count, seed)
    attack(flow_graph().to_core(), 1, count, seed)


def test_changed_words() -> None:
    """Errors of few kinds, or another graph: never a crash."""
    attack_both(600, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 11))
def test_changed_words_for_long(seed: int) -> None:
    attack_both(5000, seed)
