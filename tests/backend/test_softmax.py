"""softmax, log_softmax and their gradients along any dimension: values, bits, edges of strips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.tensor import prim

# Columns on both sides of a register and of a strip; rows of one element, of some lanes, of blocks.
CHANNELS = [(3, 5, 4), (2, 40, 3, 7), (2, 3, 30, 20), (0, 3, 20), (4, 0, 20)]
SHAPES = [(1, 40), (2, 2049), (21, 1600), (33, 17), (64, 49), (4097, 16), (9000, 18), (30, 7)]


def reference(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def both(x: Any, g: Any, dim: int) -> list[Any]:
    """Both functions and both gradients."""
    soft, log = x.softmax(dim), x.log_softmax(dim)
    slopes = prim.softmax_backward(g, soft, dim), prim.log_softmax_backward(g, log, dim)
    return [t.numpy(force=True) for t in (soft, log, *slopes)]


@pytest.mark.kernels
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_columns_have_the_bits_of_rows(shape: tuple[int, int], dtype: str, rng: Any) -> None:
    data, slope = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    x, g = tinyt.tensor(data), tinyt.tensor(slope)
    rows = both(tinyt.tensor(data.T.copy()), tinyt.tensor(slope.T.copy()), 1)
    turned = both(x.t(), g.t(), 1)
    spread = both(tinyt.tensor(np.repeat(data, 2, 1))[:, ::2], g, 0)
    for by_column, by_row, strided, spaced in zip(both(x, g, 0), rows, turned, spread, strict=True):
        np.testing.assert_array_equal(by_column, by_row.T)
        np.testing.assert_array_equal(strided, by_row)
        np.testing.assert_array_equal(spaced, by_column)


@pytest.mark.parametrize("shape", CHANNELS)
def test_channels(shape: tuple[int, ...], rng: Any) -> None:
    data, slope = rng.standard_normal(shape) * 5, rng.standard_normal(shape)
    if 0 in shape:
        assert tinyt.tensor(data).softmax(1).shape == shape
        return
    soft, log, of_soft, of_log = both(tinyt.tensor(data), tinyt.tensor(slope), 1)
    want = reference(data, 1)
    np.testing.assert_allclose(soft, want, rtol=1e-13)
    np.testing.assert_allclose(log, np.log(want), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        of_soft, want * (slope - (slope * want).sum(1, keepdims=True)), rtol=1e-10, atol=1e-14
    )
    np.testing.assert_allclose(
        of_log, slope - want * slope.sum(1, keepdims=True), rtol=1e-10, atol=1e-13
    )


@pytest.mark.parametrize("classes", [1, 2, 15, 16, 17, 33, 70])
def test_cross_entropy_of_every_class(classes: int, rng: Any) -> None:
    """The target's place in a register, in rows and in columns."""
    data = rng.standard_normal((classes, classes)) * 3
    want = reference(data, 1) - np.eye(classes)
    target = tinyt.arange(classes)
    for dtype, close in (("float64", 1e-13), ("float32", 1e-5)):
        values = data.astype(dtype)
        for x in (tinyt.tensor(values), tinyt.tensor(values.T.copy()).t()):
            x.requires_grad_()
            tinyt.nn.functional.cross_entropy(x, target, reduction="sum").backward()
            np.testing.assert_allclose(x.grad.numpy(force=True), want, atol=close)


@pytest.mark.parametrize("n", [1, 7, 16, 24, 25])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_short_rows_have_the_bits_of_single_ones(n: int, dtype: str, rng: Any) -> None:
    """Many of them are worked on as columns."""
    x, g = (tinyt.tensor(rng.standard_normal((50, n)).astype(dtype)) for _ in range(2))
    single = zip(*(both(x[i : i + 1], g[i : i + 1], 1) for i in range(50)), strict=True)
    for whole, parts in zip(both(x, g, 1), single, strict=True):
        np.testing.assert_array_equal(whole, np.concatenate(parts))


@pytest.mark.parametrize("dim", [0, 1])
def test_extreme_values(dim: int) -> None:
    """A NaN or +inf spoils its line, and no other; -inf has no weight."""
    data = np.zeros((40, 33), "float32")
    data[5, 5] = np.nan
    data[6, 6] = np.inf
    data[7, 7] = -np.inf
    data[8, 8] = 1e30
    data[9, 9] = -1e30
    with np.errstate(invalid="ignore", divide="ignore"):
        want = reference(data.astype("float64"), dim)
        logs = np.log(want)
    x = tinyt.tensor(data)
    np.testing.assert_allclose(x.softmax(dim).numpy(force=True), want, rtol=1e-6)
    got = x.log_softmax(dim).numpy(force=True)
    large = np.isinf(logs) & ~np.isinf(data) & ~np.isnan(got)  # the reference underflows
    np.testing.assert_allclose(got[~large], logs[~large], rtol=1e-6, atol=1e-6)
    assert np.isfinite(got[large]).all()


def test_threads_change_no_bits(rng: Any) -> None:
    data, slope = (rng.standard_normal((3, 50, 40, 41)).astype("float32") for _ in range(2))
    found = []
    for threads in (1, 2, 3, 7):
        tinyt.set_num_threads(threads)
        found.append([both(tinyt.tensor(data), tinyt.tensor(slope), d) for d in (0, 1, 3)])
    for other in found[1:]:
        for got, want in zip(other, found[0], strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_array_equal(a, b)
