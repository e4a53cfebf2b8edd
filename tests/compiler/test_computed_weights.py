"""Weights that hooks and parametrizations compute, in compiled steps: the bits of eager ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
from tinyt import nn
from tinyt.nn.attention import SDPBackend, sdpa_kernel
from tinyt.nn.utils import parametrizations, parametrize


def old_weight_norm(layer: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(layer)


class Symmetric(nn.Module):
    def forward(self, x: tinyt.Tensor) -> tinyt.Tensor:
        return x.triu() + x.triu(1).T


def symmetric(layer: Any) -> Any:
    return parametrize.register_parametrization(layer, "weight", Symmetric())


def householder(layer: Any) -> Any:
    return parametrizations.orthogonal(layer, orthogonal_map="householder")


KINDS: list[Callable[[Any], Any]] = [
    old_weight_norm,
    nn.utils.spectral_norm,
    parametrizations.weight_norm,
    parametrizations.spectral_norm,
    parametrizations.orthogonal,
    householder,
    symmetric,
]


def made(kind: Callable[[Any], Any]) -> tuple[Any, Callable[[tinyt.Tensor], tinyt.Tensor]]:
    tinyt.manual_seed(3)
    net = nn.Sequential(kind(nn.Linear(4, 4)), nn.Tanh(), kind(nn.Linear(4, 4)))
    optimizer = tinyt.optim.Adam(net.parameters(), lr=0.01)

    def step(x: tinyt.Tensor) -> tinyt.Tensor:
        optimizer.zero_grad()
        loss = (net(x) ** 2).mean() - net(x * 0.5).mean()
        loss.backward()
        optimizer.step()
        return loss

    return net, step


def same(a: tinyt.Tensor, b: tinyt.Tensor) -> bool:
    return bool((a.detach().view(tinyt.int32) == b.detach().view(tinyt.int32)).all())


@pytest.mark.parametrize("eager_between", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_training_steps(kind: Callable[[Any], Any], eager_between: bool) -> None:
    (plain, step), (net, other) = made(kind), made(kind)
    compiled = tinyt.compile(other)
    for i in range(5):
        x = tinyt.randn(6, 4)
        assert same(compiled(x), step(x))
        for name, value in plain.state_dict().items():
            assert same(net.state_dict()[name], value), name
        # What hooks left there, too.
        assert same(net.eval()[0].weight, plain.eval()[0].weight)
        if eager_between and i % 2:
            assert same(net(x), plain(x))
        net.train(), plain.train()
    if not eager_between:
        assert compiled.explain().count("\n") <= 1


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_evaluation(kind: Callable[[Any], Any]) -> None:
    net, _ = made(kind)
    net.eval()
    compiled = tinyt.compile(net)
    for _ in range(3):
        x = tinyt.randn(6, 4)
        with tinyt.no_grad():
            assert same(compiled(x), net(x))


def test_cached_parametrizations() -> None:
    layer = parametrizations.weight_norm(nn.Linear(3, 3))

    def recurrent(x: tinyt.Tensor) -> tinyt.Tensor:
        with parametrize.cached():
            for _ in range(3):
                x = layer(x).tanh()
        return x

    compiled, x = tinyt.compile(recurrent), tinyt.randn(2, 3)
    for _ in range(3):
        assert same(compiled(x), recurrent(x))
    assert not parametrize._cache.values


def test_functional_call() -> None:
    layer = nn.Linear(3, 3)

    def call(weight: tinyt.Tensor, x: tinyt.Tensor) -> tinyt.Tensor:
        return nn.utils.stateless.functional_call(layer, {"weight": weight}, (x,)).sum()

    compiled = tinyt.compile(call)
    for _ in range(3):
        weight, x = tinyt.randn(3, 3), tinyt.randn(2, 3)
        assert same(compiled(weight, x), call(weight, x))


def test_kernels_of_attention() -> None:
    def attend(x: tinyt.Tensor) -> tinyt.Tensor:
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
            inside = nn.functional.scaled_dot_product_attention(x, x, x)
        with tinyt.backends.cuda.sdp_kernel(enable_math=False):
            return inside + nn.functional.scaled_dot_product_attention(x, x, x)

    compiled, x = tinyt.compile(attend), tinyt.randn(1, 2, 5, 4)
    for _ in range(3):
        assert same(compiled(x), attend(x))
    assert tinyt.backends.cuda.math_sdp_enabled()


def test_fill_diagonal() -> None:
    def filled(x: tinyt.Tensor, value: float) -> tinyt.Tensor:
        y = x * 2
        y.fill_diagonal_(value)
        y.t().fill_diagonal_(1.0, wrap=True)
        return y

    compiled = tinyt.compile(filled)
    for value in (1.0, 2.5, -3.0):
        x = tinyt.randn(3, 7)
        assert same(compiled(x, value), filled(x, value))
