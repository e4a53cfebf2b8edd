"""Python threads and forked processes beside the pool of kernels."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tinyt
import tinyt.nn.functional as F
from tinyt import nn, optim


@pytest.fixture(autouse=True)
def three_threads() -> None:
    tinyt.set_num_threads(3)


def trained(model: nn.Module, x: Any, target: Any) -> list[Any]:
    """The parameters after some steps."""
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(8):
        optimizer.zero_grad()
        F.cross_entropy(model(x), target).backward()
        optimizer.step()
    return [p.tolist() for p in model.parameters()]


def perceptron() -> list[Any]:
    generator = tinyt.Generator().manual_seed(1)
    model = nn.Sequential(nn.Linear(200, 300), nn.GELU(), nn.LayerNorm(300), nn.Linear(300, 10))
    return trained(reset(model, generator), *data(generator, 256, 200))


def convolutions() -> list[Any]:
    generator = tinyt.Generator().manual_seed(2)
    layers = nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
    model = nn.Sequential(*layers, nn.Conv2d(32, 32, 3), nn.Flatten(), nn.Linear(32 * 36, 10))
    return trained(reset(model, generator), *data(generator, 8, 3, 16, 16))


def reset(model: nn.Module, generator: Any) -> nn.Module:
    with tinyt.no_grad():
        for p in model.parameters():
            p.copy_(tinyt.randn(*p.shape, generator=generator) * 0.1)
    return model


def data(generator: Any, *shape: int) -> tuple[Any, Any]:
    x = tinyt.randn(*shape, generator=generator)
    return x, tinyt.randint(0, 10, shape[:1], generator=generator)


def test_networks_trained_side_by_side() -> None:
    """Each thread gets the bits that it gets alone."""
    want = {f: f() for f in (perceptron, convolutions)}
    found: dict[int, tuple[Callable[[], Any], Any]] = {}

    def run(number: int, function: Callable[[], Any]) -> None:
        found[number] = function, function()

    functions = [perceptron, convolutions] * 3
    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(functions)
    for function, values in found.values():
        assert values == want[function]


def test_threads_set_while_kernels_run() -> None:
    """Kernels that began with one thread may be handed more: each task has memory of its own."""
    tinyt.set_num_threads(1)
    x, w = tinyt.randn(600, 1500), tinyt.randn(1500, 600)
    images, taps = tinyt.randn(8, 32, 40, 40), tinyt.randn(32, 32, 3, 3)
    calls = [lambda: x @ w, lambda: x.bfloat16() @ w.bfloat16(), lambda: F.conv2d(images, taps)]
    want = [call() for call in calls]
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            for count in (1, 3):
                tinyt.set_num_threads(count)

    other = threading.Thread(target=change)
    other.start()
    try:
        for _ in range(40):
            for call, expected in zip(calls, want, strict=True):
                assert tinyt.equal(call(), expected)
    finally:
        done.set()
        other.join()


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # Python 3.12: other threads
def test_fork_after_use() -> None:
    """The pool's threads stay in the parent; a child starts its own."""
    want = perceptron()
    child = os.fork()
    if child == 0:
        same = False
        try:
            same = perceptron() == want
        finally:  # whatever happens, no second run of the tests goes on
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert perceptron() == want
