"""Checkpointed activations: the same gradients, less memory; hooks on what is saved."""

from __future__ import annotations

from typing import Any

import pytest

import tinyt
from tinyt import nn
from tinyt.autograd.graph import saved_tensors_hooks
from tinyt.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def network() -> Any:
    tinyt.manual_seed(3)
    return nn.Sequential(
        nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4), nn.Tanh()
    ).double()


def gradients(call: Any) -> list[Any]:
    """Loss, gradients of parameters and input, and the next random number."""
    net = network()
    x = tinyt.linspace(-1, 1, 12, dtype=tinyt.float64).view(3, 4).requires_grad_()
    tinyt.manual_seed(5)
    loss = (call(net, x) ** 2).sum()
    loss.backward()
    return [
        loss.item(),
        [p.grad.tolist() for p in net.parameters()],
        x.grad.tolist(),
        tinyt.rand(2).tolist(),
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda net, x: checkpoint(net, x),
        lambda net, x: checkpoint(net, x, use_reentrant=False),
        lambda net, x: checkpoint(net, x, use_reentrant=True),
        lambda net, x: checkpoint(lambda y: checkpoint(net, y), x),
        lambda net, x: checkpoint_sequential(net, 2, x),
        lambda net, x: checkpoint_sequential(net, 2, x, use_reentrant=True),
        lambda net, x: checkpoint_sequential(net, 5, x, use_reentrant=False),
    ],
)
def test_same_gradients_as_without(call: Any) -> None:
    assert gradients(call) == gradients(lambda net, x: net(x))


def test_several_outputs_keywords_and_no_gradient_of_the_arguments() -> None:
    w = tinyt.tensor([2.0, 3.0], requires_grad=True)

    def function(x: Any, name: str, *, scale: float) -> Any:
        return x * w * scale, name, (x * w).exp()

    for reentrant in (False, None):
        a, name, b = checkpoint(function, tinyt.ones(2), "n", scale=2.0, use_reentrant=reentrant)
        (g,) = tinyt.autograd.grad(a.sum() + b.sum(), w)
        assert name == "n"
        expected = 2 + tinyt.exp(w.detach())
        assert g.tolist() == expected.tolist()
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"use_reentrant=False, got \['scale'\]"):
        checkpoint(function, x, "n", scale=2.0, use_reentrant=True)


def test_second_derivatives() -> None:
    x = tinyt.tensor([0.3, -0.7], dtype=tinyt.float64, requires_grad=True)
    assert tinyt.autograd.gradgradcheck(lambda t: checkpoint(lambda u: (u * u).exp(), t), (x,))


