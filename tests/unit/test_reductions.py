"""What the table of operations does not say about reductions, order and search: argument names,
named results, pairs of outputs, subgradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyt


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "amax", "all", "logsumexp"])
def test_numpy_argument_names(name: str) -> None:
    x = tinyt.tensor([[1.0, 2.0], [3.0, 5.0]])
    for call in (getattr(x, name), lambda **k: getattr(tinyt, name)(x, **k)):
        got = call(axis=1, keepdims=True)
        assert got.tolist() == getattr(x, name)(dim=1, keepdim=True).tolist()
    with pytest.raises(TypeError, match="axis"):
        getattr(x, name)(axis=1, dim=1)
    with pytest.raises(TypeError, match="wrong"):
        getattr(x, name)(1, wrong=2)


@pytest.mark.parametrize("name", ["max", "min", "sort", "median", "mode", "cummax", "cummin"])
def test_out_takes_a_pair(name: str) -> None:
    x = tinyt.tensor([[3.0, 1.0, 2.0]])
    want = getattr(tinyt, name)(x, 1)
    out = tinyt.zeros(want.values.shape), tinyt.zeros(want.values.shape, dtype=tinyt.int64)
    got = getattr(tinyt, name)(x, 1, out=out)
    assert got.values is out[0]
    assert got.indices is out[1]
    assert [t.tolist() for t in out] == [t.tolist() for t in want]
    wrong = tinyt.zeros(7), tinyt.zeros(7, dtype=tinyt.int64)
    with pytest.raises(RuntimeError, match=rf"{name}.*\(7,\)"):
        getattr(tinyt, name)(x, 1, out=wrong)
    assert wrong[0].tolist() == [0.0] * 7


def test_out_does_not_lose_the_kind_of_number() -> None:
    out = tinyt.tensor([7, 7])
    for name in ("var", "cumsum", "quantile"):
        args = {"quantile": (tinyt.tensor([0.5, 0.75]),), "cumsum": (0,), "var": (1,)}[name]
        x = tinyt.ones(2, 2) if name == "var" else tinyt.ones(2)
        with pytest.raises(RuntimeError, match=rf"{name}.*float32.*int64"):
            getattr(tinyt, name)(x, *args, out=out)
    assert out.tolist() == [7, 7]


def test_all_and_any_of_bytes_are_bytes() -> None:
    x = tinyt.tensor([0, 3], dtype=tinyt.uint8)
    assert (x.all().dtype, x.any().dtype) == (tinyt.uint8, tinyt.uint8)
    assert (x.all().item(), x.any().item()) == (0, 1)
    assert tinyt.tensor([math.nan]).all().item() is True


def test_all_and_any_of_nothing() -> None:
    x = tinyt.zeros(2, 0)
    assert (x.all().item(), x.any().item()) == (True, False)
    assert x.all(1).tolist() == [True, True]
    assert x.any(0, keepdim=True).shape == (1, 0)


def test_subgradients_at_zero() -> None:
    """Zero, where the formula has 0 / 0."""
    for function in (
        lambda x: x.norm(),
        lambda x: x.norm(3),
        lambda x: x.norm(0.5),
        lambda x: x.norm(math.inf),
        lambda x: x.std(),
        lambda x: tinyt.dist(x, x.detach()),
    ):
        x = tinyt.zeros(3, requires_grad=True)
        function(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", ["median", "nanmedian", "max", "min", "amax"])
def test_ties_share_the_gradient(name: str) -> None:
    x = tinyt.tensor([2.0, 2.0, 2.0, 2.0], requires_grad=True)
    getattr(x, name)().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.25] * 4


def test_selection_takes_the_first_of_equal_values() -> None:
    x = tinyt.tensor([1, 3, 3, 1, 3, 0])
    assert x.topk(2).indices.tolist() == [1, 2]
    assert x.topk(3, largest=False).indices.tolist() == [5, 0, 3]
    assert [x.kthvalue(k).indices.item() for k in range(1, 7)] == [5, 0, 3, 1, 2, 4]
    assert x.argmax().item() == 1


def test_selection_with_nan() -> None:
    x = tinyt.tensor([1.0, math.nan, 5.0, math.nan])
    assert x.topk(3).indices.tolist() == [1, 3, 2]
    assert x.kthvalue(3).indices.item() == 1
    assert x.median(0).indices.item() == 1
    assert x.nanmedian().item() == 1.0


def test_searchsorted_options() -> None:
    edges = tinyt.tensor([5, 1, 3])
    order = edges.argsort()
    values = tinyt.tensor([3, 6])
    assert tinyt.searchsorted(edges, values, sorter=order).tolist() == [1, 3]
    found = tinyt.bucketize(values, edges.sort().values, out_int32=True, right=True)
    assert found.dtype is tinyt.int32
    assert found.tolist() == [2, 3]
    assert tinyt.searchsorted(tinyt.tensor([1.0, 2.0]), math.nan).item() == 2
    assert tinyt.searchsorted(tinyt.tensor([1, 2]), 1.5).item() == 1


def test_half_precision_accumulates_in_float32() -> None:
    x = tinyt.full((4096,), 0.25, dtype=tinyt.float16)
    assert x.sum().item() == 1024.0
    assert x.cumsum(0)[-1].item() == 1024.0
    assert x.norm().item() == 16.0
    assert x.var().item() == 0.0
    assert tinyt.full((64,), 300.0, dtype=tinyt.float16).norm().item() == 2400.0


def test_long_lines_are_sorted_by_several_threads(rng: np.random.Generator) -> None:
    array = rng.integers(-50_000, 50_000, 200_003).astype(np.int32)
    for threads in (1, 3):
        tinyt.set_num_threads(threads)
        values, indices = tinyt.tensor(array).sort()
        np.testing.assert_array_equal(indices.numpy(), np.argsort(array, kind="stable"))
        np.testing.assert_array_equal(values.numpy(), np.sort(array))


def test_running_values_in_place() -> None:
    x = tinyt.tensor([1, 2, 3], dtype=tinyt.int32)
    assert x.cumsum_(0) is x
    assert x.tolist() == [1, 3, 6]
    assert x.cumprod_(0).tolist() == [1, 3, 18]
    assert x.dtype is tinyt.int32


@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "cumsum", "cumprod"])
def test_dtype_of_sums_may_be_narrow(name: str) -> None:
    x = tinyt.tensor([100, 2, 1], dtype=tinyt.int32)
    got = getattr(x, name)(0, dtype=tinyt.int8)
    assert got.dtype is tinyt.int8
    assert getattr(x, name)(0).dtype is tinyt.int64


def test_all_and_any_over_no_dimension_are_elementwise() -> None:
    x = tinyt.tensor([[1.0, 0.0]])
    assert x.any(()).tolist() == x.all(()).tolist() == [[True, False]]


def test_prod_takes_one_dimension() -> None:
    with pytest.raises(TypeError, match=r"prod.*\(0, 1\)"):
        tinyt.ones(2, 3).prod((0, 1))


@pytest.mark.parametrize("n", [31, 32, 33, 65, 1023, 1024, 1025, 4097, 70_001])
def test_products_around_their_blocks(n: int, rng: np.random.Generator) -> None:
    x = (1 + 1e-3 * rng.standard_normal((n, 3))).astype(np.float32)
    want = x.astype(np.float64).prod(0)
    t = tinyt.tensor(x)
    for got in (t.prod(0), t.t().prod(1), t.t().contiguous().prod(1)):
        np.testing.assert_allclose(got.numpy(), want, rtol=n * 2**-24)  # one rounding a factor
    wrapping = rng.integers(-5, 6, n) * 2 + 1
    assert tinyt.tensor(wrapping).prod().item() == np.prod(wrapping)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 15, 31, 32, 33, 63, 64, 100, 4097])
def test_extremes_of_rows(n: int, dtype: str, rng: np.random.Generator) -> None:
    """A NaN wins wherever it stands; an infinity is a number."""
    numbers = tinyt.tensor(rng.standard_normal((3, n))).to(getattr(tinyt, dtype))
    want = numbers.double().numpy().max(1)
    np.testing.assert_array_equal(numbers.amax(1).double().numpy(), want)
    np.testing.assert_array_equal((-numbers).amin(1).double().numpy(), -want)
    for at in {0, n // 2, n - 1}:
        for number in (math.nan, math.inf, -math.inf):
            x = numbers.clone()
            x[1, at] = number
            a = x.double().numpy()
            np.testing.assert_array_equal(x.amax(1).double().numpy(), a.max(1))
            np.testing.assert_array_equal(x.amin(1).double().numpy(), a.min(1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 4, 15, 17, 32, 33, 49, 100, 256, 257])
def test_sums_of_short_rows(n: int, dtype: str, rng: np.random.Generator) -> None:
    """32 lanes, whose halves are added: the order that ADR 0003 states."""
    x = rng.standard_normal((37, n)).astype(dtype)
    lanes = np.zeros((37, 32), dtype)
    for k in range(0, n, 32):
        part = x[:, k : k + 32]
        lanes[:, : part.shape[1]] += part
    while lanes.shape[1] > 1:
        half = lanes.shape[1] // 2
        lanes = lanes[:, :half] + lanes[:, half:]
    t = tinyt.tensor(x)
    for rows in (1, 2, 3, 4, 7, 8, 16, 31, 37):
        np.testing.assert_array_equal(t[:rows].sum(1).numpy(), lanes[:rows, 0])
    wide = tinyt.tensor(np.concatenate([x, x], 1))[:, :n]
    np.testing.assert_array_equal(wide.sum(1).numpy(), lanes[:, 0])


@pytest.mark.parametrize("n", [0, 1, 15, 31, 33, 63, 64, 65, 255, 4097, 70000])
def test_sums_of_bytes(n: int, rng: np.random.Generator) -> None:
    x = rng.integers(0, 256, (2, n)).astype(np.uint8)
    t = tinyt.tensor(x)
    np.testing.assert_array_equal(t.sum(1).numpy(), x.sum(1, dtype=np.int64))
    np.testing.assert_array_equal(tinyt.count_nonzero(t, 1).numpy(), np.count_nonzero(x, 1))
    assert tinyt.count_nonzero(t[:, ::2]).item() == np.count_nonzero(x[:, ::2])
    truth = t > 200
    assert truth.any().item() == (x > 200).any()
    assert truth.all().item() == (x > 200).all()


def test_mean_of_float16_whose_sum_is_out_of_range() -> None:
    x = tinyt.full((3, 1000), 1000.0, dtype=tinyt.float16, requires_grad=True)
    out = tinyt.zeros(3, dtype=tinyt.float16)
    with tinyt.no_grad():
        assert tinyt.mean(x, 1, out=out) is out
    for mean in (x.mean(), x.mean(1), x.mean(dim=(0, 1)), out):
        assert mean.dtype is tinyt.float16
        assert mean.unique().tolist() == [1000.0]
    loss = tinyt.nn.functional.mse_loss(x / 5.0, tinyt.zeros_like(x))
    assert loss.item() == 40000.0
    x.mean().backward()
    assert x.grad.dtype is tinyt.float16
    assert x.grad.unique().tolist() == [tinyt.tensor(1 / 3000, dtype=tinyt.float16).item()]
