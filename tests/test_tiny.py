"""The shortest proof that an installation works; also a first look at the library."""

from __future__ import annotations

import numpy as np

import tinyt
from tinyt import nn


def test_arithmetic() -> None:
    x = tinyt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (x + 10 * x.t()).tolist() == [[11.0, 32.0], [23.0, 44.0]]
    assert (x @ x).sum(0).tolist() == [22.0, 32.0]
    assert x[:, 1].mean().item() == 3.0


def test_views_share_memory() -> None:
    x = tinyt.zeros(2, 3)
    x[0] = 1
    x.t()[2].add_(5)
    assert x.tolist() == [[1.0, 1.0, 6.0], [0.0, 0.0, 5.0]]


def test_gradient() -> None:
    a = tinyt.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = tinyt.tensor([4.0, 5.0, 6.0], requires_grad=True)
    (a * b + b).sum().backward()
    assert a.grad.tolist() == [4.0, 5.0, 6.0]
    assert b.grad.tolist() == [2.0, 3.0, 4.0]


def test_numpy_shares_memory() -> None:
    array = np.zeros(3, np.float32)
    tinyt.from_numpy(array).add_(2)
    assert array.tolist() == [2.0, 2.0, 2.0]


def test_training() -> None:
    """A line through noisy points, found by gradient descent."""
    tinyt.manual_seed(0)
    x = tinyt.randn(64, 1)
    y = 3 * x - 1 + 0.01 * tinyt.randn(64, 1)
    model = nn.Linear(1, 1)
    optimizer = tinyt.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    assert abs(model.weight.item() - 3) < 0.01
    assert abs(model.bias.item() + 1) < 0.01


def test_same_seed_same_numbers() -> None:
    tinyt.manual_seed(7)
    first = tinyt.randn(1000)
    tinyt.manual_seed(7)
    assert tinyt.equal(first, tinyt.randn(1000))
