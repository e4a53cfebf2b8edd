"""Rows, products and attention on every device with kernels of `src/gpu/`, which has several forms
of each: imported by the cases of each device, as `device_cases.py`."""

import os

import numpy as np
import pytest

import tinyt
from device_cases import computed_dtypes, same
from tinyt import _core, _tensor
from tinyt.tensor import prim


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
def test_rows_of_any_length(place, dtype):
    """Of a thread, or of threads that fold what they have of it: the bits are the CPU's."""
    draw = np.random.default_rng(4)
    cases = [((67, 130), (1,)), ((3, 9001), (1,)), ((3, 5, 7, 11), (2, 3))]
    if dtype in ("float32", "bfloat16"):
        cases += [((1, 63), (1,)), ((5, 64), (1,)), ((1, 97), (1,)), ((2, 4096), (1,))]
        cases += [((9, 4, 33, 2), (1, 3)), ((70_001,), (0,)), ((4500, 5), (0,))]
    for shape, dims in cases:
        x = tinyt.from_numpy(draw.normal(1, 0.01, shape)).to(getattr(tinyt, dtype))
        y = x.to(place)
        same(y.sum(dims), x.sum(dims))
        same(y.amax(dims), x.amax(dims))
        same(y.amin(dims, keepdim=True), x.amin(dims, keepdim=True))
        if len(dims) == 1:
            same(y.prod(dims[0]), x.prod(dims[0]))


