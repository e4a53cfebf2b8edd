"""Second and third derivatives where a first rule divides, or takes an absolute value, at zero."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.autograd.functional import hessian
from tinyt.nn import functional as F


def derivatives(function: Any, value: Any, count: int) -> list[list[float]]:
    """The first ones of the sum of an elementwise function."""
    x = tinyt.tensor(value, dtype=tinyt.float64, requires_grad=True)
    out, found = function(x), []
    for _ in range(count):
        if not out.requires_grad:
            found.append([0.0] * len(value))
            continue
        (out,) = tinyt.autograd.grad(out.sum(), x, create_graph=True, allow_unused=True)
        out = tinyt.zeros_like(x) if out is None else out
        found.append(out.tolist())
    return found


POINTS = [0.0, 2.0, -0.5]


@pytest.mark.parametrize("power", [0, 1, 2, 3])
@pytest.mark.parametrize("form", ["number", "tensor", "float_power"])
def test_derivatives_of_whole_powers(power: int, form: str) -> None:
    def function(x: Any) -> Any:
        if form == "float_power":
            return tinyt.float_power(x, power)
        return x ** (power if form == "number" else tinyt.full_like(x, power))

    for k, found in enumerate(derivatives(function, POINTS, 4), 1):
        factor = math.perm(power, k) if k <= power else 0
        want = [factor * v ** (power - k) if k <= power else 0.0 for v in POINTS]
        np.testing.assert_allclose(found, want, rtol=1e-14)


def test_power_zero_as_a_factor() -> None:
    """(x**0) y is y: nothing of x is left in any derivative."""
    x = tinyt.tensor([0.0, 3.0], dtype=tinyt.float64, requires_grad=True)
    y = tinyt.tensor([2.0, 5.0], dtype=tinyt.float64, requires_grad=True)
    slopes = tinyt.autograd.grad((x**0 * y).sum(), (x, y), create_graph=True)
    assert [s.tolist() for s in slopes] == [[0.0, 0.0], [1.0, 1.0]]
    again = tinyt.autograd.grad(sum(s.sum() for s in slopes), (x, y), allow_unused=True)
    assert all(s is None or s.tolist() == [0.0, 0.0] for s in again)


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_losses_are_parabolas_at_their_target(loss: Any) -> None:
    target = tinyt.zeros(3, dtype=tinyt.float64)
    x = tinyt.tensor([0.0, 0.5, 2.0], dtype=tinyt.float64)
    found = hessian(lambda v: loss(v, target, reduction="sum"), x)
    assert found.tolist() == np.diag([1.0, 1.0, 0.0]).tolist()
    both = hessian(lambda v, t: loss(v, t, reduction="sum"), (x, target))
    assert both[0][1].tolist() == np.diag([-1.0, -1.0, -0.0]).tolist()


def product_hessian(values: list[float], groups: list[int], start: list[float]) -> np.ndarray:
    """Of the sum of each group's product, taken apart by hand."""
    n = len(values)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j and groups[i] == groups[j]:
                rest = [values[k] for k in range(n) if groups[k] == groups[i] and k not in (i, j)]
                out[i, j] = math.prod(rest) * start[groups[i]]
    return out


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        ([0.0, 3.0, 2.0], [0, 0, 0]),
        ([0.0, 0.0, 2.0], [0, 0, 0]),
        ([0.0, 3.0, 2.0, 0.0, 5.0, 0.0, 7.0], [1, 0, 1, 0, 0, 2, 1]),
        ([4.0], [1]),
    ],
)
@pytest.mark.parametrize("form", ["scatter_reduce", "index_reduce", "columns"])
def test_second_derivatives_of_grouped_products(
    values: list[float], groups: list[int], form: str
) -> None:
    start = [1.5, 2.0, 0.5]
    base = tinyt.tensor(start, dtype=tinyt.float64)
    index = tinyt.tensor(groups)

    def function(x: Any) -> Any:
        if form == "index_reduce":
            return base.index_reduce(0, index, x, "prod").sum()
        if form == "scatter_reduce":
            return base.scatter_reduce(0, index, x, "prod").sum()
        columns = base.reshape(3, 1).expand(3, 2)
        pair = tinyt.stack([x, x * 0 + 1], 1)
        return columns.scatter_reduce(0, index.reshape(-1, 1), pair, "prod").sum()

    x = tinyt.tensor(values, dtype=tinyt.float64)
    want = product_hessian(values, groups, start)
    np.testing.assert_allclose(hessian(function, x).numpy(), want, rtol=1e-14)


def test_second_derivatives_of_the_start_of_a_product() -> None:
    """d²/dx dsrc of x0 s0 s2 + x1 s1, where factors are zero."""
    index = tinyt.tensor([0, 1, 0])

    def function(x: Any, source: Any) -> Any:
        return x.scatter_reduce(0, index, source, "prod").sum()

    x = tinyt.tensor([0.0, 3.0], dtype=tinyt.float64)
    source = tinyt.tensor([0.0, 0.0, 4.0], dtype=tinyt.float64)
    blocks = hessian(function, (x, source))
    assert blocks[0][0].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert blocks[0][1].tolist() == [[4.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert blocks[1][1].tolist() == [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_grouped_products_pass_gradgradcheck() -> None:
    tinyt.manual_seed(0)
    x = tinyt.randn(3, 4, dtype=tinyt.float64, requires_grad=True)
    source = tinyt.randn(6, 5, dtype=tinyt.float64, requires_grad=True)
    index = tinyt.randint(0, 3, (5, 4))
    for dim, shape in ((0, (5, 4)), (1, (3, 5))):
        part = index if dim == 0 else tinyt.randint(0, 4, shape)
        assert tinyt.autograd.gradgradcheck(
            lambda a, b, d=dim, i=part: a.scatter_reduce(d, i, b, "prod"), (x, source)
        )
