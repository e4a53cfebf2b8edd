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


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16, tinyt.float32])
def test_maxima_of_many_images(dtype: tinyt.dtype, rng: np.random.Generator) -> None:
    """Halves convert some images at a time, forward and in the sums of the gradient."""
    x = tinyt.tensor(rng.integers(-99, 99, (7, 3, 130, 200))).to(dtype).requires_grad_()
    tiles = x.detach().float().numpy().reshape(7, 3, 65, 2, 100, 2).swapaxes(3, 4)
    tiles = tiles.reshape(-1, 4)
    g = rng.integers(-9, 9, len(tiles)).astype(np.float32)
    y = F.max_pool2d(x, 2)
    np.testing.assert_array_equal(y.detach().float().numpy().ravel(), tiles.max(1))
    y.backward(tinyt.tensor(g).to(dtype).reshape(tuple(y.shape)))
    want = np.zeros_like(tiles)
    want[np.arange(len(g)), tiles.argmax(1)] = g
    want = want.reshape(7, 3, 65, 100, 2, 2).swapaxes(3, 4).reshape(x.shape)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.float().numpy(), want)


@pytest.mark.parametrize("rows", [3, 9])
def test_sums_of_halves_at_positions(rows: int, rng: np.random.Generator) -> None:
    """With fewer rows of positions than of the result; each row's sums are rounded once."""
    shape = (9, 4, 40_000)
    index = rng.integers(0, shape[2], (rows, 4, 500))
    index[:, :, :50] = 7
    values = rng.integers(-9, 9, index.shape)
    want = np.ones(shape)
    for i in np.ndindex(index.shape):
        want[i[0], i[1], index[i]] += values[i]
    out = tinyt.ones(*shape, dtype=tinyt.bfloat16)
    got = out.scatter_add(2, tinyt.tensor(index), tinyt.tensor(values).bfloat16())
    want = tinyt.tensor(want).bfloat16().float().numpy()
    np.testing.assert_array_equal(got.float().numpy(), want)


def test_integer_averages_round_towards_zero() -> None:
    x = tinyt.tensor([[-3, -4, 3, 4]])
    assert F.avg_pool1d(x, 2).tolist() == [[-3, 3]]


def test_sums_of_long_windows_go_by_blocks() -> None:
    """A chain of 40000 additions in float32 would be off by some 1e-3."""
    x = np.full((1, 1, 200, 200), np.float32(0.1))
    for out in (F.adaptive_avg_pool2d(tinyt.tensor(x), 1), F.avg_pool2d(tinyt.tensor(x), 200)):
        np.testing.assert_allclose(out.numpy(), np.float32(0.1), rtol=2e-6)


@pytest.mark.parametrize("dilation", [2**31, 2**63 - 1])
def test_a_step_between_taps_has_a_limit(dilation: int) -> None:
    """Sizes are computed from it: as for convolutions, and PyTorch's integers end there too."""
    x = tinyt.ones(1, 1, 3, 4)
    with pytest.raises(RuntimeError, match=rf"max_pool2d: .* 2147483647, got {dilation}"):
        F.max_pool2d(x, 1, dilation=(1, dilation))
    assert F.max_pool2d(x, 1, dilation=(1, 2**31 - 1)).tolist() == x.tolist()


def test_a_nan_is_the_largest() -> None:
    x = tinyt.tensor([[[1.0, float("nan"), 3.0, float("-inf")]]])
    values, indices = F.adaptive_max_pool1d(x, 2, return_indices=True)
    assert str(values.tolist()) == "[[[nan, 3.0]]]"
    assert indices.tolist() == [[[1, 2]]]


def largest_of_windows(
    x: np.ndarray, kernel: tuple[int, ...], stride: int, padding: tuple[int, ...], dilation: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values and positions, tap by tap: a larger value or a NaN beats those before it."""
    at = [
        np.arange((n + 2 * p - dilation * (k - 1) - 1) // stride + 1) * stride - p
        for n, k, p in zip(x.shape[2:], kernel, padding, strict=True)
    ]
    height, width = x.shape[2:]
    values = np.zeros((*x.shape[:2], len(at[0]), len(at[1])), x.dtype)
    index = np.full(values.shape, -1)
    for i, j in np.ndindex(*kernel):
        rows, columns = (at[0] + i * dilation)[:, None], (at[1] + j * dilation)[None]
        there = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        taken = x[:, :, np.clip(rows, 0, height - 1), np.clip(columns, 0, width - 1)]
        better = there & ((index < 0) | (taken > values) | np.isnan(taken))
        values = np.where(better, taken, values)
        index = np.where(better, rows * width + columns, index)
    return values, index


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("seed", range(10))
def test_largest_of_drawn_windows(seed: int, dtype: type, rng: np.random.Generator) -> None:
    """Windows of all kinds, with many equal values and some that are not finite."""
    kernel = tuple(int(k) for k in rng.integers(1, 5, 2))
    stride, dilation = (seed % 4) + 1, int(rng.integers(1, 3))
    padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
    size = [dilation * (k - 1) + 1 + int(rng.integers(0, 40)) for k in kernel]
    x = rng.integers(-2, 3, (2, 3, *size)).astype(dtype)
    if dtype is not np.int64:
        for value in (np.nan, np.inf, -np.inf, -0.0):
            x[rng.random(x.shape) < 0.03] = value
    want, at = largest_of_windows(x, kernel, stride, padding, dilation)
    for threads in (1, 3):
        with tinyt.num_threads(threads):
            values, indices = F.max_pool2d(
                tinyt.tensor(x), kernel, stride, padding, dilation, return_indices=True
            )
        np.testing.assert_array_equal(values.numpy(), want)
        np.testing.assert_array_equal(indices.numpy(), at)


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
