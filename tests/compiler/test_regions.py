"""Regions: elementwise operations that run together, part by part, over any loops, and reductions
that end them; the bits are eager's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import tinyt
from tinyt import Tensor

UNARY: Sequence[Callable[[Tensor], Tensor]] = (
    tinyt.exp,
    tinyt.tanh,
    tinyt.abs,
    tinyt.neg,
    lambda x: x * 0.5,
    lambda x: tinyt.where(x > 0, x, x - 1.0),
)
BINARY: Sequence[Callable[[Tensor, Tensor], Tensor]] = (tinyt.add, tinyt.mul, tinyt.minimum)
REDUCTIONS = ("sum", "prod", "amax", "amin")


def check(function: Callable[..., Any], *args: Tensor) -> None:
    want = function(*args)
    compiled = tinyt.compile(function)
    for threads in (1, 2):
        with tinyt.num_threads(threads):
            for _ in range(3):
                got = compiled(*args)
    assert got.dtype is want.dtype
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want.numpy())


@st.composite
def operands(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two that broadcast, of any strides."""
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 7, 40, 130]), min_size=0, max_size=4))
    found = []
    for _ in range(2):
        own = [n if draw(st.booleans()) else 1 for n in shape]
        steps = [draw(st.sampled_from([1, 1, 2])) for _ in own]
        memory = tinyt.linspace(
            -2, 2, int(np.prod([n * s for n, s in zip(own, steps, strict=True)] or [1]))
        )
        x = memory.reshape([n * s for n, s in zip(own, steps, strict=True)])
        for d, s in enumerate(steps):
            x = x.narrow(d, 0, own[d]) if s == 1 else x.unflatten(d, (own[d], s)).select(d + 1, 0)
        order = draw(st.permutations(range(len(own))))
        back = [order.index(d) for d in range(len(own))]
        if draw(st.booleans()):  # the same tensor, its memory in another order
            x = x.permute(order).contiguous().permute(back)
        found.append(x)
    return found[0], found[1]


@given(operands(), st.data())
def test_chains(pair: tuple[Tensor, Tensor], data: st.DataObject) -> None:
    length = data.draw(st.integers(2, 6))
    steps = [data.draw(st.sampled_from([*UNARY, *BINARY])) for _ in range(length)]
    ending = data.draw(st.sampled_from(["", *REDUCTIONS]))
    dims = data.draw(st.integers(1, 2))

    def function(x: Tensor, y: Tensor) -> Tensor:
        x = x + y
        for step in steps:
            x = step(x, y) if step in BINARY else step(x)  # type: ignore[call-arg]
        if not ending or x.dim() < dims:
            return x
        if ending == "prod":
            return x.flatten(-dims).prod(-1)
        result: Tensor = getattr(x, ending)(tuple(range(-dims, 0)))
        return result

    check(function, *pair)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("cols", [1, 31, 33, 1023, 1025, 4095, 4096, 4097, 9000, 33000])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_rows_of_all_lengths(name: str, cols: int, dtype: str) -> None:
    """In blocks, and blocks in a tree, as eager reduces them."""
    x = tinyt.linspace(-1, 1, 3 * cols).reshape(3, cols)
    x = (1 + x * 1e-3 if name == "prod" else x * 1e3).to(getattr(tinyt, dtype))
    check(lambda x: getattr(x * x, name)(-1), x)


def test_one_value_a_channel() -> None:
    """No operand is copied to the region's shape."""

    def function(x: Tensor, bias: Tensor) -> Tensor:
        return tinyt.relu(x * 2.0 + bias.reshape(5, 1, 1))

    x, bias = tinyt.randn(3, 5, 4, 6), tinyt.randn(5)
    check(function, x, bias)
    compiled = tinyt.compile(function)
    compiled(x, bias)
    program = tinyt._core.Program(compiled.entries[0].capture.core)
    assert program.steps() == [("mul", "add", "relu")]
    assert program.arena_bytes == 0


def test_results_past_the_caches() -> None:
    x = tinyt.linspace(-3, 3, 11_000_000)
    check(lambda x: tinyt.tanh(x * 0.5) + x, x)


def test_a_result_takes_its_operands_place() -> None:
    """As a temporary of eager's does: a chain of products needs memory for two."""

    def function(x: Tensor) -> Tensor:
        for _ in range(4):
            x = tinyt.relu(x @ x) + 1.0
        return x

    x = tinyt.randn(64, 64) * 0.01
    check(function, x)
    compiled = tinyt.compile(function)
    compiled(x)
    program = tinyt._core.Program(compiled.entries[0].capture.core)
    assert program.arena_bytes <= 2 * 64 * 64 * 4
