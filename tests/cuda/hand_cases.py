"""Kernels by hand on a CUDA device: products and convolutions at the edges of their tiles, however
operands lie. Run by `tests/unit/test_cuda.py` in a process of its own, on the stand-in; or by hand
where there is a GPU. Elements are small whole numbers, whose sums are exact in any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tinyt
from device_cases import same

F = tinyt.nn.functional


@pytest.fixture(scope="session")
def place():
    place = tinyt.device("cuda:0")
    tinyt.empty(1, device=place)
    return place


@pytest.fixture
def precision(request):
    tinyt.set_float32_matmul_precision(request.param)
    yield request.param
    tinyt.set_float32_matmul_precision("highest")


def of_dtypes(*dtypes):
    """Dtypes, float32 also with TF32."""
    cases = [(dtype, "highest") for dtype in dtypes] + [("float32", "high")]
    return pytest.mark.parametrize(("dtype", "precision"), cases, indirect=["precision"])


def drawn(seed, shape, dtype="float32"):
    low = 0 if dtype == "uint8" else -4
    whole = np.random.default_rng(seed).integers(low, 5, shape)
    return tinyt.from_numpy(whole).to(getattr(tinyt, dtype))


def kept_apart(x):
    """The same elements in memory whose lines begin anywhere."""
    wide = tinyt.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype, device=x.device)
    wide[..., 1:-2] = x
    return wide[..., 1:-2]


LAYOUTS = {
    "rows": lambda x: x,
    "columns": lambda x: x.mT.contiguous().mT,
    "unaligned": kept_apart,
    "every second": lambda x: tinyt.stack([x, x], -1)[..., 0],
    "backwards": lambda x: (
        x.flip(-1).flip(-1) if x.numel() == 0 else x.flip((-1, -2)).flip((-1, -2))
    ),
}

SIZES = [
    (9, 1, 9),
    (16, 40, 64),
    (64, 64, 64),
    (65, 66, 63),
    (33, 129, 17),
    (130, 24, 200),  # tiles of 128 where there are four processors, some of their edges outside
    (256, 40, 512),
    (257, 33, 515),
    (16, 2100, 24),  # parts of the sums
    (70, 1030, 66),
]


@of_dtypes("float32", "bfloat16", "float16", "int8", "uint8")
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products_of_any_layout(place, precision, dtype, size):
    m, k, n = size
    a, b = drawn(1, (m, k), dtype), drawn(2, (k, n), dtype)
    want = a @ b
    layouts = list(LAYOUTS) if m * n < 20_000 else ["rows", "columns", "unaligned"]
    for x, y in itertools.product(layouts, layouts):
        got = LAYOUTS[x](a.to(place)) @ LAYOUTS[y](b.to(place))
        same(got, want)


@of_dtypes("float32", "bfloat16")
def test_products_do_not_depend_on_layout(place, precision, dtype):
    """Of any numbers: each layout gives the same bits."""
    draw = np.random.default_rng(3)
    for m, k, n in ((70, 100, 90), (257, 130, 515), (20, 2100, 24)):
        a, b = (
            tinyt.from_numpy(draw.normal(size=s)).to(getattr(tinyt, dtype)).to(place)
            for s in ((m, k), (k, n))
        )
        want = a @ b
        for x, y in (("columns", "rows"), ("rows", "columns"), ("unaligned", "unaligned")):
            same(LAYOUTS[x](a) @ LAYOUTS[y](b), want.cpu())
        exact = a.cpu().double() @ b.cpu().double()
        error = {"bfloat16": 2**-8, "float32": 2**-9 if precision == "high" else 2**-20}[dtype]
        scale = a.cpu().double().abs() @ b.cpu().double().abs()
        assert ((want.cpu().double() - exact).abs() <= error * scale).all()


def test_tfloat32_is_for_those_who_allow_it(place):
    x = tinyt.full((16, 16), 1 + 2.0**-12).to(place)
    one = tinyt.eye(16).to(place)
    matmul = tinyt.backends.cuda.matmul
    same(x @ one, x.cpu())
    matmul.allow_tf32 = True
    try:
        assert tinyt.get_float32_matmul_precision() == "high"
        same(x @ one, tinyt.ones(16, 16))
        same(x @ (2 * one), tinyt.full((16, 16), 2.0))
        same(F.conv2d(x[None, None], one[None, None, :3, 3:6] + 1), tinyt.full((1, 1, 14, 14), 9.0))
    finally:
        matmul.allow_tf32 = False
    assert tinyt.get_float32_matmul_precision() == "highest"
    same(x @ one, x.cpu())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_batches(place, dtype):
    a, b = drawn(4, (2, 3, 17, 20), dtype), drawn(5, (2, 3, 20, 33), dtype)
    for x, y in (
        (a, b),
        (a[:1], b),
        (a[:, :1], b),
        (a[0, 0], b),
        (a, b[1, 2]),
        (a.transpose(0, 1), b.transpose(0, 1)),
        (a[:, ::2], b[:, ::2]),
    ):
        same(x.to(place) @ y.to(place), x @ y)
    wide = drawn(6, (2, 2, 2, 2, 2, 11, 9), dtype)
    same(
        wide.permute(4, 2, 0, 3, 1, 5, 6).to(place) @ wide.mT.to(place),
        wide.permute(4, 2, 0, 3, 1, 5, 6) @ wide.mT,
    )
    same(tinyt.zeros(0, 9, 9).to(place) @ tinyt.zeros(9, 9).to(place), tinyt.zeros(0, 9, 9))
    same(tinyt.zeros(9, 0).to(place) @ tinyt.zeros(0, 9).to(place), tinyt.zeros(9, 9))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_layers_add_their_bias_before_they_round(place, dtype):
    for m, k, n in ((20, 24, 40), (3, 24, 40), (70, 1100, 64)):
        x, w, bias = drawn(7, (m, k), dtype), drawn(8, (n, k), dtype), drawn(9, (n,), dtype)
        bias = bias * 0.5
        same(F.linear(x.to(place), w.to(place), bias.to(place)), F.linear(x, w, bias))
        same(F.linear(x.to(place), w.to(place)), F.linear(x, w))
        for addend in (bias, x[:, :1], drawn(10, (m, n), dtype).t().contiguous().t()):
            same(
                tinyt.addmm(addend.to(place), x.to(place), w.t().to(place)),
                tinyt.addmm(addend, x, w.t()),
            )
    x, y = drawn(11, (3, 20, 24), dtype), drawn(12, (3, 24, 18), dtype)
    addend = drawn(13, (3, 1, 18), dtype)
    same(tinyt.baddbmm(addend.to(place), x.to(place), y.to(place)), tinyt.baddbmm(addend, x, y))


def test_bytes_whose_sums_are_int32(place):
    for m, k, n in ((20, 40, 24), (3, 16, 8), (70, 3000, 64)):
        a = tinyt.from_numpy(np.random.default_rng(k).integers(-128, 128, (m, k)).astype("int8"))
        b = tinyt.from_numpy(np.random.default_rng(n).integers(-128, 128, (k, n)).astype("int8"))
        for x, y in ((a, b), (a, b.t().contiguous().t())):
            same(tinyt._int_mm(x.to(place), y.to(place)), tinyt._int_mm(a, b))


def test_special_values(place):
    x = tinyt.ones(20, 20)
    x[3, 4], x[5, 6], x[7, 8] = float("inf"), float("nan"), -float("inf")
    for dtype in (tinyt.float32, tinyt.bfloat16, tinyt.float16):
        a, b = x.to(dtype), tinyt.eye(20, dtype=dtype)
        same(a.to(place) @ b.to(place), a @ b)
    large = tinyt.full((16, 16), 200.0, dtype=tinyt.float16)
    same(large.to(place) @ large.to(place), large @ large)  # infinite


# (images, channels in, channels out, groups), sizes, kernel, stride, padding, dilation
CONVOLUTIONS = [
    ((2, 16, 24, 1), (9, 11), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 3, 10, 1), (12, 12), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 16, 9, 1), (12, 13), (3, 3), (2, 2), (1, 1), (1, 1)),
    ((1, 20, 70, 1), (8, 8), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((3, 16, 24, 2), (8, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    ((2, 20, 12, 1), (8, 9), (1, 1), (2, 2), (0, 0), (1, 1)),
    ((2, 32, 36, 2), (7, 7), (3, 2), (2, 3), (1, 2), (2, 1)),
    ((2, 8, 6, 2), (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((3, 8, 9, 1), (50,), (5,), (2,), (2,), (1,)),
    ((2, 9, 10, 1), (4, 5, 6), (2, 3, 2), (1, 2, 1), (1, 1, 0), (1, 1, 2)),
    ((2, 16, 16, 1), (10, 10), (3, 3), (3, 3), (0, 0), (3, 3)),
    ((1, 8, 8, 1), (3, 3), (2, 2), (4, 4), (1, 1), (1, 1)),
    ((1, 3, 4, 1), (5, 5), (3, 3), (30000, 2 * 10**8), (1, 1), (1, 1)),
    ((2, 12, 12, 12), (10, 9), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((2, 6, 12, 6), (10, 9), (3, 2), (2, 1), (1, 0), (1, 2)),
    ((8, 16, 80, 1), (14, 14), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((40, 12, 12, 12), (14, 14), (1, 3), (1, 1), (0, 1), (1, 1)),  # parts of a depthwise sum
]


@of_dtypes("float32", "bfloat16", "float16")
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_and_gradients(place, precision, dtype, case):
    (images, channels, out, groups), sizes, kernel, *how = case
    convolve = [F.conv1d, F.conv2d, F.conv3d][len(sizes) - 1]

    def results(place, dtype, layout=lambda x: x):
        x, w = (
            drawn(k, s, dtype).to(place) for k, s in ((1, (images, channels, *sizes)), (2, kernels))
        )
        x, w = layout(x).detach().requires_grad_(), w.requires_grad_()
        y = convolve(x, w, None, *how, groups)
        y.backward(layout(drawn(3, y.shape, dtype).to(place)))
        return y.detach(), x.grad, w.grad

    kernels = (out, channels // groups, *kernel)
    want = [x.to(getattr(tinyt, dtype)) for x in results("cpu", "float64")]
    layouts = [lambda x: x, kept_apart]
    if len(sizes) == 2:
        layouts.append(lambda x: x.contiguous(memory_format=tinyt.channels_last))
    for layout in layouts:
        for one, other in zip(results(place, dtype, layout), want, strict=True):
            same(one, other)
