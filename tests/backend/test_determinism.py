"""The same bits for any number of threads and any memory layout, on inputs large enough that
several threads share one call. (Layouts of small inputs: test_ops_forward.py.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt
from op_rows import Op
from op_samples import OPS
from sampling import (
    CONTIGUOUS,
    STRIDED,
    Layout,
    assert_same_bits,
    build,
    draw,
    flat,
)

THREADS = (2, 3, 7)


def assert_same_for_threads(call: Callable[[], Any], what: str) -> list[Any]:
    """The results of one thread, after comparing them with those of more."""
    tinyt.set_num_threads(1)
    want = list(flat(call()))
    for n in THREADS:
        tinyt.set_num_threads(n)
        for got, expected in zip(flat(call()), want, strict=True):
            assert_same_bits(got, expected, f"{what}, {n} threads")
    return want


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_threads_on_every_op(op: Op, rng: np.random.Generator) -> None:
    for number, sample in enumerate(op.samples(rng, op.dtypes[0])):
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)

        def call(args: Any = args, kwargs: Any = kwargs) -> Any:
            tinyt.manual_seed(0)
            return op.function(tinyt)(*args, **kwargs)

        assert_same_for_threads(call, f"{op.name} sample {number}")


# ------------------------------------------------------------------ large inputs

# Row and column reductions of one chunk and of many, few results and many, mixed dimensions.
REDUCED: list[tuple[tuple[int, ...], Any]] = [
    ((300_001,), 0),
    ((3, 100_003), 1),
    ((100_003, 3), 0),
    ((1500, 130), 0),
    ((1500, 130), 1),
    ((8, 30, 33, 35), (0, 2, 3)),
    ((8, 30, 33, 35), (1,)),
    ((30, 9, 40, 21), (0, 2)),
    ((30, 9, 40, 21), (1, 3)),
]
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, dim: x.sum(dim),
    "prod": lambda x, dim: (1 + x * 1e-4).prod(dim),
    "amax": lambda x, dim: x.amax(dim),
    "amin": lambda x, dim: x.amin(dim),
    "mean": lambda x, dim: x.mean(dim),
    "var": lambda x, dim: x.var(dim),
    "norm": lambda x, dim: x.norm(2, dim),
}
ALONG: dict[str, Callable[..., Any]] = {
    "argmax": lambda x, dim: x.argmax(dim),
    "argmin": lambda x, dim: x.argmin(dim),
    "softmax": lambda x, dim: x.softmax(dim),
    "log_softmax": lambda x, dim: x.log_softmax(dim),
    "cumsum": lambda x, dim: x.cumsum(dim),
    "logsumexp": lambda x, dim: x.logsumexp(dim),
    "cumprod": lambda x, dim: (1 + x * 1e-4).cumprod(dim),
    "cummax": lambda x, dim: x.cummax(dim),
    "logcumsumexp": lambda x, dim: x.logcumsumexp(dim),
    "sort": lambda x, dim: x.sort(dim),
    "topk": lambda x, dim: x.topk(7, dim),
    "median": lambda x, dim: x.median(dim),
}
ALONG_SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((200_001,), 0),
    ((3, 70_001), 1),
    ((70_001, 3), 0),
    ((400, 300), 0),
    ((400, 300), 1),
    ((20, 100, 50), 1),
]
BINARY: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((100_003,), (100_003,)),
    ((300, 401), (401,)),
    ((300, 401), (300, 1)),
    ((40, 50, 60), (50, 1)),
]
MATRICES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((130, 257), (257, 190)),
    ((1, 5000), (5000, 3)),
    ((700, 2), (2, 300)),
    ((6, 65, 80), (80, 70)),
    ((4, 1, 33, 64), (5, 64, 31)),
]


def check_layouts(function: Callable[..., Any], arrays: list[np.ndarray], what: str) -> None:
    """Every layout gives what a contiguous copy of it gives on one thread."""
    want = assert_same_for_threads(
        lambda: function(*[tinyt.tensor(a) for a in arrays]), f"{what} contiguous"
    )
    for layout in STRIDED:
        expected = want
        if layout.name == "expanded":
            tinyt.set_num_threads(1)
            copies = [CONTIGUOUS.build(tinyt, layout.values(a)) for a in arrays]
            expected = list(flat(function(*copies)))
        tensors = [layout.build(tinyt, a) for a in arrays]

        def call(tensors: list[Any] = tensors) -> Any:
            return function(*tensors)

        for got, e in zip(assert_same_for_threads(call, what), expected, strict=True):
            assert_same_bits(got, e, f"{what} {layout.name}")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name in REDUCTIONS for dtype in ("float32", "float64")]
    + [(name, dtype) for name in ("sum", "amax", "amin") for dtype in ("int64", "bool")]
    + [("sum", "float16"), ("norm", "float16"), ("sum", "int32")],
)
def test_reductions(name: str, dtype: str, rng: np.random.Generator) -> None:
    for shape, dim in REDUCED:
        if name == "prod" and not isinstance(dim, int):
            continue  # it takes one dimension
        check_layouts(
            lambda x, dim=dim: REDUCTIONS[name](x, dim),
            [draw(rng, shape, dtype)],
            f"{name} {shape} over {dim}",
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ALONG)
def test_along_one_dimension(name: str, dtype: str, rng: np.random.Generator) -> None:
    for shape, dim in ALONG_SHAPES:
        check_layouts(
            lambda x, dim=dim: ALONG[name](x, dim),
            [draw(rng, shape, dtype)],
            f"{name} {shape} along {dim}",
        )


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "relu", "isnan"])
def test_unary(name: str, rng: np.random.Generator) -> None:
    for shape in [(100_003,), (300, 401), (40, 50, 60)]:
        check_layouts(getattr(tinyt, name), [draw(rng, shape, "float32")], f"{name} {shape}")


@pytest.mark.parametrize("name", ["add", "mul", "div", "maximum", "pow", "lt"])
def test_binary(name: str, rng: np.random.Generator) -> None:
    for a, b in BINARY:
        arrays = [draw(rng, a, "float32", (0.5, 2)), draw(rng, b, "float32", (0.5, 2))]
        check_layouts(getattr(tinyt, name), arrays, f"{name} {a} {b}")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_matmul(dtype: str, rng: np.random.Generator) -> None:
    for a, b in MATRICES:
        check_layouts(tinyt.matmul, [draw(rng, a, dtype), draw(rng, b, dtype)], f"matmul {a} {b}")


def test_convolution_with_gradients(rng: np.random.Generator) -> None:
    x, w = draw(rng, (9, 6, 20, 19), "float32"), draw(rng, (10, 6, 3, 3), "float32")

    def run() -> list[Any]:
        tensors = [tinyt.tensor(a).requires_grad_() for a in (x, w)]
        out = tinyt.conv2d(*tensors, padding=1)
        (out * out).sum().backward()
        return [out.detach(), *[t.grad for t in tensors]]

    assert_same_for_threads(run, "conv2d")


@pytest.mark.parametrize(
    ("name", "draw_some"),
    [
        ("rand", lambda: tinyt.rand(100_003)),
        ("rand float64", lambda: tinyt.rand(100_003, dtype=tinyt.float64)),
        ("randn", lambda: tinyt.randn(100_003)),
        ("randint", lambda: tinyt.randint(0, 10**12, (100_003,))),
        ("randperm", lambda: tinyt.randperm(50_001)),
        ("dropout", lambda: tinyt.dropout(tinyt.ones(100_003), 0.3, True)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_random(name: str, draw_some: Callable[[], Any]) -> None:
    def run() -> Any:
        tinyt.manual_seed(11)
        return draw_some()

    assert_same_for_threads(run, name)


@pytest.mark.parametrize("layout", STRIDED, ids=lambda layout: layout.name)
def test_half_precision_reductions(layout: Layout, rng: np.random.Generator) -> None:
    """Through conversion tiles; accumulated in float32 and rounded once."""
    for shape, dim in [((70_001,), 0), ((300, 200), 0), ((300, 200), 1)]:
        exact = draw(rng, shape, "float32").astype(np.float16)
        x = layout.build(tinyt, exact)
        got = assert_same_for_threads(lambda x=x, dim=dim: x.sum(dim), f"{shape}")[0]
        want = layout.build(tinyt, exact.astype(np.float32)).sum(dim).half()
        assert_same_bits(got.float(), want.float())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_is_its_composite(dtype: str, rng: np.random.Generator) -> None:
    """Along the last dimension, bit for bit: the same maximum, sum and functions."""
    for shape in [(1,), (70_001,), (300, 41), (7, 5000)]:
        x = tinyt.tensor(draw(rng, shape, dtype))
        shifted = x - x.amax(-1, keepdim=True)
        terms = shifted.exp()
        total = terms.sum(-1, keepdim=True)
        assert_same_bits(x.softmax(-1), terms * (1 / total), f"softmax {shape}")
        assert_same_bits(x.log_softmax(-1), shifted - total.log(), f"log_softmax {shape}")
