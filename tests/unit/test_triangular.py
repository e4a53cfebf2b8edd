"""Cholesky factors and triangular systems: what has no row in the table of operations."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyt
from sampling import assert_same_bits
from tinyt import Tensor


def test_a_matrix_without_a_factor() -> None:
    x = tinyt.tensor([[[4.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])
    with pytest.raises(tinyt.linalg.LinAlgError, match=r"Batch element 1.*order 2"):
        tinyt.linalg.cholesky(x)
    assert issubclass(tinyt.linalg.LinAlgError, RuntimeError)
    factor, info = tinyt.linalg.cholesky_ex(x)
    assert info.tolist() == [0, 2]
    assert info.dtype is tinyt.int32
    assert factor[0].tolist() == [[2, 0], [0, 1]]
    assert factor[1].isnan().all()
    for value in (0.0, -1.0, math.nan, math.inf):
        assert tinyt.linalg.cholesky_ex(tinyt.tensor([[value]])).info.item() == 1
    with pytest.raises(RuntimeError, match=r"cholesky.*\(2, 3\)"):
        tinyt.linalg.cholesky(tinyt.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"cholesky.*int64"):
        tinyt.linalg.cholesky(tinyt.ones(2, 2, dtype=tinyt.int64))


def test_in_a_program_it_is_nan() -> None:
    compiled = tinyt.compile(lambda x: tinyt.linalg.cholesky(x) * 2)
    good, wrong = tinyt.eye(2), -tinyt.eye(2)
    for _ in range(2):
        assert compiled(good).tolist() == [[2, 0], [0, 2]]
    assert compiled(wrong).isnan().all()


def test_only_one_triangle_is_read() -> None:
    nan = math.nan
    lower = tinyt.tensor([[4.0, nan], [2.0, 2.0]])
    assert tinyt.linalg.cholesky(lower).tolist() == [[2, 0], [1, 1]]
    assert tinyt.linalg.cholesky(lower.t(), upper=True).tolist() == [[2, 1], [0, 1]]
    b = tinyt.tensor([[2.0], [3.0]])
    a = tinyt.tensor([[2.0, nan], [1.0, 1.0]])
    assert tinyt.linalg.solve_triangular(a, b, upper=False).tolist() == [[1], [2]]
    unit = tinyt.tensor([[nan, nan], [1.0, nan]])
    solved = tinyt.linalg.solve_triangular(unit, b, upper=False, unitriangular=True)
    assert solved.tolist() == [[2], [1]]


def test_large_ones_with_threads() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 200))
    a = x @ x.T + 200 * np.eye(200)
    b = rng.normal(size=(200, 150))
    found: list[tuple[Tensor, Tensor]] = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            factor = tinyt.linalg.cholesky(tinyt.tensor(a))
            found.append((factor, tinyt.cholesky_solve(tinyt.tensor(b), factor)))
    for one, other in zip(*found, strict=True):
        assert_same_bits(one, other)
    np.testing.assert_allclose(found[0][0].numpy(), np.linalg.cholesky(a), atol=1e-12)
    np.testing.assert_allclose(found[0][1].numpy(), np.linalg.solve(a, b), atol=1e-12)


@pytest.mark.parametrize("upper", [False, True])
def test_second_derivatives(upper: bool) -> None:
    x = tinyt.tensor(np.random.default_rng(1).normal(size=(3, 3)) + 4 * np.eye(3))

    def loss(x: Tensor) -> Tensor:
        factor = tinyt.linalg.cholesky(x @ x.mT, upper=upper)
        return tinyt.linalg.solve_triangular(factor, x, upper=upper).sin()

    assert tinyt.autograd.gradgradcheck(loss, (x.requires_grad_(),))
