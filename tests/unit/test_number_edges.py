"""Arithmetic at the edges of a dtype: shift counts, division, neighbours, infinities, NaN."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.nn.functional import embedding_bag

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
COUNTS = [-128, -65, -64, -33, -9, -8, -1, 0, 1, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 127]


def integers(name: str) -> tuple[Any, list[int], list[int]]:
    """A dtype, values to its ends, and the shift counts that it can hold."""
    dtype = getattr(tinyt, name)
    info = tinyt.iinfo(dtype)
    values = [v for v in (1, 5, 93, -1, -3, info.min, info.max) if info.min <= v <= info.max]
    return dtype, values, [n for n in COUNTS if info.min <= n <= info.max]


def wrapped(value: int, name: str) -> int:
    """What of an integer fits into the dtype."""
    bits = np.dtype(name).itemsize * 8
    value &= (1 << bits) - 1
    return value - (1 << bits) if name != "uint8" and value >> (bits - 1) else value


@pytest.mark.parametrize("name", INTEGERS)
def test_shift_counts_outside_the_width(name: str) -> None:
    """All bits go: what is left is zero, or the sign where the shift is to the right. Negative
    counts do the same. As in PyTorch, where C++ says nothing."""
    dtype, values, counts = integers(name)
    bits = np.dtype(name).itemsize * 8
    x = tinyt.tensor(values * 7, dtype=dtype)
    for n in counts:
        inside = 0 <= n < bits
        left = [wrapped(v << n, name) if inside else 0 for v in values]
        right = [v >> (n if inside else bits) for v in values]
        for count in (n, tinyt.tensor(n, dtype=dtype), tinyt.full_like(x, n)):
            assert (x << count).tolist() == left * 7, n
            assert (x >> count).tolist() == right * 7, n
    assert (1 << tinyt.tensor([0, 3, 64, -1])).tolist() == [1, 8, 0, 0]
    assert (-9 >> tinyt.tensor([0, 3, 64, -1])).tolist() == [-9, -2, -1, -1]


@pytest.mark.parametrize("name", [*INTEGERS, "float16", "bfloat16", "float32", "float64"])
def test_divmod(name: str) -> None:
    dtype = getattr(tinyt, name)
    for other in (3, -3, 2.5):
        if other == -3 and name == "uint8":
            continue
        values = [7, 5, 3, 1] if name == "uint8" else [7, -5, 3, -1]
        x = tinyt.tensor(values, dtype=dtype)
        pairs = (
            (divmod(x, other), [divmod(v, other) for v in values]),
            (divmod(other, x), [divmod(other, v) for v in values]),
            (divmod(x, tinyt.full_like(x, int(other))), [divmod(v, int(other)) for v in values]),
        )
        for (quotient, rest), want in pairs:
            assert [*zip(quotient.tolist(), rest.tolist(), strict=True)] == want
            assert quotient.dtype is rest.dtype
    with pytest.raises(TypeError, match="str"):
        divmod(tinyt.ones(1), "a")
    with pytest.raises(TypeError, match="str"):
        divmod("a", tinyt.ones(1))


def test_divmod_by_zero() -> None:
    with pytest.raises(RuntimeError, match=r"floor_divide.*zero"):
        divmod(tinyt.tensor([1]), 0)
    quotient, rest = divmod(tinyt.tensor([1.0, -1.0, 0.0]), 0)
    assert quotient.tolist()[:2] == [math.inf, -math.inf]
    assert bool(quotient[2:].isnan())
    assert bool(rest.isnan().all())


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_least_integers_divided(bits: int) -> None:
    """Quotients beside the least number; the sanitizer sees what overflows and is not chosen."""
    least, dtype = -(2 ** (bits - 1)), getattr(tinyt, f"int{bits}")
    x, y = [least, least, least, least + 1, least + 1], [1, 2, 3, -1, 2]
    got = tinyt.floor_divide(tinyt.tensor(x, dtype=dtype), tinyt.tensor(y, dtype=dtype))
    assert got.tolist() == [a // b for a, b in zip(x, y, strict=True)]
    assert got.dtype is dtype


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_nan_to_num_replaces_infinities_by_the_ends(name: str) -> None:
    dtype = getattr(tinyt, name)
    info = tinyt.finfo(dtype)
    x = tinyt.tensor([math.nan, math.inf, -math.inf, 1.0, info.max, info.min], dtype=dtype)
    assert tinyt.nan_to_num(x).tolist() == [0.0, info.max, info.min, 1.0, info.max, info.min]
    assert tinyt.nan_to_num(x, 2.0, neginf=-3.0).tolist()[:3] == [2.0, info.max, -3.0]
    assert tinyt.nan_to_num(x, math.inf, 4.0).tolist()[:3] == [math.inf, 4.0, info.min]
    out = tinyt.empty_like(x)
    assert tinyt.nan_to_num(x, out=out) is out
    assert out.tolist() == x.nan_to_num_().tolist()
    assert x.isfinite().all().item()


@pytest.mark.parametrize(("name", "part"), [("complex64", "float32"), ("complex128", "float64")])
def test_nan_to_num_of_complex_parts(name: str, part: str) -> None:
    most = tinyt.finfo(getattr(tinyt, part)).max
    x = tinyt.tensor(
        [complex(math.nan, math.inf), complex(-math.inf, 2)], dtype=getattr(tinyt, name)
    )
    assert tinyt.nan_to_num(x).tolist() == [complex(0, most), complex(-most, 2)]
    assert tinyt.nan_to_num(x, 1.5, 2.0, -3.0).tolist() == [1.5 + 2j, -3 + 2j]
    assert tinyt.nan_to_num(x[:1], out=tinyt.empty_like(x[:1])).tolist() == [complex(0, most)]
    assert x.nan_to_num_().tolist() == [complex(0, most), complex(-most, 2)]


def order(x: Any) -> Any:
    """Sixteen-bit floats as integers in the order of their values; both zeros are 0."""
    bits = x.view(tinyt.int16).numpy().astype(np.int32)
    return np.where(bits < 0, -(bits & 0x7FFF), bits)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("to", [math.inf, -math.inf, 0.0, -0.0, 1.0, -3.5, 60000.0, math.nan])
def test_nextafter_of_every_half(name: str, to: float) -> None:
    """The integers next to each other are the floats next to each other."""
    dtype = getattr(tinyt, name)
    every = np.arange(65536, dtype=np.uint16).view(np.int16)
    x = tinyt.from_numpy(every).view(dtype)
    y = tinyt.full_like(x, to)
    got = tinyt.nextafter(x, y)
    assert got.dtype is dtype
    unknown = x.isnan().numpy() | math.isnan(to)
    np.testing.assert_array_equal(got.isnan().numpy(), unknown)
    step = np.sign(order(y) - order(x))
    np.testing.assert_array_equal(order(got)[~unknown], (order(x) + step)[~unknown])
    there = (step == 0) & ~unknown
    np.testing.assert_array_equal(
        got.view(tinyt.int16).numpy()[there], y.view(tinyt.int16).numpy()[there]
    )


def test_nextafter_of_halves_in_place_and_broadcast() -> None:
    x = tinyt.ones(2, 1, dtype=tinyt.float16)
    got = tinyt.nextafter(x, tinyt.tensor([0.0, 2.0], dtype=tinyt.float16))
    assert got.tolist() == [[1 - 2**-11, 1 + 2**-10]] * 2
    out = tinyt.empty(2, 2, dtype=tinyt.float16)
    tinyt.nextafter(x, x.expand(2, 2) * 3, out=out)
    assert out.tolist() == [[1 + 2**-10] * 2] * 2
    x.nextafter_(-x)
    assert x.tolist() == [[1 - 2**-11]] * 2


@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("offsets", [False, True])
def test_the_first_of_the_largest_in_a_bag_has_the_gradient(
    offsets: bool, padding: int | None
) -> None:
    table = [[1.0, math.nan], [2.0, 3.0], [-math.inf, 0.0], [math.inf, 3.0], [9.0, 9.0]]
    weight = tinyt.tensor(table, requires_grad=True)
    bags, starts = tinyt.tensor([[0, 1], [2, 2], [1, 3]]), None
    if padding is not None:
        bags = tinyt.cat([bags, tinyt.full((3, 1), padding)], 1)
    if offsets:
        bags, starts = bags.flatten(), tinyt.arange(0, bags.numel(), bags.shape[1])
    largest = embedding_bag(bags, weight, starts, mode="max", padding_idx=padding)
    largest.sum().backward()
    want = [[2.0, math.nan], [-math.inf, 0.0], [math.inf, 3.0]]
    np.testing.assert_array_equal(largest.detach().numpy(), want)
    np.testing.assert_array_equal(weight.grad.numpy(), [[0, 1], [1, 1], [1, 1], [1, 0], [0, 0]])


def test_least_common_multiples_that_wrap_are_not_negative() -> None:
    """3 * 2**62 is 2**63 + 2**62, which wraps to -2**62: its absolute value, as in PyTorch."""
    x, y = tinyt.tensor([2**62, -(2**62), 6, -6, 0]), tinyt.tensor([3, 3, -4, 4, 7])
    assert tinyt.lcm(x, y).tolist() == [2**62, 2**62, 12, 12, 0]
