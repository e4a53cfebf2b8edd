"""Backward with inputs: only what is asked for is computed, and only its hooks run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt import _autograd, autograd
from tinyt.compiler import record


def leaf(*values: float) -> Any:
    return tinyt.tensor(values, requires_grad=True)


def kernels(function: Callable[[], Any]) -> list[str]:
    """The names of the operations that a function calls."""
    return sorted(node.op for node in record(function).graph.nodes)


class Counted(autograd.Function):
    """The identity; counts its backward passes."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        Counted.calls += 1
        return g


def counted(function: Callable[[], Any]) -> int:
    before = Counted.calls
    function()
    return Counted.calls - before


# ------------------------------------------------------------------ which nodes run


def test_function_on_the_way_to_another_input_does_not_run() -> None:
    x, y = leaf(2.0), leaf(3.0)
    z = (Counted.apply(x) * y).sum()
    assert counted(lambda: autograd.grad(z, y, retain_graph=True)) == 0
    assert counted(lambda: z.backward(inputs=[y], retain_graph=True)) == 0
    assert counted(lambda: autograd.grad(z, x, retain_graph=True)) == 1
    assert counted(lambda: autograd.grad(z, [x, y], retain_graph=True)) == 1
    assert counted(z.backward) == 1
    assert (x.grad.tolist(), y.grad.tolist()) == ([3.0], [4.0])


def test_function_below_an_inner_input_does_not_run() -> None:
    x = leaf(2.0)
    h = Counted.apply(x)
    z = (h * h).sum()
    assert counted(lambda: autograd.grad(z, h, retain_graph=True)) == 0
    assert counted(lambda: z.backward(inputs=[h], retain_graph=True)) == 0
    assert h.grad.tolist() == [4.0]
    assert counted(lambda: autograd.grad(z, [h, x])) == 1


def test_output_that_leads_to_no_input_does_not_run() -> None:
    x, y = leaf(2.0), leaf(3.0)
    u, v = Counted.apply(x).sum(), y.exp().sum()
    assert counted(lambda: autograd.grad([u, v], y)) == 0
    assert counted(u.backward) == 1


def test_function_with_two_ways_runs_once() -> None:
    x, y = leaf(2.0), leaf(3.0)
    h = Counted.apply(x * y)
    (g,) = autograd.grad((h * h + h.exp() * 0).sum(), y, retain_graph=True)
    assert g.tolist() == [2 * 6.0 * 2.0]
    assert counted(lambda: autograd.grad((h + h * h).sum(), y)) == 1


def test_what_did_not_run_is_not_freed() -> None:
    x = leaf(1.0)
    h = x.exp()
    autograd.grad((h * h).sum(), h)
    (g,) = autograd.grad(h.sum(), x)
    np.testing.assert_allclose(g.numpy(), np.exp([1.0]), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"second time \(at exp\)"):
        autograd.grad(h.sum(), x)


def test_long_graph() -> None:
    x, y = leaf(1.0), leaf(1.0)
    z = y * 1
    for _ in range(20_000):
        z = z + x
    (g,) = autograd.grad(z.sum(), y)
    assert g.tolist() == [1.0]
    assert x.grad is None


# ------------------------------------------------------------------ which kernels run


def test_product_computes_the_operand_asked_for() -> None:
    a = tinyt.ones(3, 4, requires_grad=True)
    b = tinyt.ones(4, 5, requires_grad=True)
    z, g = a @ b, tinyt.ones(3, 5)
    one = kernels(lambda: autograd.grad(z, b, g, retain_graph=True))
    both = kernels(lambda: autograd.grad(z, [a, b], g, retain_graph=True))
    assert (one.count("matmul"), both.count("matmul")) == (1, 2)


def test_convolution_computes_the_operand_asked_for() -> None:
    x = tinyt.ones(1, 1, 5, 5, requires_grad=True)
    w = tinyt.ones(1, 1, 3, 3, requires_grad=True)
    z, g = F.conv2d(x, w), tinyt.ones(1, 1, 3, 3)
    names = kernels(lambda: autograd.grad(z, w, g, retain_graph=True))
    assert "conv_backward_weight" in names
    assert "conv_backward_input" not in names


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("norm", ["layer", "group", "batch"])
@pytest.mark.parametrize("space", [(), (5,), (40,)])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_norms_compute_what_is_asked_for(
    norm: str, space: tuple[int, ...], which: int, create_graph: bool
) -> None:
    tinyt.manual_seed(0)
    shape = (6, *space, 4) if norm == "layer" else (6, 4, *space)
    x = tinyt.randn(*shape, requires_grad=True)
    w, b = tinyt.rand(4, requires_grad=True), tinyt.rand(4, requires_grad=True)
    if norm == "layer":
        z = F.layer_norm(x, (4,), w, b)
    elif norm == "group":
        z = F.group_norm(x, 2, w, b)
    else:
        z = F.batch_norm(x, None, None, w, b, training=True)
    g = tinyt.randn(*shape)
    inputs = (x, w, b)
    every = autograd.grad(z, inputs, g, retain_graph=True, create_graph=create_graph)
    (one,) = autograd.grad(z, inputs[which], g, retain_graph=True, create_graph=create_graph)
    assert one.tolist() == every[which].tolist()
    graph = record(
        lambda: autograd.grad(z, inputs[which], g, retain_graph=True, create_graph=create_graph)
    ).graph
    fused = [node for node in graph.nodes if node.op == f"{norm}_norm_backward"]
    if create_graph or (norm == "layer" and which == 2):  # a sum of g
        assert not fused
    else:
        (node,) = fused
        assert (graph.values[node.outputs[0]].shape == shape) == (which == 0)


