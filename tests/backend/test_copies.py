"""Copies whose ways depend on size and layout: squares of a transposing copy and what is left at
their ends, results that pass the caches, conversions with instructions of their own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tinyt

DTYPES = ("int8", "int16", "float32", "float64", "complex128")
# Sides of squares at any level, one more and one less; rows that begin anywhere in a cache line.
SIDES = (1, 2, 3, 15, 16, 17, 31, 33, 64, 65, 130)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _restore_threads() -> Iterator[None]:
    before = tinyt.get_num_threads()
    yield
    tinyt.set_num_threads(before)


def numbers(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-100, 100, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposed_sides(dtype: str, rng: np.random.Generator) -> None:
    for rows in SIDES:
        for columns in SIDES:
            a = numbers((rows, columns), dtype, rng)
            x = tinyt.from_numpy(a)
            np.testing.assert_array_equal(x.t().contiguous().numpy(), a.T)
            part, want = x[1:, 1:].t(), a[1:, 1:].T
            np.testing.assert_array_equal(part.contiguous().numpy(), want)
            np.testing.assert_array_equal((part + part).numpy(), want + want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [(3, 2, 1, 0), (0, 2, 3, 1), (0, 3, 1, 2), (2, 0, 3, 1)])
def test_permuted(dtype: str, order: tuple[int, ...], rng: np.random.Generator) -> None:
    a = numbers((3, 20, 17, 35), dtype, rng)
    for part in (a, a[:, ::2], a[:, :, ::-1], a[..., :3]):
        x = tinyt.from_numpy(np.ascontiguousarray(part))
        got = x.permute(order).contiguous().numpy()
        np.testing.assert_array_equal(got, part.transpose(order))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_transposed_past_the_caches(threads: int, rng: np.random.Generator) -> None:
    """Large enough to be streamed; rows that fill cache lines, and rows that do not."""
    tinyt.set_num_threads(threads)
    for shape in ((1040, 784), (1001, 777)):
        a = numbers(shape, "float32", rng)
        x = tinyt.from_numpy(a)
        np.testing.assert_array_equal(x.t().contiguous().numpy(), a.T)
        into = tinyt.zeros(shape[1], shape[0] + 3)
        into[:, 1:-2].copy_(x.t())
        np.testing.assert_array_equal(into.numpy()[:, 1:-2], a.T)
        assert not into.numpy()[:, [0, -2, -1]].any()


def test_results_past_the_caches(rng: np.random.Generator) -> None:
    tinyt.set_num_threads(3)
    n = 4 * MIB + 5
    a = rng.integers(-100, 100, n).astype(np.float32)
    x = tinyt.from_numpy(a)
    later = tinyt.empty(n + 3)[3:]  # no whole cache line at either end
    np.testing.assert_array_equal((x + x).numpy(), a + a)
    later.copy_(x)
    np.testing.assert_array_equal(later.numpy(), a)
    tinyt.neg(x, out=later)
    np.testing.assert_array_equal(later.numpy(), -a)
    np.testing.assert_array_equal(x.int().numpy(), a.astype(np.int32))
    np.testing.assert_array_equal(tinyt.full((n,), 3.5).numpy(), np.full(n, 3.5, np.float32))


def test_broadcasts_past_the_caches(rng: np.random.Generator) -> None:
    tinyt.set_num_threads(3)
    a = rng.integers(-100, 100, (2100, 2003)).astype(np.float32)
    b = rng.integers(-100, 100, (2100, 1)).astype(np.float32)
    x = tinyt.from_numpy(a)
    np.testing.assert_array_equal((x * tinyt.from_numpy(b)).numpy(), a * b)
    into = tinyt.zeros(2100, 2010)
    tinyt.add(x, tinyt.from_numpy(a[0]), out=into[:, 4:-3])
    np.testing.assert_array_equal(into.numpy()[:, 4:-3], a + a[0])
    assert not into.numpy()[:, [0, 1, 2, 3, -3, -2, -1]].any()


def assert_same_halves(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits; any NaN for a NaN."""
    unsigned = np.uint16 if want.dtype == np.float16 else np.uint32
    same = (got.view(unsigned) == want.view(unsigned)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), want[~same][:5]


def test_every_float16_to_float32() -> None:
    """Subnormals too; the conversion to float64 is the one without instructions."""
    a = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = tinyt.from_numpy(a)
    assert_same_halves(x.float().numpy(), a.astype(np.float32))
    bits = x.float().numpy().view(np.uint32)
    np.testing.assert_array_equal(bits, x.double().float().numpy().view(np.uint32))


def test_float32_to_float16(rng: np.random.Generator) -> None:
    """All halves, the numbers half way between two of them, and the neighbours of both."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    bits = every.view(np.uint32)
    with np.errstate(all="ignore"):
        middle = ((every + np.roll(every, -1)) / 2).view(np.uint32)
        step = np.array([[-1], [0], [1]]).astype(np.uint32)  # wraps
        near = (np.stack([bits, middle])[:, None] + step).ravel()
        a = np.concatenate([near, rng.integers(0, 1 << 32, 99_999, np.uint32)]).view(np.float32)
        want = a.astype(np.float16)
    got = tinyt.from_numpy(a).half().numpy()
    assert_same_halves(got, want)
    twice = tinyt.from_numpy(a).double().half().numpy()
    np.testing.assert_array_equal(got.view(np.uint16), twice.view(np.uint16))
