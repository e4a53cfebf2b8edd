"""Memory that a function writes: its last value is made there, without a copy, where nothing that
comes after can fail and nobody reads what was there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from flow import bits
from tinyt import Tensor, nn
from tinyt.compiler.api import compile


def kinds(compiled: Any) -> list[list[str]]:
    """The operations of each step."""
    return [list(step) for step in compiled.entries[0].program_object.steps()]


def steps_as_eager(function: Callable[..., Any], make: Callable[[], tuple[Tensor, ...]]) -> Any:
    """Four calls, each on what the last left, with one thread and two; the compiled function."""
    tinyt.manual_seed(3)
    seen = []
    for run in (function, compiled := compile(function)):
        for threads in (1, 2):
            with tinyt.num_threads(threads):
                tinyt.manual_seed(5)
                args = make()
                for _ in range(4):
                    seen.append((bits(run(*args)), [bits(x) for x in args]))
    assert seen[: len(seen) // 2] == seen[len(seen) // 2 :]
    return compiled


def average(x: Tensor, y: Tensor) -> None:
    x.mul_(0.9).add_(y, alpha=0.1)


def chain(x: Tensor, y: Tensor) -> Tensor:
    x.add_(y)
    y.add_(x)
    return x


def swap(x: Tensor, y: Tensor) -> None:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


def handed_on(x: Tensor, y: Tensor) -> None:
    y.copy_(x)
    x.mul_(2.0)


def crossed(x: Tensor, y: Tensor) -> None:
    a, b = x * 2.0 + y, y * 3.0 - x
    x.copy_(a)
    y.copy_(b)


def same_value(x: Tensor, y: Tensor) -> None:
    z = (x + y).sin()
    x.copy_(z)
    y.copy_(z)


def shifted(x: Tensor, y: Tensor) -> None:
    x[1:] += y[:-1]
    y[:-1] += x[1:]


def within(x: Tensor, y: Tensor) -> None:
    x.copy_(x.roll(1, 0) + x.flip(1))
    y.t().add_(x)


def turned(x: Tensor, y: Tensor) -> None:
    x.copy_(x.t() * 2.0)
    y.copy_((y + x).t())


def parts(x: Tensor, y: Tensor) -> None:
    z = x.sin()
    z[:2] = y[:2]
    x.copy_(z)
    y.copy_(tinyt.cat([z[1:], z[:1]]))


def reads(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2.0)
    return y * 3.0


def before(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    old = x.exp()
    x.mul_(y)
    return old, x.sum(1), x.clone()


def by_rows(x: Tensor, y: Tensor) -> None:
    x.copy_((x - x.mean(-1, keepdim=True)).exp() * y)
    y.div_(y.sum(0) + 10.0)


def by_products(x: Tensor, y: Tensor) -> None:
    x.copy_((x @ y + 1.0).tanh())
    y.copy_(y @ y)
    y.add_(x)


def casts(x: Tensor, y: Tensor) -> None:
    x.copy_((x.double() * 2.0).sin())
    y.copy_(x.bfloat16() + 1.0)


FUNCTIONS = (
    average,
    chain,
    swap,
    handed_on,
    crossed,
    same_value,
    shifted,
    within,
    turned,
    parts,
    reads,
    before,
    by_rows,
    by_products,
    casts,
)


@pytest.mark.parametrize("n", [0, 1, 6, 300])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: str(function.__name__))
def test_bits_are_those_of_eager(function: Callable[..., Any], n: int) -> None:
    steps_as_eager(function, lambda: (tinyt.randn(n, n) * 0.1, tinyt.randn(n, n) * 0.1))
    together = tinyt.randn(2 * n, n)
    steps_as_eager(function, lambda: (together[:n] * 0.1, together[n:] * 0.1))


@pytest.mark.parametrize("function", [reads, crossed, same_value, turned])
def test_arguments_that_lie_in_one_piece_of_memory(function: Callable[..., Any]) -> None:
    def overlapping() -> tuple[Tensor, ...]:
        memory = tinyt.randn(9, 8) * 0.1
        return memory[:8], memory[1:]

    def one() -> tuple[Tensor, ...]:
        memory = tinyt.randn(8, 8) * 0.1
        return memory, memory

    def parts() -> tuple[Tensor, ...]:
        memory = tinyt.randn(8, 16) * 0.1
        return memory[:, :8], memory[:, 8:]

    for make in (overlapping, one, parts):
        steps_as_eager(function, make)


@pytest.mark.tiles
def test_an_average_needs_no_memory() -> None:
    net = nn.Linear(70, 50)
    averages = nn.Linear(70, 50), nn.Linear(70, 50)
    averages[1].load_state_dict(averages[0].state_dict())

    def function(average: nn.Module, decay: float) -> None:
        with tinyt.no_grad():
            for x, y in zip(average.parameters(), net.parameters(), strict=True):
                x.mul_(decay).add_(y, alpha=1 - decay)

    compiled = compile(function)
    for decay in (0.9, 0.75, 0.5, 0.25):
        function(averages[0], decay)
        compiled(averages[1], decay)
    assert bits(list(averages[0].parameters())) == bits(list(averages[1].parameters()))
    assert kinds(compiled)[-3:] == [["copy"], ["mul", "addcmul"], ["mul", "addcmul"]]  # of numbers
    assert compiled.peak_bytes == 0


@pytest.mark.tiles
def test_steps_by_hand_write_parameters_at_once() -> None:
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def step(x: Tensor) -> Tensor:
        loss = net(x).square().mean()
        loss.backward()
        with tinyt.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss.detach()

    compiled = compile(step)
    x = tinyt.randn(32, 8)
    for _ in range(3):
        compiled(x)
    assert kinds(compiled)[-4:] == [["mul", "sub"]] * 4


def test_a_failure_leaves_what_was_there() -> None:
    """A step may fail, or find no memory: what is written comes after."""

    def function(x: Tensor, table: Tensor, index: Tensor) -> Tensor:
        x.mul_(2.0)
        return table[index].sum()

    compiled = compile(function)
    x, table = tinyt.ones(5), tinyt.ones(4, 3)
    for _ in range(3):
        compiled(x, table, tinyt.tensor([0, 3]))
    assert x.tolist() == [8.0] * 5
    with pytest.raises(IndexError):
        compiled(x, table, tinyt.tensor([0, 4]))
    assert x.tolist() == [8.0] * 5
    assert x._version == 3


@pytest.mark.host
def test_memory_that_is_not_there_leaves_what_was_there() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        x.mul_(2.0)
        return y.sin().cumsum(0)

    compiled = compile(function)
    x, y = tinyt.ones(5), tinyt.ones(1 << 20)
    for _ in range(3):
        compiled(x, y)
    tinyt.memory.empty_cache()
    limit = tinyt.memory.limit()
    tinyt.memory.set_limit(tinyt.memory.statistics()["current_bytes"] + (1 << 20))
    try:
        with pytest.raises(tinyt.OutOfMemoryError):
            compiled(x, y)
    finally:
        tinyt.memory.set_limit(limit)
    assert x.tolist() == [8.0] * 5


@pytest.mark.filterwarnings("ignore:compile. .*runs as written")
def test_memory_of_others_that_overlaps() -> None:
    def function(x: Tensor, y: Tensor) -> None:
        x.copy_(y * 2.0 + 1.0)

    compiled = compile(function)
    for apart in (True, True, True, False, False, True):
        seen = []
        for run in (function, compiled):
            memory = np.arange(40, dtype=np.float32)
            x, y = memory[:16], memory[20:36] if apart else memory[1:17]
            run(tinyt.from_numpy(x), tinyt.from_numpy(y))
            seen.append(memory.tolist())
        assert seen[0] == seen[1]


@pytest.mark.host
def test_memory_of_others() -> None:
    array = np.ones((4, 4), np.float32)
    x = tinyt.from_numpy(array)

    @compile
    def function(y: Tensor) -> None:
        x.mul_(2.0).add_(y)

    for _ in range(3):
        function(tinyt.ones(4, 4))
    assert kinds(function) == [["mul", "add"]]
    assert (array == 15.0).all()


@pytest.mark.parametrize("wrap", [compile, lambda function: tinyt.lazy()(function)])
def test_a_value_larger_than_what_is_written_is_not_made_there(wrap: Any) -> None:
    """It would be written beyond the end: `room` is what lies behind."""

    def first_row(x: Tensor, y: Tensor) -> None:
        y.copy_((x.exp() + 1.0)[:1])

    def zeroed(x: Tensor, y: Tensor) -> None:
        x.zero_()
        y.copy_(x.flatten()[:64].reshape(1, 64))

    for function in (first_row, zeroed):
        x, room = tinyt.randn(3, 64), tinyt.zeros(3, 64)
        run = wrap(function)
        for _ in range(4):
            run(x, room[:1])
        assert bits(room[:1]) == bits((x.exp() + 1.0)[:1] if function is first_row else x[:1])
        assert bits(room[1:]) == bits(tinyt.zeros(2, 64))
