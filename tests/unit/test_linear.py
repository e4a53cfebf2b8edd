"""Fully connected layers: one row of the op table, gradients as products over all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinyt
from tinyt import decompositions
from tinyt.compiler.capture.recording import record
from tinyt.tensor import prim

linear = tinyt.nn.functional.linear


# input, outputs: one line, none, no width, edges of tiles, several blocks of a sum, stacks
SHAPES = [
    ((5,), 3),
    ((0, 5), 3),
    ((2, 0, 4), 3),
    ((4, 0), 3),
    ((1, 7), 1),
    ((6, 1), 1),
    ((13, 257), 33),
    ((300, 31), 65),
    ((2, 3, 16), 32),
    ((7, 1, 40, 9), 2),
]


def spread(array: Any) -> tinyt.Tensor:
    """The values with others between them."""
    wide = np.full(tuple(2 * n for n in array.shape), 77, array.dtype)
    at = tuple(slice(None, None, 2) for _ in array.shape)
    wide[at] = array
    return tinyt.tensor(wide)[at]


def gradients(x: tinyt.Tensor, w: tinyt.Tensor, b: tinyt.Tensor, g: tinyt.Tensor) -> list[Any]:
    """The output, and the gradients of input, weight and bias."""
    leaves = [t.detach().requires_grad_() for t in (x, w, b)]
    y = linear(*leaves)
    y.backward(g)
    found = [leaf.grad for leaf in leaves]
    assert all(grad is not None and grad.is_contiguous() for grad in found)
    return [y.detach(), *found]


@pytest.mark.parametrize(("shape", "outputs"), SHAPES, ids=str)
def test_values_and_gradients(
    shape: tuple[int, ...], outputs: int, rng: np.random.Generator
) -> None:
    lead, width = shape[:-1], shape[-1]
    sizes = (shape, (outputs, width), (outputs,), (*lead, outputs))
    x, w, b, g = (rng.standard_normal(size).astype(np.float32) for size in sizes)
    x64, w64, b64, g64 = (array.astype(np.float64) for array in (x, w, b, g))
    g_rows = g64.reshape(-1, outputs)
    x_rows = x64.reshape(len(g_rows), width)
    want = [x64 @ w64.T + b64, g64 @ w64, g_rows.T @ x_rows, g_rows.sum(0)]
    first: list[bytes] = []
    for make in (tinyt.tensor, spread):
        for threads in (1, 2, 3, 7):
            tinyt.set_num_threads(threads)
            got = [t.numpy() for t in gradients(*map(make, (x, w, b, g)))]
            for value, expected in zip(got, want, strict=True):
                assert value.shape == expected.shape
                np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-4)
            bits = [value.tobytes() for value in got]
            first = first or bits
            assert bits == first, f"{make.__name__}, {threads} threads"


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8", "complex64"]
)
def test_bits_are_those_of_the_operations(dtype: str, rng: np.random.Generator) -> None:
    to = getattr(tinyt, dtype)

    def values(*size: int) -> tinyt.Tensor:
        return tinyt.tensor(rng.standard_normal(size) * 3).to(to)

    w, b = values(7, 20), values(7)
    for x in (values(20), values(5, 20), values(2, 3, 20), values(0, 20)):
        for bias in (b, tinyt.tensor(0.0)):
            got, want = prim.linear(x, w, bias), decompositions.table()["linear"](x, w, bias)
            assert got.dtype is to
            if to.itemsize != 2:
                assert got.tolist() == want.tolist()
            else:  # the order of the sums is that of the level's units
                near = {"float16": 2e-3, "bfloat16": 2e-2}[dtype]
                np.testing.assert_allclose(
                    got.double().numpy(), want.double().numpy(), rtol=near, atol=1e-5
                )
        assert linear(x, w).tolist() == prim.matmul(x, w.t()).tolist()


SUMS: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "row": ((5, 64), (64, 7), (7,)),
    "row, large": ((70, 129), (129, 40), (40,)),
    "matrix": ((33, 64), (64, 35), (33, 35)),
    "column": ((33, 64), (64, 35), (33, 1)),
    "number": ((33, 64), (64, 35), ()),
    "line": ((64,), (64, 35), (35,)),
    "lines": ((1, 64), (64, 35), (35,)),
    "column of products": ((9, 64), (64, 1), (9, 1)),
    "batch": ((3, 5, 64), (3, 64, 7), (3, 5, 7)),
    "batch and a row": ((3, 5, 64), (64, 7), (7,)),
    "long": ((2, 9000), (9000, 3), (2, 3)),
    "nothing": ((4, 0), (0, 3), (3,)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", SUMS)
def test_halves_are_rounded_once(name: str, dtype: str, rng: np.random.Generator) -> None:
    """The addend nearly cancels the product, so that a first rounding would show."""
    to = getattr(tinyt, dtype)
    a, b, c = (tinyt.tensor(rng.standard_normal(shape)).to(to) for shape in SUMS[name])
    wide = [t.double().numpy() for t in (a, b)]
    product = wide[0] @ wide[1]
    if c.shape == product.shape:
        c = tinyt.tensor(-product).to(to)
    elif c.shape == product.shape[-1:]:
        c = tinyt.tensor(-product.reshape(-1, product.shape[-1])[0]).to(to)
    added = c.double().numpy()
    exact = product + added
    size = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(added)
    bits = 11 if dtype == "float16" else 8
    least = 2.0**-24 if dtype == "float16" else 2.0**-133
    bound = np.maximum(np.abs(exact) * 2.0**-bits, least / 2) * 1.001 + size * 2e-6
    got = prim.matmul_add(a, b, c).double().numpy()
    assert (np.abs(got - exact) <= bound).all()
    if name in ("row", "column of products"):
        weight = b.t().contiguous() if name == "row" else b[:, 0]
        got = linear(a, weight, c if name == "row" else c[:, 0]).double().numpy()
        assert (np.abs(got.reshape(exact.shape) - exact) <= bound).all()
    first: list[Any] = []
    for threads in (1, 2, 5):
        tinyt.set_num_threads(threads)
        first = first or prim.matmul_add(a, b, c).tolist()
        assert prim.matmul_add(a, b, c).tolist() == first


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_halves_keep_infinities_and_nans(dtype: str) -> None:
    to = getattr(tinyt, dtype)
    a = tinyt.ones(33, 64, dtype=to)
    a[0, 3], a[1, 3], a[2, 5] = float("inf"), float("nan"), float("-inf")
    for c in (tinyt.ones(35, dtype=to), tinyt.ones(33, 35, dtype=to), tinyt.ones(33, 1, dtype=to)):
        c = c.clone()
        got = prim.matmul_add(a, tinyt.ones(64, 35, dtype=to), c)[:, 0].tolist()
        assert (got[0], got[2], got[3]) == (float("inf"), float("-inf"), 65.0)
        assert got[1] != got[1]
        c.fill_(float("-inf"))
        got = prim.matmul_add(a, tinyt.ones(64, 35, dtype=to), c)[:, 0].tolist()
        assert got[0] != got[0]
        assert (got[2], got[3]) == (float("-inf"), float("-inf"))


def test_recorded() -> None:
    x, w, b = tinyt.randn(2, 3, 4), tinyt.randn(5, 4), tinyt.randn(5)
    for bias in (b, None):
        recording = record(lambda bias=bias: linear(x, w, bias))
        (got,) = recording.run()
        assert got.tolist() == linear(x, w, bias).tolist()


def test_one_node_and_no_gradient_for_what_has_none() -> None:
    x, w, b = tinyt.randn(2, 3), tinyt.randn(4, 3).requires_grad_(), tinyt.randn(4)
    y = linear(x, w, b)
    assert y.grad_fn.name() == "LinearBackward0"
    assert [y.grad_fn.needs_input(i) for i in range(3)] == [False, True, False]
    y.sum().backward()
    assert w.grad is not None
    assert x.grad is None
    assert b.grad is None
    (second,) = tinyt.autograd.grad(linear(x, w).square().sum(), w, create_graph=True)
    assert second.requires_grad


def test_a_stack_times_a_matrix_sums_over_all_rows(rng: np.random.Generator) -> None:
    x = tinyt.tensor(rng.standard_normal((3, 5, 8)).astype(np.float32))
    g = tinyt.tensor(rng.standard_normal((3, 5, 4)).astype(np.float32))
    weights = [tinyt.ones(8, 4).requires_grad_() for _ in range(2)]
    (x @ weights[0]).backward(g)
    (x.reshape(15, 8) @ weights[1]).backward(g.reshape(15, 4))
    assert weights[0].grad is not None
    assert weights[1].grad is not None
    assert weights[0].grad.tolist() == weights[1].grad.tolist()


def test_biases_that_broadcast() -> None:
    x, w = tinyt.ones(2, 3), tinyt.ones(4, 3)
    assert linear(x, w, tinyt.ones(1)).tolist() == [[4.0] * 4] * 2


def test_errors() -> None:
    x, w = tinyt.ones(2, 3), tinyt.ones(4, 3)
    with pytest.raises(tinyt.DTypeError, match=r"linear: .* one dtype, got float32 and float64"):
        linear(x, w.double())
    with pytest.raises(tinyt.ShapeError, match=r"linear: .*\(2, 3\) and \(4, 5\)"):
        prim.linear(x, tinyt.ones(4, 5), tinyt.ones(4))
    with pytest.raises(tinyt.ShapeError, match=r"linear: .*\(4, 3\) .*\(4,\), got \(3,\)"):
        prim.linear(x, w, tinyt.ones(3))
    with pytest.raises(tinyt.DTypeError, match=r"linear: .* got float32 and int64"):
        prim.linear(x, w, tinyt.ones(4, dtype=tinyt.int64))
    with pytest.raises(tinyt.DTypeError, match="linear: not defined for dtype bool"):
        prim.linear(x.bool(), w.bool(), tinyt.tensor(False))


@pytest.mark.parametrize("wrong", ["input", "weight", "bias"])
@pytest.mark.parametrize("bias", [(4,), (1,), (), (2, 4)])
def test_one_dtype(wrong: str, bias: tuple[int, ...]) -> None:
    shapes = {"input": (2, 3), "weight": (4, 3), "bias": bias}
    operands = {name: tinyt.ones(shape) for name, shape in shapes.items()}
    assert linear(**operands).dtype is tinyt.float32
    operands[wrong] = operands[wrong].double()
    with pytest.raises(RuntimeError, match=r"linear: .* one dtype, got .*float"):
        linear(**operands)
