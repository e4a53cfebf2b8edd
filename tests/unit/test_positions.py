"""argmax and argmin around the sizes of registers, blocks and chunks, along rows and columns."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt

LENGTHS = [1, 3, 15, 16, 17, 31, 32, 33, 63, 65, 4095, 4096, 4097, 70_001]
DTYPES = ["float32", "float64", "int64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_first_of_equal_values(name: str, dtype: str, rng: np.random.Generator) -> None:
    for n in LENGTHS:
        x = rng.integers(-50, 51, (3, n)).astype(dtype)
        want = getattr(np, name)(x, axis=1)
        t = tinyt.tensor(x)
        for view, dim in ((t, 1), (t.t(), 0), (t.t().contiguous(), 0)):
            np.testing.assert_array_equal(getattr(view, name)(dim).numpy(), want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_columns_side_by_side(name: str, dtype: str, rng: np.random.Generator) -> None:
    for columns in (7, 8, 15, 17, 64, 255, 257):
        x = rng.integers(-9, 10, (2, 40, columns)).astype(dtype)
        got = getattr(tinyt.tensor(x), name)(1)
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_nan_wins(name: str, rng: np.random.Generator) -> None:
    for n in (5, 33, 5000, 70_001):
        for at in {0, 3, n // 2, n - 1}:
            x = rng.standard_normal((20, n)).astype(np.float32)
            x[:, at:] = np.where(rng.random((20, n - at)) < 0.3, np.nan, x[:, at:])
            x[:, at] = np.nan
            t = tinyt.tensor(x)
            assert getattr(t, name)(1).tolist() == [at] * 20
            assert getattr(t.t().contiguous(), name)(0).tolist() == [at] * 20


def test_zeros_of_both_signs_and_infinities() -> None:
    x = tinyt.tensor([-0.0, 0.0, -0.0])
    assert x.argmax().item() == 0
    assert x.argmin().item() == 0
    inf = float("inf")
    assert tinyt.tensor([-inf, -inf]).argmax().item() == 0
    assert tinyt.tensor([inf, 1.0, inf]).argmax().item() == 0
    assert tinyt.full((40,), -inf).argmax().item() == 0
    assert tinyt.full((40,), inf).argmin().item() == 0
