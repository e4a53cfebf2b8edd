"""Matrix products of halves and bytes: against float64, on every layout and number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tinyt
from sampling import Array, assert_same_bits
from tinyt.compiler.capture.recording import record

HALVES = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Half a unit in the last place of 1."""
SUBNORMAL = {"bfloat16": 2.0**-130, "float16": 2.0**-20}
DTYPES = (*HALVES, "int8", "uint8")

# Edges of 16 lines, of 32, of steps of 32 and 64 along k, of blocks of k; several spans of k;
# one short operand (of either side) and none, with and without several spans; vectors.
SHAPES = [
    (1, 1, 1),
    (3, 0, 2),
    (0, 3, 4),
    (16, 32, 16),
    (17, 33, 15),
    (31, 65, 33),
    (1, 300, 70),
    (70, 257, 1),
    (64, 256, 65),
    (65, 255, 66),
    (66, 513, 100),
    (130, 70, 600),
    (600, 130, 70),
    (33, 1400, 70),
    (1, 5000, 1100),
    (90, 5000, 1),
    (40, 8200, 20),
    (70, 4200, 66),
    (200, 4200, 200),
]


def operand(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> Any:
    if dtype in HALVES:
        return tinyt.tensor(rng.standard_normal(shape).astype("float32")).to(getattr(tinyt, dtype))
    info = np.iinfo(dtype)
    return tinyt.tensor(rng.integers(info.min, info.max + 1, shape).astype(dtype))


def layouts(t: Any) -> Iterator[Any]:
    """The same values along their lines, across them, and with gaps both ways."""
    yield t
    yield t.mT.contiguous().mT
    *batch, m, n = t.shape
    wide = tinyt.zeros(*batch, 2 * m + 1, 3 * n + 1, dtype=t.dtype)
    view = wide[..., 1 : 2 * m + 1 : 2, 1 : 3 * n + 1 : 3]
    view.copy_(t)
    yield view


def exact(t: Any) -> Array:
    return np.asarray(
        t.to(tinyt.float64 if t.is_floating_point() else tinyt.int64).numpy(force=True)
    )


def same_bits(got: Any, want: Any, what: str) -> None:
    """NumPy has no bfloat16, but float32 tells its values apart."""
    assert got.dtype == want.dtype, what
    wide = tinyt.float32 if got.is_floating_point() else got.dtype
    assert_same_bits(got.detach().to(wide), want.detach().to(wide), what)


def check_values(a: Any, b: Any, c: Any, dtype: str) -> None:
    x, y, got = exact(a), exact(b), exact(c)
    want = x.astype("float64") @ y.astype("float64")  # exact for bytes
    if dtype not in HALVES:
        np.testing.assert_array_equal(got, want.astype("int64").astype(dtype))
        return
    bound = HALVES[dtype] * np.abs(want) + 2.0**-21 * (np.abs(x) @ np.abs(y))
    assert (np.abs(got - want) <= bound + 1e-7).all()


def checked_product(a: Any, b: Any, dtype: str) -> Any:
    """On one thread, which is what others are compared with."""
    tinyt.set_num_threads(1)
    product = a @ b
    check_values(a, b, product, dtype)
    return product


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products(shape: tuple[int, int, int], dtype: str, rng: np.random.Generator) -> None:
    m, k, n = shape
    a, b = operand(rng, (m, k), dtype), operand(rng, (k, n), dtype)
    want = checked_product(a, b, dtype)
    for number, (x, y) in enumerate(zip(layouts(a), reversed(list(layouts(b))), strict=True)):
        for threads in (1, 2, 3, 7):
            tinyt.set_num_threads(threads)
            same_bits(x @ y, want, f"layout {number}, {threads} threads")


# No operand fits into a cache whole: one span of k and several, of each size of the elements.
LARGE = [(321, 2100, 330), (170, 8000, 180), (170, 8300, 180)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_large_products(shape: tuple[int, int, int], dtype: str, rng: np.random.Generator) -> None:
    m, k, n = shape
    a, b = operand(rng, (m, k), dtype), operand(rng, (k, n), dtype)
    want = checked_product(a, b, dtype)
    tinyt.set_num_threads(3)
    same_bits(a.mT.contiguous().mT @ b.mT.contiguous().mT, want, "another layout, three threads")


@pytest.mark.parametrize("shape", [(2080, 4100, 170), (170, 4100, 2080)], ids=str)
def test_products_of_several_regions(shape: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, k, n = shape
    a, b = operand(rng, (m, k), "bfloat16"), operand(rng, (k, n), "bfloat16")
    check_values(a, b, a @ b, "bfloat16")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shapes",
    [((5, 33, 70), (5, 70, 40)), ((4, 1, 9, 64), (3, 64, 31)), ((300, 3, 5), (300, 5, 2))],
    ids=str,
)
def test_batches(shapes: Any, dtype: str, rng: np.random.Generator) -> None:
    a, b = (operand(rng, shape, dtype) for shape in shapes)
    want = checked_product(a, b, dtype)
    tinyt.set_num_threads(3)
    for x in layouts(a):
        same_bits(x @ b, want, "three threads")


@pytest.mark.parametrize("shape", [(3, 5, 2), (65, 1030, 70), (330, 4200, 321)], ids=str)
def test_bytes_to_int32(shape: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, k, n = shape
    a, b = operand(rng, (m, k), "int8"), operand(rng, (k, n), "int8")
    want = (exact(a).astype("float64") @ exact(b).astype("float64")).astype("int32")
    for x, threads in zip(layouts(a), (1, 2, 3), strict=True):
        tinyt.set_num_threads(threads)
        np.testing.assert_array_equal(tinyt._int_mm(x, b).numpy(force=True), want)


@pytest.mark.parametrize("dtype", HALVES)
def test_infinities_and_nans(dtype: str, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((40, 70)), rng.standard_normal((70, 50))
    a[3, 5], a[7, 9], b[11, 4], b[5, 6] = np.inf, np.nan, -np.inf, 0
    a[9] = 0
    a[0], b[:, 0] = 60000, 60000
    x, y = (tinyt.tensor(v).to(getattr(tinyt, dtype)) for v in (a, b))
    with np.errstate(all="ignore"):
        want = tinyt.tensor(exact(x) @ exact(y)).to(getattr(tinyt, dtype))
    got, want = exact(x @ y), exact(want)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(want) * np.sign(want))
    finite = np.isfinite(want)
    error = np.abs(got[finite] - want[finite])
    assert (error <= 2 * HALVES[dtype] * np.abs(want[finite]) + 1e-3).all()


def test_small_and_large_values() -> None:
    """The whole range of float16, subnormals too, adds up without an intermediate rounding."""
    values = [6e-8, 2.0**-14, 3.14e-5, 1.0, 1.0009765625, 2047.0, 65504.0]
    x = tinyt.tensor(values, dtype=tinyt.float16)
    scale = tinyt.tensor([[1.0]], dtype=tinyt.float16)
    same_bits((x.reshape(7, 1) @ scale).flatten(), x, "times one")
    squares = tinyt.tensor([[2.0**-12, 2.0**-12]], dtype=tinyt.float16)
    assert (squares @ squares.mT).item() == 2.0**-23
    tiny = tinyt.tensor([[2.0**-100, 1.0]], dtype=tinyt.bfloat16)
    assert (tiny @ tinyt.tensor([[2.0**-20], [0.0]], dtype=tinyt.bfloat16)).item() == 2.0**-120


@pytest.mark.parametrize("dtype", DTYPES)
def test_recorded(dtype: str, rng: np.random.Generator) -> None:
    a, b = operand(rng, (70, 100), dtype), operand(rng, (100, 80), dtype)
    for got in record(lambda x, y: x @ y, a, b).run():
        same_bits(got, a @ b, "recorded")


def check_sum(got: Any, a: Any, b: Any, c: Any, dtype: str) -> None:
    """A product and an addend, rounded once: within half a unit and what float32 sums lose."""
    left, right, added = (t.double().numpy(force=True) for t in (a, b, c))
    with np.errstate(invalid="ignore"):
        exact = left @ right + added
        size = np.abs(left) @ np.abs(right) + np.abs(added)
        value = got.double().numpy(force=True)
        bound = np.abs(exact) * HALVES[dtype] * 1.001 + size * 2.0**-19
        near = np.abs(value - exact) <= bound
    rounded = (
        tinyt.tensor(exact).to(got.dtype).double().numpy(force=True)
    )  # what is not finite, too
    same = (value == rounded) | (np.isnan(value) & np.isnan(rounded))
    assert (near | same).all()


@pytest.mark.parametrize("dtype", HALVES)
def test_addends(dtype: str, rng: np.random.Generator) -> None:
    """One rounding and the same bits, whatever is broadcast and whatever is not finite."""
    a, b = operand(rng, (70, 300), dtype), operand(rng, (300, 45), dtype)
    bias = operand(rng, (45,), dtype)
    bias[3], bias[4] = np.inf, np.nan
    addends = (bias, bias[5:6], *(operand(rng, shape, dtype) for shape in ((70, 1), (70, 45))))
    for c in (*addends, operand(rng, (45, 70), dtype).t()):
        check_sum(tinyt.addmm(c, a, b), a, b, c, dtype)
        want = tinyt.addmm(c.expand(70, 45).contiguous(), a, b)
        for threads in (1, 3):
            tinyt.set_num_threads(threads)
            same_bits(tinyt.addmm(c, a, b), want, f"addend {tuple(c.shape)}")
    rows = operand(rng, (2, 35, 300), dtype)
    check_sum(tinyt.nn.functional.linear(rows, b.mT, bias), rows, b, bias, dtype)
    same_bits(
        tinyt.addmm(bias, a[:, :0], b[:0]), bias.expand(70, 45).contiguous(), "sums of nothing"
    )
    check_sum(tinyt.addmv(a[:, 0], a, b[:, 1]), a, b[:, 1], a[:, 0], dtype)
    least = tinyt.tensor([[SUBNORMAL[dtype]]], dtype=getattr(tinyt, dtype))
    zero = tinyt.zeros(1, 1, dtype=least.dtype)
    same_bits(tinyt.addmm(least, zero, zero), least, "subnormal addend")


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("like", [0.0, 1.0, np.inf], ids=str)
def test_every_addend(like: float, dtype: str, rng: np.random.Generator) -> None:
    """All 65536 halves are added to a product before it is rounded."""
    c = tinyt.tensor(np.arange(2**16, dtype=np.int32).astype(np.int16)).view(getattr(tinyt, dtype))
    c = c.reshape(64, 1024)
    a, b = operand(rng, (64, 40), dtype) * like, operand(rng, (40, 1024), dtype)
    check_sum(tinyt.addmm(c, a, b), a, b, c, dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_linear_with_gradients(dtype: str, rng: np.random.Generator) -> None:
    x, w = operand(rng, (70, 40), dtype), operand(rng, (90, 40), dtype)
    for t in (x, w):
        t.requires_grad_()
    out = tinyt.nn.functional.linear(x, w)
    g = operand(rng, (70, 90), dtype)
    out.backward(g)
    check_values(x.detach(), w.detach().mT, out.detach(), dtype)
    check_values(g, w.detach(), x.grad, dtype)
    check_values(g.mT, x.detach(), w.grad, dtype)
