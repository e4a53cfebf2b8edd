"""Fused rows of the op table against their composites."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt
from tinyt import _core
from tinyt.ops.norm import DECOMPOSE
from tinyt.tensor import prim

FUSED = [row["name"] for row in _core.op_table() if "fused" in row["flags"]]


def test_every_fused_row_has_a_composite() -> None:
    assert sorted(FUSED) == sorted(DECOMPOSE)


@pytest.mark.parametrize("name", sorted(DECOMPOSE))
@pytest.mark.parametrize("shape", [(3, 7), (2, 5, 33), (1, 1), (4, 5000), (0, 3)])
def test_fused_equals_its_composite(name: str, shape: tuple[int, ...], rng) -> None:
    x = tinyt.tensor(rng.standard_normal(shape) * 4, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for dim in range(len(shape)):
        fused = getattr(prim, name)(x, dim)
        composed = DECOMPOSE[name](y, dim)
        got, want = fused.detach().numpy(), composed.detach().numpy()
        np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
    weights = tinyt.tensor(rng.standard_normal(shape))
    (getattr(prim, name)(x, -1) * weights).sum().backward()
    (DECOMPOSE[name](y, -1) * weights).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-12, atol=1e-15)
