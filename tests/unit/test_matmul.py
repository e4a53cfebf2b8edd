"""Products of sizes around the edges of tiles and blocks, however the operands lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt.tensor import prim


def transposed(array: np.ndarray) -> tinyt.Tensor:
    return tinyt.tensor(np.ascontiguousarray(array.swapaxes(-1, -2))).mT


def padded_rows(array: np.ndarray) -> tinyt.Tensor:
    wide = np.full((*array.shape[:-1], array.shape[-1] + 5), 77, array.dtype)
    wide[..., 3:-2] = array
    return tinyt.tensor(wide)[..., 3:-2]


def spread(array: np.ndarray) -> tinyt.Tensor:
    *lead, rows, cols = array.shape
    wide = np.full((*lead, 2 * rows, 3 * cols), 77, array.dtype)
    wide[..., ::2, ::3] = array
    return tinyt.tensor(wide)[..., ::2, ::3]


LAYOUTS: list[Callable[[np.ndarray], tinyt.Tensor]] = [
    tinyt.tensor,
    transposed,
    padded_rows,
    spread,
]

SHAPES = [
    # batch, m, k, n: one tile, its edges, several blocks of k, products of few rows or columns
    ((), 12, 7, 32),
    ((), 13, 256, 33),
    ((), 11, 257, 31),
    ((), 25, 300, 17),
    ((), 97, 5, 513),
    ((), 130, 64, 100),
    ((), 2, 513, 130),
    ((), 13, 512, 33),
    ((), 98, 1025, 35),
    ((), 200, 33, 2),
    ((), 3, 1, 3),
    ((3,), 16, 16, 16),
    ((40,), 9, 20, 27),
    ((2, 3), 5, 40, 7),
    # batches of small products: sizes of tiles and past them, several runs and tasks
    ((5, 700), 3, 3, 3),
    ((3000,), 4, 4, 4),
    ((257,), 8, 8, 8),
    ((9, 7), 17, 6, 33),
    ((19,), 49, 32, 49),
    ((3,), 2, 512, 4),
    ((3,), 4, 513, 2),
    # few rows against many columns: multiplied the other way round where B lies transposed
    ((), 2, 40, 3),
    ((), 6, 593, 215),
    ((), 9, 1030, 97),
    ((), 16, 96, 500),
    ((), 32, 257, 61),
    ((), 33, 257, 61),
    ((3,), 7, 520, 40),
    ((), 16, 4097, 20),
    # few rows of B that are a multiple of 2 KiB long: packed on the stack
    ((), 40, 16, 512),
    ((), 130, 7, 1024),
    # a vector: lanes, blocks of the reduction
    ((), 1, 31, 40),
    ((), 1, 4096, 33),
    ((), 1, 4097, 5),
    ((), 70, 9000, 1),
    ((), 1, 3, 2050),
    ((), 1, 8200, 1),
    ((5,), 1, 64, 30),
    ((5,), 30, 64, 1),
    # few elements, sums long enough to be cut
    ((), 3, 8193, 2),
    ((2,), 5, 17000, 4),
    ((), 6, 9000, 31),
    ((), 16, 8200, 16),
]


def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if dtype == "int64":
        return rng.integers(-1000, 1000, shape)
    return rng.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_edges(shape: Any, dtype: str, rng: np.random.Generator) -> None:
    """Near the exact result, and the same bits for all layouts and threads."""
    batch, m, k, n = shape
    a, b = draw(rng, (*batch, m, k), dtype), draw(rng, (*batch, k, n), dtype)
    tinyt.set_num_threads(1)
    want = (tinyt.tensor(a) @ tinyt.tensor(b)).numpy()
    if dtype == "int64":
        np.testing.assert_array_equal(want, a @ b)
    else:
        exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
        size = np.abs(a).astype(np.longdouble) @ np.abs(b).astype(np.longdouble)
        # A chain of at most 512 roundings, most of which cancel.
        assert np.all(np.abs(want - exact) <= 12 * np.finfo(dtype).eps * size)
    for i, left in enumerate(LAYOUTS):
        for j, right in enumerate(LAYOUTS):
            tinyt.set_num_threads((1, 2, 3, 7)[(i + j) % 4])
            got = (left(a) @ right(b)).numpy()
            np.testing.assert_array_equal(got, want, err_msg=f"{left.__name__} {right.__name__}")


@pytest.mark.parametrize(
    "sizes", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (1, 0, 4), (3, 0, 1), (1, 0, 1)]
)
def test_nothing_to_multiply(sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    got = tinyt.ones(m, k) @ tinyt.ones(k, n)
    assert got.tolist() == np.zeros((m, n)).tolist()


def test_rows_do_not_depend_on_their_neighbours(rng: np.random.Generator) -> None:
    """A row's bits are its own, whatever else is multiplied with it."""
    a, b = draw(rng, (200, 300), "float32"), draw(rng, (300, 150), "float32")
    x, y = tinyt.tensor(a), tinyt.tensor(b)
    whole = (x @ y).numpy()
    for rows, cols in ((2, 150), (13, 2), (97, 33), (200, 149)):
        np.testing.assert_array_equal((x[:rows] @ y[:, :cols]).numpy(), whole[:rows, :cols])


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int64", "int32", "float16", "bfloat16", "complex64"]
)
@pytest.mark.parametrize(
    "shape",
    [
        ((), 13, 300, 33),
        ((), 97, 4, 49),
        ((3,), 1, 40, 7),
        ((2, 3), 5, 20, 17),
        ((), 14, 1030, 45),
        ((4,), 6, 5, 1),
        ((), 1, 4100, 3),
        ((), 2, 8200, 3),
        ((), 3, 0, 5),
    ],
    ids=str,
)
def test_an_addend_has_the_bits_of_an_addition(
    shape: Any, dtype: str, rng: np.random.Generator
) -> None:
    batch, m, k, n = shape
    to = getattr(tinyt, dtype)
    scale = 3 if "int" in dtype else 1

    def values(*size: int) -> tinyt.Tensor:
        return tinyt.tensor(rng.standard_normal(size) * scale).to(to)

    a, b = values(*batch, m, k), values(k, n)
    product = prim.matmul(a, b)
    for size in ((n,), (m, 1), (m, n), (*batch, m, n), (), (1, n)):
        c = values(*size)
        for addend in (c, c.mT.contiguous().mT) if len(size) > 1 else (c,):
            want = prim.add(product, addend)
            if to in (tinyt.float16, tinyt.bfloat16):  # they are rounded once: test_linear.py
                want = prim.matmul_add(a, b, addend.expand(product.shape).contiguous())
            for threads in (1, 3):
                tinyt.set_num_threads(threads)
                for right in (b, b.mT.contiguous().mT):
                    got = prim.matmul_add(a, right, addend)
                    assert got.dtype is to
                    assert got.tolist() == want.tolist(), f"{size}, {threads} threads"


