"""Running sums, products and extremes around the sizes of registers, tiles and strips, along every
dimension, whatever way the lines are taken."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt

# Parts of a register, of a block, of a tile and of a strip of columns, and one more.
LENGTHS = [1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 511, 512, 513, 1100]
OTHERS = [1, 3, 15, 16, 17, 255, 257]


def lines(rng: np.random.Generator, length: int, dtype: str, other: int) -> np.ndarray:
    if dtype == "int64":
        return rng.integers(-3, 4, (other, length))
    return (1 + 0.1 * rng.standard_normal((other, length))).astype(dtype)


def layouts(x: np.ndarray) -> list[tuple[Any, int]]:
    """The same lines along either dimension, dense and with gaps, as views and as copies."""
    t = tinyt.tensor(x)
    gaps = tinyt.zeros(x.shape[0], 2 * x.shape[1], dtype=t.dtype)
    gaps[:, ::2] = t
    return [(t, 1), (t.t(), 0), (t.t().contiguous(), 0), (t.t().contiguous().t(), 1),
            (gaps[:, ::2], 1), (gaps[:, ::2].t(), 0)]  # fmt: skip


def check(name: str, x: np.ndarray, want: np.ndarray, rtol: float) -> None:
    for t, dim in layouts(x):
        got = getattr(t, name)(dim)
        values = got.numpy() if dim == 1 else got.numpy().T
        np.testing.assert_allclose(values, want, rtol=rtol, err_msg=f"{name} {x.shape} over {dim}")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_sums_and_products(name: str, dtype: str, rng: np.random.Generator) -> None:
    sizes = [(n, 3) for n in LENGTHS] + [(33, other) for other in OTHERS]
    for length, other in sizes:
        x = lines(rng, length, dtype, other)
        wide = x if dtype == "int64" else x.astype(np.float64)
        rtol = {"float32": 1e-6, "float64": 1e-12, "int64": 0}[dtype]
        check(name, x, getattr(np, name)(wide, axis=1), rtol)


def extremes(x: np.ndarray, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    """Straight from the definition: the last one of equal values, the last NaN."""
    values, places = np.empty_like(x), np.empty(x.shape, np.int64)
    for line, value, place in zip(x, values, places, strict=True):
        best, at = line[0], 0
        for i, v in enumerate(line):
            better = v >= best if largest else v <= best
            if np.isnan(v) or better:
                best, at = v, i
            value[i], place[i] = best, at
    return values, places


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_extremes(name: str, dtype: str, rng: np.random.Generator) -> None:
    for length, other in [(n, 2) for n in LENGTHS] + [(33, other) for other in OTHERS]:
        x = rng.integers(-9, 10, (other, length)).astype(dtype)
        if dtype != "int64" and length > 8:
            x[0, 5:8] = np.nan, 3, np.nan
        want = extremes(x, name == "cummax")
        for t, dim in layouts(x):
            got = getattr(t, name)(dim)
            for found, expected in zip(got, want, strict=True):
                np.testing.assert_array_equal(
                    found.numpy() if dim == 1 else found.numpy().T, expected, err_msg=f"{x.shape}"
                )


def test_rising_and_equal_values() -> None:
    rising = tinyt.arange(100.0)
    assert rising.cummax(0)[1].tolist() == list(range(100))
    assert tinyt.ones(100).cummax(0)[1].tolist() == list(range(100))
    assert rising.cummin(0)[1].tolist() == [0] * 100


def test_sum_of_float32_does_not_drift() -> None:
    """Sums of many small numbers accumulate in float64."""
    x = np.full(200_000, 0.1, np.float32)
    got = tinyt.tensor(x).cumsum(0).numpy()
    np.testing.assert_allclose(got, np.cumsum(x.astype(np.float64)), rtol=1e-7)


def test_product_of_float64_leaves_its_range_only_where_it_must() -> None:
    x = tinyt.tensor([1e-200, 1e200, 1e200, 1e-200], dtype=tinyt.float64)
    np.testing.assert_allclose(x.cumprod(0).numpy(), [1e-200, 1, 1e200, 1], rtol=1e-15)


def test_infinities() -> None:
    x = tinyt.tensor([1.0, math.inf, 1.0, -math.inf, 1.0])
    got = x.cumsum(0).tolist()
    assert got[:3] == [1, math.inf, math.inf]
    assert all(math.isnan(v) for v in got[3:])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype: str, rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.standard_normal((5, 700))).to(getattr(tinyt, dtype))
    for dim in (0, 1):
        want = x.float().cumsum(dim).to(x.dtype).float()
        np.testing.assert_array_equal(x.cumsum(dim).float().numpy(), want.numpy())
        values, places = x.cummax(dim)
        np.testing.assert_array_equal(values.float().numpy(), x.float().cummax(dim)[0].numpy())
        assert places.dtype == tinyt.int64
