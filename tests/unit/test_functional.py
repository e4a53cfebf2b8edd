"""`autograd.functional`: Jacobians, Hessians and their products, as PyTorch nests them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.autograd import functional

try:
    import torch
except ImportError:
    torch = None

CASES: list[Callable[[Any, Any, Any], Any]] = [
    lambda f, x, y: f.jacobian(lambda a: a**2, x),
    lambda f, x, y: f.jacobian(lambda a, b: (a * b.sum(), b.exp()), (x, y)),
    lambda f, x, y: f.jacobian(lambda b: b.sum(), y),
    lambda f, x, y: f.hessian(lambda a: (a**3).sum(), x),
    lambda f, x, y: f.hessian(lambda a, b: (a**2).sum() * b.prod(), (x, y)),
    lambda f, x, y: f.vjp(lambda a, b: a * b.sum(), (x, y), x * 2),
    lambda f, x, y: f.vjp(lambda a: a.exp().sum(), x),
    lambda f, x, y: f.jvp(lambda a, b: a * b.sum(), (x, y), (x, y)),
    lambda f, x, y: f.jvp(lambda a: (a * 2, a.exp()), x, x),
    lambda f, x, y: f.vhp(lambda a, b: (a**2).sum() * b.prod(), (x, y), (x, y)),
    lambda f, x, y: f.hvp(lambda a: (a**4).sum(), x, x),
]


def points(tt: Any) -> Any:
    return tt.tensor([0.5, -2.0], dtype=tt.float64), tt.tensor([[1.5], [0.25]], dtype=tt.float64)


def same(a: Any, b: Any) -> None:
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12, atol=1e-14)


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("which", range(len(CASES)))
def test_as_pytorch(which: int) -> None:
    ours = CASES[which](tinyt.autograd.functional, *points(tinyt))
    same(ours, CASES[which](torch.autograd.functional, *points(torch)))


def test_by_hand() -> None:
    x = tinyt.tensor([1.0, 2.0])
    assert functional.jacobian(lambda t: t * t, x).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert functional.hessian(lambda t: (t * t).sum(), x).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert x.grad is None
    assert not x.requires_grad


def test_create_graph() -> None:
    x = tinyt.tensor([1.0, 2.0], requires_grad=True)
    functional.jacobian(lambda t: t**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_errors() -> None:
    x = tinyt.ones(2)
    with pytest.raises(RuntimeError, match="do not depend on input 0"):
        functional.jacobian(lambda t: tinyt.ones(2), x, strict=True)
    assert functional.jacobian(lambda t: tinyt.ones(2), x).tolist() == [[0.0] * 2] * 2
    with pytest.raises(RuntimeError, match=r"hessian: func must return .* got shape \(2,\)"):
        functional.hessian(lambda t: t, x)
    with pytest.raises(RuntimeError, match="v can only be None"):
        functional.vjp(lambda t: t, x)
    with pytest.raises(RuntimeError, match=r"must have the shapes \[\(2,\)\], got \[\(3,\)\]"):
        functional.jvp(lambda t: t, x, tinyt.ones(3))
    with pytest.raises(TypeError, match="got int at 0"):
        functional.jacobian(lambda t: 3, x)  # type: ignore[arg-type, return-value]
    with pytest.raises(NotImplementedError, match="reverse-mode"):
        functional.jacobian(lambda t: t, x, strategy="forward-mode")
