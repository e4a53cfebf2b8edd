"""Vector norms and sums without NaN in one pass, at the values that are easy to get wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyt

ORDERS = [1, 2, math.inf, -math.inf]
# Parts of a vector, of 32 lanes and of a block, and one more.
LENGTHS = [1, 3, 16, 31, 32, 33, 49, 4095, 4096, 4097, 70_001]
HALVES = ["float16", "bfloat16"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["float32", "float64", *HALVES])
def test_every_length(order: float, dtype: str, rng: np.random.Generator) -> None:
    for n in LENGTHS:
        x = tinyt.tensor(rng.standard_normal((3, n))).to(getattr(tinyt, dtype))
        wide = x.double().numpy()
        bound = 1e-2 if dtype in HALVES else 1e-6
        for dim, values in ((1, wide), (0, wide.T)):
            want = [np.linalg.norm(row, order) for row in values]
            got = x.norm(order, dim).double().numpy()
            np.testing.assert_allclose(got, want, rtol=bound)


@pytest.mark.parametrize("order", ORDERS)
def test_special_values(order: float) -> None:
    zeros = tinyt.tensor([-0.0, -0.0]).norm(order)
    assert zeros.item() == 0
    assert math.copysign(1, zeros.item()) > 0
    assert tinyt.tensor([1.0, -math.inf]).norm(order).item() == (1 if order < 0 else math.inf)
    assert math.isnan(tinyt.tensor([math.nan, 3.0, -math.inf]).norm(order).item())
    assert tinyt.zeros(0, 2).norm(order, 1).shape == (0,)


@pytest.mark.parametrize("order", [1, 2])
def test_of_nothing(order: float) -> None:
    assert tinyt.zeros(2, 0).norm(order, 1).tolist() == [0, 0]


def test_nothing_has_no_extreme() -> None:
    with pytest.raises(RuntimeError, match=r"norm.*inf.*\(2, 0\)"):
        tinyt.zeros(2, 0).norm(math.inf, 1)


def test_long_runs_between_other_dimensions(rng: np.random.Generator) -> None:
    """Runs that begin at every lane, with a slice's gaps between them."""
    x = rng.standard_normal((5, 3, 9, 75))
    for cut in (75, 74, 67, 64):
        part = x[..., :cut]
        got = tinyt.tensor(x)[..., :cut].sum((0, 2, 3)).numpy()
        np.testing.assert_allclose(got, part.sum((0, 2, 3)), rtol=1e-12)
        same = tinyt.tensor(np.ascontiguousarray(part)).sum((0, 2, 3)).numpy()
        np.testing.assert_array_equal(got, same)


@pytest.mark.parametrize("dtype", HALVES)
def test_sum_of_halves_is_in_float32(dtype: str, rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.standard_normal((300, 41))).to(getattr(tinyt, dtype))
    for dim in (0, 1):
        want = x.float().sum(dim).to(x.dtype)
        np.testing.assert_array_equal(x.sum(dim).float().numpy(), want.float().numpy())


def test_nansum_of_infinities() -> None:
    x = tinyt.tensor([[math.inf, math.nan], [math.inf, -math.inf]])
    got = x.nansum(1).tolist()
    assert got[0] == math.inf
    assert math.isnan(got[1])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_sum_of_narrow_integers(dtype: str, rng: np.random.Generator) -> None:
    x = rng.integers(0, 2 if dtype == "bool" else 256, (37, 70)).astype(dtype)
    if dtype == "int32":
        x[0] = np.iinfo(np.int32).min
    for dim in (0, 1, (0, 1)):
        got = tinyt.tensor(x).sum(dim)
        assert got.dtype == tinyt.int64
        np.testing.assert_array_equal(got.numpy(), x.sum(dim, dtype=np.int64))
