"""Passes over what nodes of control flow run."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
from flow import bits, is_same
from tinyt import Tensor, VerificationError
from tinyt.compiler import interpret, passes, rewrite, simplify
from tinyt.compiler.api import compile
from tinyt.compiler.graph.graph import Graph


def padded(x: Tensor) -> Tensor:
    """A sine, and what makes no difference to it."""
    _ = x.exp()
    a, b = (x * 1.0).chunk(2)
    return tinyt.cat([a, b]).clone().sin()


def by_scan(c: Tensor, xs: Tensor) -> Any:
    return tinyt.scan(lambda c, x: (padded(c + x), padded(c)), c, xs)


def by_cond(c: Tensor, xs: Tensor) -> Any:
    return tinyt.cond(xs[0, 0] > 0, padded, lambda c: padded(c) * 2, (c,))


def by_loop(c: Tensor, xs: Tensor) -> Any:
    def more(n: Tensor, c: Tensor) -> Tensor:
        return padded(c).sum() > n

    return tinyt.while_loop(more, lambda n, c: (n + 1.0, padded(c)), (tinyt.tensor(0.0), c))


def args() -> tuple[Tensor, Tensor]:
    tinyt.manual_seed(0)
    return tinyt.rand(4), tinyt.randn(3, 4)


def graph_of(function: Any, *given: Any) -> Graph:
    """As it was recorded."""
    compiled = compile(function)
    compiled(*given)
    found: Graph = compiled.entries[0].capture.graph
    return found


def ops(graph: Graph) -> list[list[str]]:
    """Of what each node of control flow runs."""
    return [
        [node.op for node in part.nodes] for i in range(len(graph.nodes)) for part in graph.parts(i)
    ]


@pytest.mark.parametrize(
    ("function", "after"),
    [
        (by_scan, [["add", "sin", "sin"]]),
        (by_cond, [["sin", "mul"], ["sin"]]),
        (by_loop, [["sin", "sum", "gt"], ["add", "sin"]]),
    ],
)
def test_every_part_is_simplified(function: Any, after: Any) -> None:
    c, xs = args()
    graph = graph_of(function, c, xs)
    recorded = ops(graph)
    assert all("cat" in names and "exp" in names for names in recorded)
    simpler = simplify(graph)
    assert ops(simpler) == after
    assert ops(graph) == recorded
    assert ops(Graph.from_core(simpler.to_core())) == after
    assert bits(interpret(simpler, [c, xs])) == bits(interpret(graph, [c, xs]))
    is_same(function, (c, xs), (-c, -xs))


def test_parts_of_parts_and_of_gradients() -> None:
    def run(c: Tensor, xs: Tensor) -> Any:
        def step(c: Tensor, x: Tensor) -> Any:
            h = tinyt.cond(x[0] > 0, padded, lambda c: c * 2, (c + x,))
            return h, h.sum()

        c, ys = tinyt.scan(step, c, xs)
        return c.detach(), tinyt.autograd.grad(c.sum() + ys.sum(), [xs])

    c, xs = args()
    graph = simplify(graph_of(run, c, xs.requires_grad_()))
    (_, forward), (_, backward) = (
        ops(part) for i in range(len(graph.nodes)) for part in graph.parts(i)
    )
    assert forward == ["slice", "slice", "cat", "sin"]  # it is kept for the gradient
    assert backward.count("mul") == 2
    assert "cast" not in backward
    is_same(run, (c, xs))


def test_a_simplification_of_ones_own_reaches_inside() -> None:
    c, xs = args()
    handle = rewrite(lambda x: (x * 2.0) * 4.0, lambda x: x * 8.0)
    try:
        graph = graph_of(
            lambda c, xs: tinyt.scan(lambda c, x: ((c * 2.0) * 4.0, c + x), c, xs), c, xs
        )
        assert ops(graph) == [["mul", "mul", "add"]]
        assert ops(simplify(graph)) == [["mul", "add"]]
    finally:
        handle.remove()


def wrong(graph: Graph) -> Graph:
    """Takes every sine for a cosine, within control flow only."""
    nodes = [n._replace(op="cos", origin=-1) if n.op == "sin" else n for n in graph.nodes]
    return graph._replace(nodes=nodes) if nodes != graph.nodes else graph


@pytest.mark.parametrize("function", [by_scan, by_cond, by_loop])
def test_verification_names_a_pass_that_is_wrong_inside(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passes, "PASSES", (*passes.PASSES, ("wrong", wrong)))
    with pytest.raises(VerificationError, match=r"after pass \d+ \(wrong\)"):
        compile(function, verify=True)(*args())


def test_a_part_cannot_become_another_function() -> None:
    c, xs = args()
    graph = graph_of(by_scan, c, xs)
    ((at, (part,)),) = graph.inside.items()
    flat: list[bytes] = []

    class Spy:
        def rewritten(self, words: bytes, *_: Any) -> None:
            flat.append(words)

    graph._replace(core=Spy()).to_core()  # type: ignore[arg-type]
    other = graph_of(by_cond, c, xs)
    ((_, branches),) = other.inside.items()
    with pytest.raises(RuntimeError, match="other arguments or results"):
        graph.core.rewritten(flat[-1], [], [(at, [branches[0].core])])
    with pytest.raises(RuntimeError, match="does not run 2 recordings"):
        graph.core.rewritten(flat[-1], [], [(at, [part.core, part.core])])
    add = next(i for i, node in enumerate(graph.nodes) if i != at)
    with pytest.raises(RuntimeError, match="does not run 1 recordings"):
        graph.core.rewritten(flat[-1], [], [(add, [part.core])])
    assert graph.core.rewritten(flat[-1], [], [(at, [part.core])]).nodes()
