"""Fused rows that programs have no kernel for, as on a device that brings few: the pass that puts
what they are made of in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
from fused_samples import CALLS
from sampling import flat
from tinyt import decompositions, nn
from tinyt.compiler.capture.recording import record
from tinyt.compiler.passes import decompose
from tinyt.tensor import prim

FUSED = frozenset(decompositions.table())
F = nn.functional


@pytest.fixture(autouse=True)
def _without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompose, "lacking", lambda device: dict.fromkeys(FUSED, -1))


def test_programs_of_the_cpu_have_all_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert not decompose.lacking(0)


def ops_of(f: Any, *args: Any) -> set[str]:
    return {node.op for node in decompose.run(record(f, *args).graph).nodes}


def with_tensors(value: Any, given: Iterator[tinyt.Tensor]) -> Any:
    """Arguments with other tensors in them."""
    if isinstance(value, tuple):
        return tuple(with_tensors(x, given) for x in value)
    return next(given) if isinstance(value, tinyt.Tensor) else value


@pytest.mark.parametrize("shape", [(3, 7), (2, 5, 6), (0, 3)])
@pytest.mark.parametrize("name", sorted(FUSED))
def test_every_fused_row(name: str, shape: tuple[int, ...], rng: Any) -> None:
    data = tinyt.tensor(rng.standard_normal(shape) * 4)
    for args in CALLS[name](data, rng):
        tensors = [a for a in flat(args) if isinstance(a, tinyt.Tensor)]

        def call(*given: tinyt.Tensor, args: Any = args) -> Any:
            return getattr(prim, name)(*with_tensors(args, iter(given)))

        assert not ops_of(call, *tensors) & FUSED
        for got, want in zip(
            flat(tinyt.compile(call)(*tensors)), flat(call(*tensors)), strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_operands_of_several_dtypes() -> None:
    x, target = tinyt.randn(4).half(), tinyt.rand(4)
    compiled = tinyt.compile(lambda x, t: prim.sigmoid_nll(x, t))
    assert compiled(x, target).dtype == tinyt.float32
    np.testing.assert_allclose(compiled(x, target), prim.sigmoid_nll(x, target), rtol=1e-6)
    slope = tinyt.compile(lambda x: F.leaky_relu(x, 0.3))
    np.testing.assert_array_equal(slope(x), F.leaky_relu(x, 0.3))


def test_a_result_is_no_operand() -> None:
    """Nothing to sum over: the decomposition gives a copy of the operand's memory, not itself."""
    x = tinyt.randn(3, 1)
    compiled = tinyt.compile(lambda x: prim.linear(x, tinyt.ones(1, 1), tinyt.tensor(0.0)))
    got = compiled(x)
    x.zero_()
    assert bool((got != 0).all())


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_training_step(dynamic: bool) -> None:
    def train(wrap: Callable[..., Any]) -> list[float]:
        tinyt.manual_seed(3)
        layers = nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)
        model = nn.Sequential(*layers)
        optimizer = tinyt.optim.AdamW(model.parameters(), lr=0.05)

        def step(x: tinyt.Tensor, y: tinyt.Tensor) -> tinyt.Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        sizes = (10, 10, 4, 7, 10)
        return [run(tinyt.randn(n, 6), tinyt.arange(n) % 3).item() for n in sizes]

    got = train(lambda step: tinyt.compile(step, dynamic=dynamic))
    np.testing.assert_allclose(got, train(lambda step: step), rtol=1e-4)


def test_a_result_with_a_tape() -> None:
    """A program in two parts, forward and backward."""
    x = tinyt.randn(5, 6).requires_grad_()
    norm = nn.LayerNorm(6)
    compiled = tinyt.compile(lambda x: F.silu(norm(x)).softmax(-1))
    weights = tinyt.randn(5, 6)
    (compiled(x) * weights).sum().backward()
    got, x.grad = x.grad, None
    (F.silu(norm(x)).softmax(-1) * weights).sum().backward()
    np.testing.assert_allclose(got, x.grad, rtol=1e-4, atol=1e-6)


def test_control_flow() -> None:
    def body(c: tinyt.Tensor, x: tinyt.Tensor) -> tuple[tinyt.Tensor, tinyt.Tensor]:
        c = F.gelu(c + x)
        return c, c.softmax(0)

    xs = tinyt.randn(4, 3)
    compiled = tinyt.compile(lambda xs: tinyt.scan(body, tinyt.zeros(3), xs))
    for got, want in zip(compiled(xs), tinyt.scan(body, tinyt.zeros(3), xs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