def test_cat_cuts_the_piece_asked_for() -> None:
    parts = [tinyt.ones(n, requires_grad=True) for n in (1, 2, 3)]
    z = tinyt.cat(parts)
    names = kernels(lambda: autograd.grad(z, parts[1], tinyt.ones(6), retain_graph=True))
    assert names.count("slice") == 1


def test_early_layers_are_left_out() -> None:
    layers = [tinyt.nn.Linear(3, 3) for _ in range(6)]
    h = tinyt.ones(2, 3)
    for layer in layers:
        h = layer(h).tanh()
    z = h.sum()
    last = kernels(lambda: autograd.grad(z, layers[-1].weight, retain_graph=True))
    first = kernels(lambda: autograd.grad(z, layers[0].weight, retain_graph=True))
    assert last.count("matmul") == 1
    assert first.count("matmul") == 6


# ------------------------------------------------------------------ hooks


def test_hooks_run_where_a_gradient_was_needed() -> None:
    x, y = leaf(1.0), leaf(1.0)
    seen: list[str] = []
    h = x * 2
    for name, t in (("x", x), ("y", y), ("h", h)):
        t.register_hook(lambda g, name=name: seen.append(name))
    z = (h * y).sum()
    for inputs, want in (((y,), ["y"]), ((h,), ["h"]), ((x,), ["h", "x"]), ((h, x), ["h", "x"])):
        seen.clear()
        autograd.grad(z, inputs, retain_graph=True)
        assert seen == want
        seen.clear()
        z.backward(inputs=inputs, retain_graph=True)
        assert seen == want


def test_an_inner_input_gets_what_its_hooks_made() -> None:
    x = leaf(1.0)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    z = h.sum()
    assert [g.tolist() for g in autograd.grad(z, [h], retain_graph=True)] == [[10.0]]
    assert [g.tolist() for g in autograd.grad(z, [h, x])] == [[10.0], [20.0]]


def test_post_accumulate_hooks_of_the_inputs_only() -> None:
    x, y = leaf(1.0), leaf(1.0)
    seen: list[str] = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append("x"))
    y.register_post_accumulate_grad_hook(lambda t: seen.append("y"))
    z = (x * y).sum()
    autograd.grad(z, [x, y], retain_graph=True)
    assert seen == []
    z.backward(inputs=[y])
    assert seen == ["y"]


def test_backward_into_an_inner_tensor_makes_it_keep_gradients() -> None:
    x = leaf(1.0)
    h = x * 2
    z = h.sum()
    z.backward(inputs=[h, h], retain_graph=True)
    assert h.retains_grad
    assert h.grad.tolist() == [1.0]
    assert x.grad is None
    z.backward(inputs=[h], retain_graph=True)
    z.backward(retain_graph=True)
    assert h.grad.tolist() == [3.0]
    autograd.grad(z, [h])
    assert h.grad.tolist() == [4.0]


def test_kept_gradient_is_what_the_hooks_made() -> None:
    x = leaf(1.0)
    h = x * 2
    h.retain_grad()
    handle = h.register_hook(lambda g: g * 10)
    z = h.sum()
    z.backward(retain_graph=True)
    assert (h.grad.tolist(), x.grad.tolist()) == ([10.0], [20.0])
    handle.remove()
    z.backward()
    assert (h.grad.tolist(), x.grad.tolist()) == ([11.0], [22.0])


def test_kept_gradients_own_their_memory() -> None:
    x = leaf(1.0, 2.0)
    a = x * 1
    b = a + 0
    a.retain_grad()
    b.retain_grad()
    b.backward(tinyt.ones(2))
    b.grad.zero_()
    assert (a.grad.tolist(), x.grad.tolist()) == ([1.0, 1.0], [1.0, 1.0])


