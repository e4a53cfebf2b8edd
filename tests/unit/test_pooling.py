"""Pooling beyond the table of operations: indices, dtypes, long windows, threads."""

from __future__ import annotations

import numpy as np
import pytest

import tinyt
from tinyt import nn
from tinyt.nn import functional as F


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_puts_the_maxima_back(n: int, rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.normal(size=(2, 3, *[6, 4, 4][:n])))
    values, indices = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)(x)
    back = getattr(nn, f"MaxUnpool{n}d")(2)(values, indices)
    assert back.shape == x.shape
    assert bool(((back == x) | (back == 0)).all())
    assert int((back != 0).sum()) == values.numel()
    again = getattr(nn, f"AdaptiveMaxPool{n}d")((3, 2, 2)[:n], return_indices=True)(x)
    assert again[1].tolist() == indices.tolist()
    assert repr(getattr(nn, f"MaxUnpool{n}d")(2)) == (
        f"MaxUnpool{n}d(kernel_size={(2,) * n}, stride={(2,) * n}, padding={(0,) * n})"
    )


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
def test_half_precision_averages_are_rounded_once(dtype: tinyt.dtype) -> None:
    x = tinyt.full((1, 1, 4, 4), 30000.0).to(dtype)  # sums would overflow float16
    for out in (F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 1)):
        assert out.dtype is dtype
        assert set(out.float().flatten().tolist()) == {x.float()[0, 0, 0, 0].item()}


def test_integer_averages_round_towards_zero() -> None:
    x = tinyt.tensor([[-3, -4, 3, 4]])
    assert F.avg_pool1d(x, 2).tolist() == [[-3, 3]]


def test_sums_of_long_windows_go_by_blocks() -> None:
    """A chain of 40000 additions in float32 would be off by some 1e-3."""
    x = np.full((1, 1, 200, 200), np.float32(0.1))
    for out in (F.adaptive_avg_pool2d(tinyt.tensor(x), 1), F.avg_pool2d(tinyt.tensor(x), 200)):
        np.testing.assert_allclose(out.numpy(), np.float32(0.1), rtol=2e-6)


def test_a_nan_is_the_largest() -> None:
    x = tinyt.tensor([[[1.0, float("nan"), 3.0, float("-inf")]]])
    values, indices = F.adaptive_max_pool1d(x, 2, return_indices=True)
    assert str(values.tolist()) == "[[[nan, 3.0]]]"
    assert indices.tolist() == [[[1, 2]]]


@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d", "adaptive_avg_pool2d"])
def test_same_bits_for_any_number_of_threads(name: str, rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.normal(size=(3, 5, 41, 67)).astype(np.float32), requires_grad=True)
    results = []
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            out = getattr(F, name)(x, (7, 5))
            out.sum().backward()
        results.append((out.detach().numpy().tobytes(), x.grad.numpy().tobytes()))
        x.grad = None
    assert results[0] == results[1]


def test_max_unpool_under_another_name():
    class Restore(nn.MaxUnpool2d):
        pass

    assert Restore(2, stride=1).stride == (1, 1)
