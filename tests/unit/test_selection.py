"""topk, kthvalue and median around the lengths where their ways change: ranks of short lines,
samples of long ones, bounds that registers are compared with."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt
from tinyt.testing.reference import order as ref

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
DTYPES = ["float32", "float64", "float16", "bfloat16", *INTEGERS]
LENGTHS = [1, 2, 5, 96, 97, 127, 128, 129, 511, 512, 513, 1000, 4096, 4097, 9000]


def line(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    """Many values twice, or all of them different."""
    if dtype in INTEGERS:
        return rng.integers(0, 100, n).astype(dtype)
    wide = "float32" if dtype == "bfloat16" else dtype
    x = rng.standard_normal(n).astype(wide)
    return np.round(x, 1 if n % 2 else 3) if dtype == "float32" else x


def tensor_of(x: np.ndarray, dtype: str) -> tuple[tinyt.Tensor, np.ndarray]:
    """A tensor of the dtype, and its values as NumPy has them."""
    t = tinyt.tensor(x).to(getattr(tinyt, dtype))
    return t, t.float().numpy() if dtype in ("float16", "bfloat16") else t.numpy()


def check(got: tuple[tinyt.Tensor, tinyt.Tensor], want: tuple[np.ndarray, np.ndarray]) -> None:
    values, places = got
    np.testing.assert_array_equal(places.numpy(), want[1])
    found = values.float() if values.dtype in (tinyt.float16, tinyt.bfloat16) else values
    np.testing.assert_array_equal(found.numpy(), want[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [False, True])
def test_first_of_any_length(largest: bool, dtype: str, rng: np.random.Generator) -> None:
    for n in LENGTHS:
        t, x = tensor_of(line(rng, n, dtype), dtype)
        values, places = ref.sort(x, -1, largest)
        for k in {0, 1, min(16, n), min(17, n), n // 10, n // 7, n // 2, n}:
            check(t.topk(k, largest=largest), (values[:k], places[:k]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranks_of_any_length(dtype: str, rng: np.random.Generator) -> None:
    for n in LENGTHS:
        t, x = tensor_of(line(rng, n, dtype), dtype)
        values, places = ref.sort(x)
        for k in {1, min(2, n), n // 3 + 1, (n + 1) // 2, n}:
            check(t.kthvalue(k), (values[k - 1], places[k - 1]))
        check(t.median(0), (values[(n - 1) // 2], places[(n - 1) // 2]))


@pytest.mark.parametrize("n", [30, 100, 500, 6000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_nan(dtype: str, n: int, rng: np.random.Generator) -> None:
    for share in (0.001, 0.3, 0.7, 1.0):
        some = line(rng, n, dtype)
        some[rng.random(n) < share] = np.nan
        some[n // 2] = np.nan
        t, x = tensor_of(some, dtype)
        check(t.median(0), ref.median(False)(x, 0))
        check(t.nanmedian(0), ref.median(True)(x, 0))
        for k in (3, n // 2, n):
            check(t.kthvalue(k), ref.kthvalue(x, k))
        for largest in (False, True):
            for k in (1, 20):
                check(t.topk(k, largest=largest), ref.topk(x, k, -1, largest))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_orders_that_mislead(dtype: str) -> None:
    """Lines in order, in the opposite order, with a period and of equal values; infinities."""
    n = 8000
    rising = np.arange(n).astype(dtype)
    period = np.where(np.arange(n) % 20 == 0, 0, rising).astype(dtype)
    lines = [rising, rising[::-1].copy(), period, np.full(n, 7, dtype), -period]
    if dtype == "float32":
        infinite = rising.copy()
        infinite[::3], infinite[1::3] = np.inf, -np.inf
        lines += [infinite, np.where(rising % 2 == 0, np.float32(0.0), np.float32(-0.0))]
    for x in lines:
        t = tinyt.tensor(x)
        check(t.median(0), ref.median(False)(x, 0))
        for k in (1, 40, 500, n):
            check(t.kthvalue(k), ref.kthvalue(x, k))
        for largest in (False, True):
            for k in (1, 40, 500):
                check(t.topk(k, largest=largest), ref.topk(x, k, -1, largest))


def test_along_any_dimension(rng: np.random.Generator) -> None:
    x = rng.standard_normal((3, 700, 5)).astype(np.float32)
    t = tinyt.tensor(x)
    for dim, k in ((0, 2), (1, 7), (1, 300), (2, 3)):
        check(t.topk(k, dim), ref.topk(x, k, dim))
        check(t.kthvalue(k, dim), ref.kthvalue(x, k, dim))
        check(t.transpose(0, 2).median(2 - dim), ref.median(False)(x.transpose(2, 1, 0), 2 - dim))
