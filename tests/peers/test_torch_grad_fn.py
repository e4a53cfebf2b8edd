"""`grad_fn`: walks over the graph and hooks on its nodes, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt


def graph(root: Any, params: dict[str, Any]) -> tuple[set[str], set[tuple[str, str]]]:
    """Nodes and edges of a graph as programs that draw it find them: by class, `variable`, `id`."""
    names = {id(p): name for name, p in params.items()}
    labels: dict[int, str] = {}
    edges: set[tuple[int, int]] = set()
    seen: set[Any] = set()

    def visit(fn: Any) -> None:
        if fn in seen:
            return
        seen.add(fn)
        if hasattr(fn, "variable"):
            labels[id(fn)] = names[id(fn.variable)]
        else:
            labels[id(fn)] = type(fn).__name__
        assert fn.name().rpartition("::")[2] in (type(fn).__name__, "AccumulateGrad")
        for below, _ in fn.next_functions:
            if below is not None:
                edges.add((id(below), id(fn)))
                visit(below)

    visit(root.grad_fn)
    seen.clear()  # `visit` refers to itself, and would keep the graph
    return set(labels.values()), {(labels[a], labels[b]) for a, b in edges}


def test_a_drawn_network() -> None:
    found = []
    for tt in (tinyt, torch):
        net = tt.nn.Sequential(tt.nn.Linear(2, 3), tt.nn.Tanh(), tt.nn.Linear(3, 1))
        y = net(tt.ones(4, 2)).exp().sum()
        nodes, edges = graph(y, dict(net.named_parameters()))
        found.append((nodes, edges))
    (ours, our_edges), (theirs, their_edges) = found
    leaves = {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert leaves < ours
    assert leaves < theirs
    for name in ("ExpBackward0", "SumBackward0", "TanhBackward0"):
        assert name in ours & theirs
    assert ("ExpBackward0", "SumBackward0") in our_edges & their_edges
    # A layer is one operation here, and a transposition and a product there.
    assert ("0.bias", "LinearBackward0") in our_edges
    assert ("0.bias", "AddmmBackward0") in their_edges


def run_hooks(tt: Any, make: Callable[[Any, Any, Any, list[Any]], Any]) -> Any:
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    w = tt.tensor([3.0, 4.0], requires_grad=True)
    seen: list[Any] = []
    y = make(tt, x, w, seen)
    if y is not None:
        y.backward()
    grads = [None if p.grad is None else p.grad.tolist() for p in (x, w)]
    return [
        [[None if g is None else g.tolist() for g in grads] for grads in entry] for entry in seen
    ], grads


def post(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w).sum()
    y.grad_fn.next_functions[0][0].register_hook(lambda gi, go: seen.append((gi, go)))
    return y


def post_that_changes(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w).sum()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 10,))
    return y


def before(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w).sum()
    y.grad_fn.register_prehook(lambda go: seen.append((go,)))
    y.grad_fn.register_prehook(lambda go: (go[0] * 3,))
    return y


def of_a_leaf(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w).sum()
    leaf = y.grad_fn.next_functions[0][0].next_functions[0][0]
    assert leaf.variable is x
    leaf.register_hook(lambda gi, go: seen.append((gi, go)))
    leaf.register_prehook(lambda go: (go[0] * 2,))
    return y


def removed(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w).sum()
    node = y.grad_fn.next_functions[0][0]
    leaf = node.next_functions[0][0]
    for owner in (y.grad_fn, node, leaf):
        owner.register_hook(lambda gi, go: seen.append((gi, go))).remove()
        owner.register_prehook(lambda go: seen.append((go,))).remove()
    return y


def of_a_function(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    class Both(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            ctx.kept = 7
            return a * b, a + b

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            a, b = ctx.saved_tensors
            return g * b + h, g * a + h

    a, b = Both.apply(x, w)
    node = a.grad_fn
    assert node is b.grad_fn
    assert type(node).__name__ == node.name() == "BothBackward"
    assert [t.tolist() for t in node.saved_tensors] == [x.tolist(), w.tolist()]
    assert node.kept == 7
    node.register_prehook(lambda go: (go[0] * 2, go[1]))
    node.register_hook(lambda gi, go: seen.append((gi, go)))
    return (a * 3 + b).sum()


def only_one_input(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * w.detach()).sum()
    y.grad_fn.next_functions[0][0].register_hook(lambda gi, go: seen.append((gi, go)))
    return y


def create_graph(tt: Any, x: Any, w: Any, seen: list[Any]) -> Any:
    y = (x * x * w).sum()
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2,))
    (g,) = tt.autograd.grad(y, x, create_graph=True)
    g.sum().backward()


CASES = [
    post,
    post_that_changes,
    before,
    of_a_leaf,
    removed,
    of_a_function,
    only_one_input,
    create_graph,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_hooks(case: Callable[..., Any]) -> None:
    assert run_hooks(tinyt, case) == run_hooks(torch, case)


def test_hooks_in_anomaly_mode() -> None:
    with tinyt.autograd.detect_anomaly():
        ours = run_hooks(tinyt, post_that_changes)
    assert ours == run_hooks(torch, post_that_changes)


def test_hooks_of_the_wrong_kind() -> None:
    x = tinyt.ones(2, requires_grad=True)
    y = (x * 2).sum()
    y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0]))
    with pytest.raises(RuntimeError, match="2 gradients for 1"):
        y.backward()


@pytest.mark.parametrize("tt", [tinyt, torch], ids=["tinyt", "torch"])
def test_metadata_stays_with_the_node(tt: Any) -> None:
    x = tt.ones(2, requires_grad=True)
    y = (x * 2).sum()
    y.grad_fn.metadata["a"] = 1
    y.grad_fn.next_functions[0][0].next_functions[0][0].metadata["b"] = 2
    assert y.grad_fn.metadata == {"a": 1}
    assert y.grad_fn.next_functions[0][0].next_functions[0][0].metadata == {"b": 2}
    assert y.grad_fn is y.grad_fn
    assert isinstance(y.grad_fn, tt.autograd.graph.Node)
    assert not hasattr(y.grad_fn, "variable")
    assert not hasattr(y.grad_fn, "saved_tensors")
    y.backward()
    np.testing.assert_array_equal(x.grad.tolist(), [2, 2])


def test_gradients_are_the_same_beside_a_hook_elsewhere() -> None:
    """A hook on one graph has all passes look for hooks; their bits stay."""

    def gradient() -> list[float]:
        tinyt.manual_seed(0)
        x = tinyt.randn(20, 30, requires_grad=True)
        tinyt.nn.functional.layer_norm((x @ x.t()).softmax(1)[:, 3:], (17,)).pow(3).sum().backward()
        grad: list[float] = x.grad.tolist()
        return grad

    alone = gradient()
    x = tinyt.ones(1, requires_grad=True)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: None)
    assert gradient() == alone
    del y
    assert gradient() == alone
