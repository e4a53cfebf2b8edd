"""Memory that several tensors lie in, or that is written and read under other names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import CaptureError, Tensor, nn, optim
from tinyt.compiler.api import compile

OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9),
    "adamw": lambda p: optim.AdamW(p, 0.1),
    "rmsprop": lambda p: optim.RMSprop(p, 0.1),
    "adagrad": lambda p: optim.Adagrad(p, 0.1),
}


def values(make: Callable[[], tuple[Any, Callable[[], Any]]], calls: int = 6) -> list[list[Any]]:
    """What a step and its compiled form give and leave, call by call."""
    found = []
    for wrap in (lambda step: step, compile):
        step, shown = make()
        step = wrap(step)
        found.append([(step(tinyt.ones(3)), shown()) for _ in range(calls)])
    return found


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_target_network(name: str) -> None:
    """What the optimiser's step has written is copied on."""

    def make() -> tuple[Any, Callable[[], Any]]:
        w = tinyt.tensor([1.0, 2.0, 3.0], requires_grad=True)
        target, table = tinyt.zeros(3), tinyt.zeros(7)
        optimizer = OPTIMIZERS[name]([w])

        def step(x: Tensor) -> None:
            optimizer.zero_grad()
            (w * w * x).sum().backward()
            optimizer.step()
            with tinyt.no_grad():
                target.copy_(w)
                table[1:4] = w
                table[4:].copy_(target * 2)

        return step, lambda: (w.tolist(), target.tolist(), table.tolist())

    eager, compiled = values(make)
    assert compiled == eager


def test_a_module_that_is_loaded_after_a_step() -> None:
    def make() -> tuple[Any, Callable[[], Any]]:
        tinyt.manual_seed(0)
        net, copy = nn.Linear(3, 2), nn.Linear(3, 2)
        optimizer = optim.AdamW(net.parameters(), 0.1)

        def step(x: Tensor) -> None:
            optimizer.zero_grad()
            net(x).square().sum().backward()
            optimizer.step()
            copy.load_state_dict(net.state_dict())

        return step, lambda: [p.tolist() for p in (*net.parameters(), *copy.parameters())]

    eager, compiled = values(make)
    assert compiled == eager


def flat(w: Tensor, v: Tensor) -> Tensor:
    both = tinyt.zeros(6)
    w.grad, v.grad = both[:3], both[3:]
    return both


def one(w: Tensor, v: Tensor) -> Tensor:
    w.grad = v.grad = tinyt.zeros(3)
    return w.grad


def of_a_weight(w: Tensor, v: Tensor) -> Tensor:
    w.grad = w.detach()
    return w.grad


SHARED = [flat, one, of_a_weight]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("share", SHARED)
def test_gradients_that_share_memory(share: Callable[..., Tensor], late: bool) -> None:
    """Refused, from whichever call on they do."""
    w, v = tinyt.ones(3, requires_grad=True), tinyt.ones(3, requires_grad=True)
    memory = tinyt.zeros(6)

    def step(x: Tensor) -> Tensor:
        memory.mul_(0.5)
        (w * x + 3 * v).sum().backward()
        return memory.sum()

    compiled = compile(step)
    if late:
        for _ in range(4):
            compiled(tinyt.ones(3))
    memory = share(w, v)
    with pytest.raises(CaptureError, match="shares memory with another tensor that the function"):
        compiled(tinyt.ones(3))


@pytest.mark.parametrize("late", [False, True])
def test_a_gradient_that_is_an_argument(late: bool) -> None:
    w = tinyt.ones(3, requires_grad=True)

    def step(g: Tensor) -> None:
        g.mul_(0.5)
        (w * 2).sum().backward()

    compiled = compile(step)
    if late:
        for _ in range(4):
            compiled(tinyt.ones(3))
    else:
        w.grad = tinyt.ones(3)
    assert w.grad is not None
    with pytest.raises(CaptureError, match="shares memory with another tensor that the function"):
        compiled(w.grad)


def test_a_gradient_with_a_tape() -> None:
    w = tinyt.ones(3, requires_grad=True)
    compiled = compile(lambda x: (w * x).sum().backward())
    for _ in range(3):
        compiled(tinyt.ones(3))
    w.grad = tinyt.ones(3, requires_grad=True)
    with pytest.raises(CaptureError, match="the tape of a gradient that was there; detach it"):
        compiled(tinyt.ones(3))


def test_results_that_are_views_of_captured_tensors() -> None:
    """Each call has tensors of its own; what is done to them does not stay."""
    w = tinyt.ones(2, 3, requires_grad=True)
    table = tinyt.arange(6.0).reshape(2, 3)

    def step(x: Tensor) -> Any:
        return x * 2, w.detach(), w[0], table.t(), table[1], table, w

    compiled = compile(step)
    for _ in range(5):
        for run in (step, compiled):
            _, d, r, t, row, whole, leaf = run(tinyt.ones(3))
            assert whole is table
            assert leaf is w
            assert [x.data_ptr() for x in (d, r, t)] == [w.data_ptr()] * 2 + [table.data_ptr()]
            assert tuple(d.shape) == (2, 3)
            assert tuple(t.shape) == (3, 2)
            assert (d.requires_grad, row.requires_grad, r.requires_grad) == (False, False, True)
            assert row.tolist() == [3.0, 4.0, 5.0]
            w.grad = None
            (r * 3).sum().backward()
            assert w.grad is not None
            assert w.grad.tolist() == [[3.0] * 3, [0.0] * 3]
            d.t_()
            t.unsqueeze_(0)
            row.requires_grad_()
            row.data = tinyt.zeros(5)


@pytest.mark.parametrize("states", ["ggng", "gngn", "ngng", "gggn"])
def test_gradients_that_come_and_go_with_dynamic_sizes(states: str) -> None:
    w = tinyt.ones(3, requires_grad=True)
    step = compile(lambda x: (x * w).sum().backward(), dynamic=True)
    for rows, state in enumerate(states * 3, 1):
        if state == "n":
            w.grad = None
        before = 0.0 if w.grad is None else w.grad[0].item()
        step(tinyt.ones(rows % 5 + 1, 3))
        assert w.grad is not None
        assert w.grad.tolist() == [before + rows % 5 + 1] * 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + tinyt.full((3,), math.nan),
        lambda x: x.masked_fill(x > 0, math.nan),
        lambda x: x[:0].median(),
        lambda x: tinyt.cond(x[0] > 0, lambda x: x.masked_fill(x > 0, math.nan), Tensor.exp, (x,)),
    ],
)
def test_constants_that_are_nan(function: Callable[[Tensor], Tensor]) -> None:
    compiled = compile(function)
    for _ in range(3):
        assert bool(compiled(tinyt.ones(3)).isnan().all())
    assert compiled.cache_info().currsize == 1


@pytest.mark.parametrize("number", [math.nan, math.inf, 0.0])
def test_numbers_computed_with_nan(number: float) -> None:
    compiled = compile(lambda x, r: x * (r + math.nan))
    for _ in range(3):
        assert bool(compiled(tinyt.ones(3), number).isnan().all())


def test_zeros_of_two_signs() -> None:
    """Two constants, though they are equal."""
    compiled = compile(lambda x: (x / tinyt.full((3,), 0.0), x / tinyt.full((3,), -0.0)))
    for _ in range(3):
        assert [y.tolist() for y in compiled(tinyt.ones(3))] == [[math.inf] * 3, [-math.inf] * 3]
