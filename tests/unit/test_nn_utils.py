"""`nn.utils`: limits on gradients, parameters as a vector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.nn import utils

GRADS = [np.array([[3.0, -4.0], [0.5, 1.0]]), np.array([12.0]), np.array(-2.0)]


def parameters(dtype: Any = tinyt.float64) -> list[Any]:
    params = [nn.Parameter(tinyt.zeros(g.shape, dtype=dtype)) for g in GRADS]
    for param, grad in zip(params, GRADS, strict=True):
        param.grad = tinyt.tensor(grad, dtype=dtype)
    return [*params, nn.Parameter(tinyt.ones(2))]


@pytest.mark.parametrize("order", [2.0, 1, 3.5, math.inf])
@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_clip_grad_norm(order: float, limit: float) -> None:
    flat = np.concatenate([g.ravel() for g in GRADS])
    norm = np.abs(flat).max() if order == math.inf else (np.abs(flat) ** order).sum() ** (1 / order)
    params = parameters()
    total = utils.clip_grad_norm_(params, limit, order)
    np.testing.assert_allclose(total.item(), norm, rtol=1e-12)
    factor = min(1.0, limit / (norm + 1e-6))
    for param, grad in zip(params, GRADS, strict=False):
        np.testing.assert_allclose(param.grad.numpy(), grad * factor, rtol=1e-12)
    assert params[-1].grad is None


def test_norms_of_nothing_and_of_infinity() -> None:
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0
    assert utils.get_total_norm(tinyt.tensor([3.0, 4.0])).item() == 5.0
    params = parameters(tinyt.float32)
    params[1].grad.fill_(math.inf)
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert params[0].grad.tolist() == GRADS[0].tolist()


def test_clip_grad_value() -> None:
    params = parameters()
    utils.clip_grad_value_(params, 2.5)
    for param, grad in zip(params, GRADS, strict=False):
        assert param.grad.tolist() == grad.clip(-2.5, 2.5).tolist()


def test_parameters_and_vectors() -> None:
    net = nn.Linear(3, 2)
    vector = utils.parameters_to_vector(net.parameters())
    assert vector.tolist() == [*net.weight.reshape(-1).tolist(), *net.bias.tolist()]
    vector.sum().backward()
    assert net.weight.grad.tolist() == [[1.0] * 3] * 2
    utils.vector_to_parameters(tinyt.arange(8.0), net.parameters())
    assert net.weight.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert net.bias.tolist() == [6.0, 7.0]
    with pytest.raises(RuntimeError, match="have 8 elements, the vector 7"):
        utils.vector_to_parameters(tinyt.zeros(7), net.parameters())
    with pytest.raises(TypeError, match="expected a Tensor"):
        utils.vector_to_parameters([1.0], net.parameters())  # type: ignore[arg-type]
    assert net.bias.tolist() == [6.0, 7.0]
