"""sort around the lengths where its ways change, and of keys of every width."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinyt

# Registers, the limit of ranks, wider digits and lines that threads share.
LENGTHS = [1, 2, 7, 8, 9, 16, 17, 33, 127, 128, 129, 500, 65_537]
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]


def stable(x: np.ndarray, descending: bool) -> np.ndarray:
    """Positions in stable order; NaN is the largest value."""
    keys = x.astype(object)
    order = sorted(range(len(x)), key=lambda i: (math.isnan(x[i]), keys[i] if x[i] == x[i] else 0))
    if not descending:
        return np.array(order)
    groups: dict[object, list[int]] = {}
    for i in order:
        groups.setdefault("nan" if math.isnan(x[i]) else keys[i], []).append(i)
    return np.array([i for group in reversed(list(groups.values())) for i in group])


def check(x: np.ndarray, descending: bool) -> None:
    values, places = tinyt.tensor(x).sort(-1, descending=descending)
    for line, value, place in zip(x, values.numpy(), places.numpy(), strict=True):
        want = stable(line, descending)
        np.testing.assert_array_equal(place, want)
        np.testing.assert_array_equal(value, line[want])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", *INTEGERS])
def test_every_length_is_stable(dtype: str, descending: bool, rng: np.random.Generator) -> None:
    for n in LENGTHS[:-1]:
        x = rng.integers(0 if dtype == "uint8" else -20, 20, (3, n)).astype(dtype)
        if dtype.startswith("float") and n > 8:
            x[0, ::5] = np.nan
            x[1, 1], x[1, 4], x[2, 3] = -0.0, math.inf, -math.inf
        check(x, descending)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_long_lines(dtype: str, threads: int, rng: np.random.Generator) -> None:
    tinyt.set_num_threads(threads)
    for n in (LENGTHS[-1], 140_001):
        x = rng.standard_normal(n) * 1e6
        if dtype == "int64":
            x = rng.integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, n)
        x = x.astype(dtype)
        values, places = tinyt.tensor(x).sort()
        want = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(places.numpy(), want)
        np.testing.assert_array_equal(values.numpy(), x[want])
        again, same = values.sort()
        np.testing.assert_array_equal(again.numpy(), x[want])
        np.testing.assert_array_equal(same.numpy(), np.arange(n))


@pytest.mark.parametrize("bits", [1, 8, 11, 12, 40, 55, 56, 57, 63])
def test_ranges_of_keys(bits: int, rng: np.random.Generator) -> None:
    """Keys that share a word with their position, and keys that leave no room for it."""
    for n in (129, 300):
        x = rng.integers(0, 1 << bits, n) - (1 << (bits - 1))
        x[0], x[-1] = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        values, places = tinyt.tensor(x).sort(descending=True)
        want = np.argsort(-x.astype(object), kind="stable")
        np.testing.assert_array_equal(places.numpy(), want.astype(np.int64))
        np.testing.assert_array_equal(values.numpy(), x[want.astype(np.int64)])


def test_extreme_integers() -> None:
    low, high = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    x = tinyt.tensor(np.array([0, high, low, -1, high, low] * 30))
    assert x.sort()[0].tolist() == sorted(x.tolist())


def test_signs_of_zero_and_nan_survive() -> None:
    for n in (4, 200):
        x = np.resize(np.array([0.0, -0.0, np.nan, 1.0], np.float32), n)
        values = tinyt.tensor(x).sort()[0].numpy()
        zeros = values[values == 0]
        np.testing.assert_array_equal(np.signbit(zeros), np.resize([False, True], len(zeros)))
        assert np.isnan(values[-n // 4 :]).all()


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 100])
def test_searches_in_step(length: int, right: bool, rng: np.random.Generator) -> None:
    sides = {False: "left", True: "right"}
    for count in (1, 15, 16, 17, 40):
        sorted_lines = np.sort(rng.integers(0, 30, (3, length)).astype(np.float32), 1)
        values = rng.integers(-2, 33, (3, count)).astype(np.float32)
        got = tinyt.searchsorted(tinyt.tensor(sorted_lines), tinyt.tensor(values), right=right)
        for line, value, found in zip(sorted_lines, values, got.numpy(), strict=True):
            np.testing.assert_array_equal(found, np.searchsorted(line, value, sides[right]))