def test_backward_twice() -> None:
    x = tinyt.ones(2, requires_grad=True)
    runs = []

    def function(t: Any) -> Any:
        runs.append(1)
        return t.exp() * t

    y = checkpoint(function, x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == pytest.approx([4 * 2.7182817] * 2)
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert len(runs) == 2


def test_random_state_is_the_first_run_s_unless_told_otherwise() -> None:
    x = tinyt.ones(1000, requires_grad=True)
    for preserve in (True, False):
        tinyt.manual_seed(1)
        x.grad = None
        y = checkpoint(
            lambda t: nn.functional.dropout(t.exp(), 0.5), x, preserve_rng_state=preserve
        )
        y.sum().backward()
        kept = (y != 0).tolist()
        assert ((x.grad != 0).tolist() == kept) == preserve


def test_memory_of_activations_is_freed() -> None:
    def deep(x: Any) -> Any:
        for _ in range(20):
            x = x.exp().log()
        return x

    def held(call: Any) -> int:
        x = tinyt.ones(1000, requires_grad=True)
        before = tinyt.memory.live_tensors()
        y = call(x)
        count = tinyt.memory.live_tensors() - before
        y.sum().backward()
        return count

    assert held(deep) >= 20
    assert held(lambda x: checkpoint(deep, x)) <= 4


def test_under_no_grad_and_contexts() -> None:
    seen = []

    class Block:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> None:
            seen.append(self.name)

        def __exit__(self, *exc: object) -> None:
            pass

    def contexts() -> Any:
        return Block("first"), Block("second")

    x = tinyt.ones(2, requires_grad=True)
    y = checkpoint(lambda t: t.exp(), x, use_reentrant=False, context_fn=contexts)
    y.sum().backward()
    with tinyt.no_grad():
        assert not checkpoint(lambda t: t.exp(), x, context_fn=contexts).requires_grad
    assert seen == ["first", "second", "first"]


def test_other_tensors_in_the_second_run() -> None:
    x = tinyt.ones(2, requires_grad=True)
    sizes = iter([1, 3, 2, 2, 1, 2])

    def several(t: Any) -> Any:
        for _ in range(next(sizes)):
            t = t.exp()
        return t

    with pytest.raises(CheckpointError, match=r"more tensors.*than the first"):
        checkpoint(several, x).sum().backward()
    checkpoint(several, x).sum().backward()
    y = checkpoint(lambda t: tinyt.ones(next(sizes)) * t[:1].exp(), x)
    with pytest.raises(CheckpointError, match=r"\(1,\).*first run and .*\(2,\)"):
        y.sum().backward()


def test_reentrant_needs_a_gradient() -> None:
    x = tinyt.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad"):
        checkpoint(lambda t: t.detach() * 2, x, use_reentrant=True).sum().backward()


def test_saved_tensors_hooks() -> None:
    packed: list[Any] = []

    def pack(x: Any) -> Any:
        packed.append(x.tolist())
        return x.tolist()

    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    with saved_tensors_hooks(pack, tinyt.tensor):
        y = (x * x).exp()
    assert packed == [[1.0, 2.0], [1.0, 2.0], y.tolist()]
    y.sum().backward()
    assert x.grad.tolist() == (2 * x * y).tolist()
    with saved_tensors_hooks(lambda t: 0, lambda packed: packed):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack must return a Tensor, got int"):
        y.sum().backward()
    with pytest.raises(ZeroDivisionError), saved_tensors_hooks(lambda t: 1 / 0, tinyt.tensor):
        x.exp()
    assert x.exp().requires_grad


@pytest.mark.parametrize("preserve", [True, False])
def test_argument_written_to_before_backward(preserve: bool) -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    h = x * 2
    h += checkpoint(
        lambda a: a.sin() * a.exp(), h, use_reentrant=False, preserve_rng_state=preserve
    )
    with pytest.raises(RuntimeError, match=r"an argument.*is at version 1; expected version 0"):
        h.sum().backward()


def test_argument_in_a_container_written_to_before_backward() -> None:
    h = tinyt.tensor([1.0, 2.0], requires_grad=True) * 2
    y = checkpoint(lambda a, b: a[0].sin() + b["h"].exp(), [h], b={"h": h * 1})
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_a_closure_reads_written_to_before_backward() -> None:
    w = tinyt.tensor([3.0, 4.0])
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    y = checkpoint(lambda a: (a * w).exp(), x)
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"that the function reads.*version 1; expected ver"):
        y.sum().backward()


def test_parameter_updated_before_backward() -> None:
    net = nn.Linear(2, 2)
    y = checkpoint(net, tinyt.ones(1, 2, requires_grad=True))
    with tinyt.no_grad():
        net.weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_buffers_that_the_function_itself_updates_are_no_writes_from_outside() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.ReLU(inplace=True))
    x = tinyt.linspace(-1, 1, 8).view(4, 2).requires_grad_()
    checkpoint(net, x).sum().backward()
    again = x.detach().requires_grad_()
    net(again).sum().backward()
    assert x.grad.tolist() == again.grad.tolist()


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_second_run_that_needs_itself(reentrant: bool) -> None:
    made: list[tinyt.Tensor] = []

    def asks_for_its_own_gradient(x: tinyt.Tensor) -> tinyt.Tensor:
        if made and tinyt.is_grad_enabled():
            made[0].sum().backward(retain_graph=True)
        return (x * x).exp()

    x = tinyt.ones(3, requires_grad=True)
    made.append(checkpoint(asks_for_its_own_gradient, x, use_reentrant=reentrant))
    with pytest.raises(RuntimeError, match="the second run of the function needs itself"):
        made[0].sum().backward(retain_graph=True)
    made.clear()
    made.append(tinyt.ones(3, requires_grad=True))
    y = checkpoint(asks_for_its_own_gradient, x, use_reentrant=reentrant)
    for _ in range(2):
        y.sum().backward(retain_graph=True)


def test_a_tensor_from_outside_is_written_to_and_returned() -> None:
    h = tinyt.zeros(3)
    y = checkpoint(lambda x: h.add_(1), tinyt.ones(1, requires_grad=True), use_reentrant=True)
    with pytest.raises(RuntimeError, match="writes to"):
        y.sum().backward()
    h.detach_()  # which holds the function otherwise, and that it