def test_an_addend_does_not_widen_the_product() -> None:
    a = tinyt.ones(2, 3)
    with pytest.raises(tinyt.ShapeError, match=r"matmul_add: .*\(5, 2, 4\).*\(2, 4\)"):
        prim.matmul_add(a, tinyt.ones(3, 4), tinyt.ones(5, 2, 4))
    with pytest.raises(tinyt.DTypeError, match=r"matmul_add: .*float32.*float64"):
        prim.matmul_add(a, tinyt.ones(3, 4), tinyt.ones(4, dtype=tinyt.float64))


@pytest.mark.parametrize("batch", [(3,), (2, 3), (1, 3)])
def test_an_expanded_matrix_is_the_same_as_its_copies(
    batch: tuple[int, ...], rng: np.random.Generator
) -> None:
    for m in (1, 4):
        a, b = draw(rng, (*batch, m, 300), "float32"), draw(rng, (300, 40), "float32")
        x, y = tinyt.tensor(a), tinyt.tensor(b).expand(*batch, 300, 40)
        assert (x @ y).tolist() == (x @ y.clone()).tolist()


@pytest.mark.parametrize("sizes", [(4, 4, 4), (8, 16, 8), (13, 20, 35), (2, 500, 3)], ids=str)
def test_small_products_of_a_batch_have_the_bits_of_large_ones(
    sizes: tuple[int, int, int], rng: np.random.Generator
) -> None:
    m, k, n = sizes
    a, b = draw(rng, (6, 5, m, k), "float32"), draw(rng, (6, 5, k, n), "float32")
    x, y = tinyt.tensor(a), tinyt.tensor(b)
    got = (x @ y).numpy()
    tall = tinyt.tensor(np.concatenate([a, draw(rng, (6, 5, 400, k), "float32")], -2))
    wide = tinyt.tensor(np.concatenate([b, draw(rng, (6, 5, k, 600), "float32")], -1))
    large = (tall @ wide).numpy()
    np.testing.assert_array_equal(got, large[..., :m, :n])
    # Dimensions of the batch that no single step walks through, and operands that broadcast.
    np.testing.assert_array_equal((x.mT.contiguous().mT @ y).numpy(), got)
    turned = x.permute(1, 0, 2, 3) @ y.permute(1, 0, 2, 3)
    np.testing.assert_array_equal(turned.numpy(), got.swapaxes(0, 1))
    for left, right in ((x[:1], y), (x, y[:, 1:2]), (x[:, ::2], y[:, ::2]), (x[0, 0], y)):
        both = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        copied = left.expand(*both, m, k).clone() @ right.expand(*both, k, n).clone()
        np.testing.assert_array_equal((left @ right).numpy(), copied.numpy())


@pytest.mark.parametrize("m", [1, 2, 40])
def test_not_a_number_stays_in_its_row(m: int) -> None:
    a, b = np.ones((m, 300), np.float32), np.ones((300, 37), np.float32)
    a[m - 1, 299] = np.inf
    b[299, 36] = 0
    got = (tinyt.tensor(a) @ tinyt.tensor(b)).numpy()
    assert np.isnan(got[m - 1, 36])
    assert np.all(np.isinf(got[m - 1, :36]))
    assert np.all(np.isfinite(got[: m - 1]))