@pytest.mark.parametrize("sums", [63, 64, 100, 3000])
def test_products_do_not_depend_on_strides(place, sums):
    """Of few rows or columns, whose operands are read along their sums or across them."""
    draw = np.random.default_rng(8)
    for m, n in ((1, 1), (1, 70), (3, 70), (70, 5), (8, 8), (1, 3)):
        a = tinyt.from_numpy(draw.normal(size=(m, sums))).float().to(place)
        b = tinyt.from_numpy(draw.normal(size=(sums, n))).float().to(place)
        want = (a @ b).cpu()
        for x in (a, a.t().contiguous().t(), tinyt.stack([a, a], 2)[..., 0]):
            for y in (b, b.t().contiguous().t(), tinyt.stack([b, b], 2)[..., 1]):
                same(x @ y, want)
        np.testing.assert_allclose(want, a.cpu().double() @ b.cpu().double(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("columns", [63, 64, 100, 4099])
def test_compiled_rows_of_any_length(place, columns):
    """Rows that are read several times, of which some results are rows and others elements, and
    such that are written where they are read."""

    def step(x, w):
        h = x * w + 1
        d = h - h.mean(1, keepdim=True)
        wide = d.amax(1, keepdim=True) - d.amin(1, keepdim=True)
        return d.square().sum(1), d / wide, h.to(tinyt.bfloat16), (d * wide).sum(1), wide

    def in_place(x, y):
        y.mul_(2)
        x.sub_(x.mean(1, keepdim=True))
        x.div_(y + x.amax(1, keepdim=True))
        y.add_(x.sum(1, keepdim=True))

    for rows in (1, 3, 70):
        x, w, y = tinyt.randn(rows, columns), tinyt.randn(columns), tinyt.randn(rows, 1)
        compiled, written = tinyt.compile(step), tinyt.compile(in_place)
        for _ in range(2):
            for got, want in zip(compiled(x.to(place), w.to(place)), step(x, w), strict=True):
                same(got, want)
            a, b, c, d = x.to(place), y.to(place), x.clone(), y.clone()
            written(a, b)
            in_place(c, d)
            same(a, c)
            same(b, d)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64"])
def test_products_of_any_size(place, dtype):
    """At the edges of tiles, of operands along rows, along columns and in batches."""
    dtype = getattr(tinyt, dtype)
    if dtype is tinyt.float64 and "float64" not in computed_dtypes(place):
        return
    draw = np.random.default_rng(1)

    def check(x, y):
        x, y = (tinyt.from_numpy(a).to(dtype) for a in (x, y))
        # Sums of small whole numbers are exact, in whichever order.
        same(x.to(place) @ y.to(place), (x.double() @ y.double()).to(dtype))

    for m, k, n in (
        (1, 1, 1),
        (33, 17, 31),
        (64, 64, 64),
        (65, 130, 100),
        (1, 70, 66),
        (66, 70, 1),
        (1, 3001, 5),  # sums in parts
        (7, 2050, 70),
        (33, 9000, 31),
    ):
        x, y = draw.integers(-9, 10, (m, k)), draw.integers(-9, 10, (k, n))
        for x_of, y_of in ((x, y), (np.asfortranarray(x), y), (x, np.asfortranarray(y))):
            check(x_of, y_of)
    check(draw.integers(-9, 10, (3, 1, 40, 20)), draw.integers(-9, 10, (5, 20, 70)))
    check(draw.integers(-9, 10, (17, 70, 35)), draw.integers(-9, 10, (35, 66)))  # many large tiles
    for few in (2, 3, 5, 8, 9):
        check(draw.integers(-9, 10, (2, few, 40)), draw.integers(-9, 10, (40, 33)))
        check(draw.integers(-9, 10, (1, 33, 1100)), draw.integers(-9, 10, (3, 1100, few)))
    check(draw.integers(-9, 10, (80, 60))[::2, 1::3], draw.integers(-9, 10, (20, 99))[:, ::3])


def test_attention_of_groups_is_a_kernel(place):
    """Where all devices of the kind share memory."""
    as_gpu = os.environ.get(f"TINYT_{place.type.upper()}_AS_GPU") is not None
    for name in ("attention", "attention_backward"):
        code = _tensor.number_of_device(place)
        if as_gpu:
            assert _core.has_kernel(name, tinyt.float32, code)


def test_attention_of_doubles(place):
    if "float64" in computed_dtypes(place):
        operands = [tinyt.randn(2, 3, n, 9, dtype=tinyt.float64) for n in (33, 40, 40, 33)]
        results = []
        for at in (place, "cpu"):
            *given, slope = (x.to(at).detach().requires_grad_() for x in operands)
            out = tinyt.nn.functional.scaled_dot_product_attention(*given, is_causal=True)
            out.backward(slope.detach())
            results.append([out.detach().cpu(), *(x.grad.cpu() for x in given)])
        for got, want in zip(*results, strict=True):
            tinyt.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_weights_of_attention_are_at_most_one(place, dtype):
    """Also where scores of some hundreds, made anew, are above the sum that was kept: of one key,
    so that the weight is 1, and the gradient of its value that of results."""
    code = _tensor.number_of_device(place)
    if place.type != "cpu" and not _core.has_kernel("attention_backward", tinyt.float32, code):
        pytest.skip("its decomposition makes weights without the sums")
    of_dtype = getattr(tinyt, dtype)
    q, k, v, g = (tinyt.full((1, 1, 1, 8), x).to(of_dtype) for x in (9, 5, 2, 3))
    for at in (place, "cpu"):
        q, k, v, g = (x.to(at) for x in (q, k, v, g))
        out, sums = prim.attention(q, k, v, tinyt.zeros((), device=at), False, 1.0)
        np.testing.assert_allclose(sums.cpu().numpy(), 360, rtol=1e-6)
        none = tinyt.zeros((), device=at)
        made = prim.attention_backward(g, q, k, v, none, out, sums - 0.5, False, 1.0)
        for one, want in zip(made, (0, 0, 3), strict=True):
            assert (one.cpu().double().numpy() == want).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_of_any_size(place, dtype):
    """At the edges of blocks; with masks, of grouped heads, where queries see no key."""
    dtype = getattr(tinyt, dtype)
    draw = np.random.default_rng(2)
    close = (
        {"rtol": 2e-2, "atol": 2e-2} if dtype is tinyt.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    )
    attend = tinyt.nn.functional.scaled_dot_product_attention

    def check(q, k, v, mask=None, **kwargs):
        operands = [tinyt.from_numpy(draw.normal(0, 1, s)).to(dtype) for s in (q, k, v)]
        slope = tinyt.from_numpy(draw.normal(0, 1, (*q[:-1], v[-1]))).to(dtype)
        if mask is not None and mask.dtype is not tinyt.bool:
            mask = mask.to(dtype)
        results = []
        for at in (place, "cpu"):
            given = [x.to(at).detach().requires_grad_() for x in operands]
            more = [] if mask is None else [mask.to(at)]
            out = attend(*given, *more, **kwargs)
            out.backward(slope.to(at))
            results.append([out.detach().cpu(), *(x.grad.cpu() for x in given)])
        for got, want in zip(*results, strict=True):
            tinyt.testing.assert_close(got, want, **close)

    def seen(*shape):
        return tinyt.from_numpy(draw.random(shape) < 0.4)

    check((1, 1, 1, 1), (1, 1, 1, 1), (1, 1, 1, 1))
    check((2, 3, 33, 17), (2, 3, 65, 17), (2, 3, 65, 5), is_causal=True)
    check((2, 3, 70, 16), (2, 3, 31, 16), (2, 3, 31, 40), scale=0.3)
    if dtype is tinyt.bfloat16:
        return
    check((1, 4, 64, 64), (1, 2, 64, 64), (1, 2, 64, 64), is_causal=True, enable_gqa=True)
    check((1, 2, 9, 130), (1, 2, 40, 130), (1, 2, 40, 150))
    check((2, 2, 40, 8), (2, 2, 50, 8), (2, 2, 50, 8), seen(2, 1, 40, 50))
    check((2, 2, 40, 8), (2, 2, 50, 8), (2, 2, 50, 8), seen(40, 1))
    check(
        (2, 2, 40, 8), (2, 2, 50, 8), (2, 2, 50, 8), tinyt.from_numpy(draw.normal(0, 1, (2, 1, 50)))
    )
    check((1, 1, 3, 4), (1, 1, 0, 4), (1, 1, 0, 2))
    results = []  # a query whose scores overflow is NaN for every key
    for at in (place, "cpu"):
        q = tinyt.tensor(
            [[[[1.0, 0.0], [np.inf, 1.0]]]], dtype=dtype, device=at, requires_grad=True
        )
        k = tinyt.tensor([[[[1.0, 1.0], [-1.0, 1.0]]]], dtype=dtype, device=at, requires_grad=True)
        v = tinyt.ones(1, 1, 2, 40, dtype=dtype, device=at, requires_grad=True)
        out = attend(q, k, v)
        out.sum().backward()
        results.append([out.detach().cpu(), *(x.grad.cpu() for x in (q, k, v))])
    for got, want in zip(*results, strict=True):
        tinyt.testing.assert_close(got, want, equal_nan=True, **close)
    x = tinyt.from_numpy(draw.normal(0, 1, (2, 35, 3, 24))).to(dtype)  # strides of any order
    y = x.to(place).transpose(1, 2)
    x = x.transpose(1, 2)
    tinyt.testing.assert_close(
        attend(y, y, y, is_causal=True).cpu(), attend(x, x, x, is_causal=True), **close
    )
    x[0, 0, 20, 3] = float("nan")
    y[0, 0, 20, 3] = float("nan")
    got, want = (attend(t, t, t, is_causal=True).cpu()[:, :, 20:] for t in (y, x))
    assert got.isnan().any()
    tinyt.testing.assert_close(got, want, equal_nan=True, **close)
