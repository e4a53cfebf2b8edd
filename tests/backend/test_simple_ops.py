"""Ops and conversions of a few instructions, whose loops take several registers at once: an element
for all beside rows, bounds of any kind, lengths about whole registers and chunks."""

from __future__ import annotations

import itertools
import math
import operator

import numpy as np
import pytest

import tinyt

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_clamped_by_one_bound(dtype: str) -> None:
    """A bound for all, of any kind, gives what the same bound for each does: in whole registers
    and in what is left of them, in rows of their own and in place."""
    kind = getattr(tinyt, dtype)
    bits = np.uint32 if dtype == "float32" else np.uint64
    bounds = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 1e-40, math.nan]
    x = np.resize(np.array([*bounds, 0.5, -0.5, 2.0, -2.0, -1e-40], dtype), (3, 77))
    last = tinyt.as_tensor(x)
    rows = tinyt.as_tensor(np.concatenate([x, x], 1))[:, :77]

    def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(a) | ~np.isnan(b) & ((a > b) | (a == b) & np.signbit(b)), a, b)

    def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(a) | ~np.isnan(b) & ((a < b) | (a == b) & np.signbit(a)), a, b)

    for low, high in itertools.product([None, *bounds], [None, *bounds]):
        if low is None and high is None:
            continue
        want = x if low is None else larger(x, np.array(low, dtype))
        want = want if high is None else smaller(want, np.array(high, dtype))
        low_bound = None if low is None else tinyt.tensor(low, dtype=kind)
        high_bound = None if high is None else tinyt.tensor(high, dtype=kind)
        in_place = last.clone()
        in_place.clamp_(low_bound, high_bound)
        for got in (last.clamp(low_bound, high_bound), rows.clamp(low_bound, high_bound), in_place):
            np.testing.assert_array_equal(
                got.numpy(force=True).view(bits), want.view(bits), f"{low} {high}"
            )


def test_float32_to_narrower(rng: np.random.Generator) -> None:
    """Conversions of float32 to bfloat16, float16 and bool, of whole registers and what is left."""
    special = np.array([0x7F800001, 0xFFC00000, 0x7F800000, 0x80000000, 0x7F7FFFFF, 1], np.uint32)
    for n in (1, 5, 7, 8, 15, 16, 31, 32, 33, 65, 150, 1000):
        bits = rng.integers(0, 1 << 32, n, dtype=np.uint32)
        bits[: len(special)] = special[:n]
        values = bits.view(np.float32)
        x = tinyt.as_tensor(values)
        rounded = ((bits.astype(np.uint64) + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
        want = np.where(np.isnan(values), np.uint16(0x7FC0), rounded)
        got = x.to(tinyt.bfloat16).float().numpy(force=True).view(np.uint32) >> 16
        np.testing.assert_array_equal(got, want)
        with np.errstate(over="ignore", invalid="ignore"):
            half = values.astype(np.float16)
        np.testing.assert_array_equal(x.to(tinyt.float16).numpy(force=True), half)
        np.testing.assert_array_equal(x.to(tinyt.bool).numpy(force=True), values != 0)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16", "bool"])
@pytest.mark.parametrize("n", [1, 15, 31, 32, 33, 67, 40000, 98305])
def test_rows_beside_one_element(n: int, dtype: str, rng: np.random.Generator) -> None:
    """An element for all is read on either side, and as a product's factor."""
    a, b = ((rng.integers(-9, 9, n)).astype(dtype) for _ in range(2))
    x, y = tinyt.as_tensor(a), tinyt.as_tensor(b)
    one = np.array(3).astype(dtype)
    number = tinyt.as_tensor(one)
    for threads in (1, 3):
        tinyt.set_num_threads(threads)
        np.testing.assert_array_equal((x + y).numpy(force=True), a + b)
        np.testing.assert_array_equal((x * number).numpy(force=True), a * one)
        np.testing.assert_array_equal((number + x).numpy(force=True), one + a)
        np.testing.assert_array_equal(
            tinyt.where(x > y, x, number).numpy(force=True), np.where(a > b, a, one)
        )
        np.testing.assert_array_equal(
            tinyt.where(x > y, number, y).numpy(force=True), np.where(a > b, one, b)
        )
        for compare in COMPARISONS:
            np.testing.assert_array_equal(compare(x, y).numpy(force=True), compare(a, b))
            np.testing.assert_array_equal(compare(x, number).numpy(force=True), compare(a, one))
            np.testing.assert_array_equal(compare(number, x).numpy(force=True), compare(one, a))
        if dtype != "bool":
            np.testing.assert_array_equal((number - x).numpy(force=True), one - a)
            np.testing.assert_array_equal(
                tinyt.addcmul(x, y, number, value=2).numpy(force=True), a + 2 * b * 3
            )
            np.testing.assert_array_equal(x.add(y, alpha=2).numpy(force=True), a + 2 * b)