def test_needs_input_grad_is_that_of_the_call() -> None:
    seen = []

    class Both(autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any, c: Any) -> Any:
            return a + b + c

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            return g, g, None

    x, y = leaf(1.0), leaf(2.0)
    z = Both.apply(x, y, 1.0).sum()
    autograd.grad(z, x)
    assert seen == [(True, True, False)]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("leaves", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_norms_where_some_operands_have_no_gradient(
    norm: str, leaves: tuple[int, ...], create_graph: bool
) -> None:
    """What is not differentiated is not saved, so the rule must not read it."""
    tinyt.manual_seed(0)
    values = (tinyt.randn(6, 4), tinyt.rand(4), tinyt.rand(4))
    g = tinyt.randn(6, 4)

    def gradients(operands: list[Any], wanted: list[Any]) -> list[Any]:
        x, w, b = operands
        if norm == "layer":
            z = F.layer_norm(x, (4,), w, b)
        else:
            z = F.batch_norm(x, None, None, w, b, training=True)
        return [y.tolist() for y in autograd.grad(z, wanted, g, create_graph=create_graph)]

    every = [v.clone().requires_grad_() for v in values]
    some = [v.clone().requires_grad_(i in leaves) for i, v in enumerate(values)]
    expected = gradients(every, every)
    assert gradients(some, [some[i] for i in leaves]) == [expected[i] for i in leaves]


def stale(a: Any) -> Any:
    """Half of a tensor that is written to after: elements ``a[:2] * 2``."""
    whole = a * 1
    view = whole[:2]
    whole.mul_(2)
    return view


def fresh(a: Any) -> Any:
    """The elements of ``stale``, of no view."""
    return tinyt.stack([a[0] * 2, a[1] * 2])


def written(b: Any, change: Callable[[Any], Any]) -> Any:
    out = b * 1
    change(out)
    return out


def zeros_joined(b: Any, v: Any) -> Any:
    return _autograd.zero_gradient(b * b, v) + v


class Product(autograd.Function):
    """b * v, each input's gradient from the other."""

    @staticmethod
    def forward(ctx: Any, b: Any, v: Any) -> Any:
        ctx.save_for_backward(b, v)
        return b * v

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        b, v = ctx.saved_tensors
        return g * v, g * b


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "mul": lambda b, v: b * v,
    "sub": lambda b, v: b - v,
    "div": lambda b, v: b / v,
    "pow": lambda b, v: b**v,
    "matmul": lambda b, v: b @ v,
    "cat": lambda b, v: tinyt.cat([b, v]) ** 2,
    "stack": lambda b, v: tinyt.stack([b, v]) ** 2,
    "where": lambda b, v: tinyt.where(tinyt.tensor([True, False]), b, v) ** 2,
    "outer": lambda b, v: tinyt.outer(b, v) ** 2,
    "addcmul": lambda b, v: tinyt.addcmul(b, b, v),
    "linear": lambda b, v: F.linear(tinyt.outer(b, b), tinyt.outer(b, b), v) ** 2,
    "layer_norm": lambda b, v: F.layer_norm(b, (2,), b, v) ** 2,
    "mse_loss": lambda b, v: F.mse_loss(b, v),
    "scatter": lambda b, v: b.scatter(0, tinyt.tensor([1]), v) ** 2,
    "index_add_": lambda b, v: (b * 1).index_add_(0, tinyt.tensor([1, 1]), v) ** 2,
    "mul_": lambda b, v: written(b, lambda c: c.mul_(v)) ** 2,
    "add_": lambda b, v: written(b, lambda c: c.add_(v)) ** 2,
    "copy_": lambda b, v: written(b, lambda c: c.copy_(v)) ** 2 + b,
    "setitem": lambda b, v: written(b, lambda c: c.__setitem__(slice(0, 1), v[1:])) ** 2,
    "setitem of a stale view": lambda b, v: written(b, lambda c: c[1:].copy_(v[:1])) ** 2,
    "masked_fill": lambda b, v: b.masked_fill(tinyt.tensor([True, False]), v[0]) ** 2,
    "zero_gradient": zeros_joined,
    "Function": Product.apply,
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_view_whose_base_was_written_to_as_a_later_operand(name: str) -> None:
    """Gradients of chosen inputs and of hooks are those of the same function without views."""

    def run(half: Callable[[Any], Any]) -> Any:
        a = tinyt.tensor([1.5, 0.5, 3.0], requires_grad=True, dtype=tinyt.float64)
        b = tinyt.tensor([0.25, 2.0], requires_grad=True, dtype=tinyt.float64)
        seen: list[Any] = []
        v = half(a)
        z = PAIRS[name](b, v)
        w = v * 3
        loss = (z * z).sum() + (w * w).sum() + (v * w).sum()
        (alone,) = autograd.grad(loss, [a], retain_graph=True)
        v.register_hook(lambda g: seen.append(g.tolist()))
        first = autograd.grad(loss, [a, b], create_graph=True)
        again = autograd.grad(sum((g * g).sum() for g in first), [a, b])
        return [g.tolist() for g in (alone, *first, *again)], seen

    (got, seen), (right, seen_right) = run(stale), run(fresh)
    np.testing.assert_allclose(np.concatenate(got), np.concatenate(right), rtol=1e-12)
    # One call of the hook a pass that reaches it.
    np.testing.assert_allclose(seen, seen_right, rtol=1e-12)


def test_an_input_behind_a_write_to_a_part_of_it() -> None:
    """(W @ h[:2]).sum() + h[:2].sum() with h = x * x and h[2:] = 0: 2 x (W^T 1 + 1) by hand."""
    x, w = leaf(1.0, 2.0, 3.0), tinyt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    h = x * x
    first = h[:2]
    h[2:] = 0
    (got,) = autograd.grad((w @ first).sum() + first.sum(), x)
    assert got.tolist() == [10, 28, 0]
