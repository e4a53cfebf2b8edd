"""What holds on every device with kernels of `src/gpu/`: imported by the cases of each, whose
fixture `place` says which one it is, and which run in a process of their own (`apart.py`)."""

import os
import re
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyt
from sampling import assert_same_bits
from tinyt import _core, _tensor, nn
from tinyt._tensor import synchronize
from tinyt.cli import train as train_command
from tinyt.cli.__main__ import main
from tinyt.utils.checkpoint import checkpoint


def same(x, expected):
    """On a device and on the CPU, to the bit; any NaN is as good as another."""
    assert x.device != expected.device
    assert x.dtype == expected.dtype
    x = x.cpu()
    if x.dtype == tinyt.bfloat16:  # which NumPy lacks
        x, expected = x.float(), expected.float()
    assert_same_bits(x, expected)


def test_complex_numbers_need_no_cpu(place):
    """Their arithmetic is that of their parts, in a process where the CPU may not help."""
    assert os.environ.get("TINYT_HOST_FALLBACK") != "1"
    x = tinyt.tensor([1 + 2j, -3j])
    y = x.to(place)
    same(y * 2j + 1, x * 2j + 1)
    same(y @ y.conj(), x @ x.conj())
    same(y == x[0].item(), x == x[0].item())
    y.mul_(1j)
    same(y, x * 1j)
    np.testing.assert_allclose(y.exp().log().cpu().numpy(), (x * 1j).numpy(), rtol=1e-6)


def test_copies_keep_the_bits_of_nans(place):
    for dtype, whole in ((tinyt.float32, tinyt.int32), (tinyt.float16, tinyt.int16)):
        bits = tinyt.tensor([0x7FA12345 if dtype is tinyt.float32 else 0x7D23, -1], dtype=whole)
        x = bits.view(dtype).to(place)
        assert x[::2].clone().cpu().view(whole).tolist() == bits[::2].tolist()
        assert x.clone().cpu().view(whole).tolist() == bits.tolist()


def test_an_int_is_the_index_of_the_accelerator(place):
    x = tinyt.ones(2)
    tinyt.empty(1, device=place)  # it is in use
    kind = tinyt.accelerator.current_accelerator().type
    for index in range(tinyt.accelerator.device_count()):
        there = tinyt.device(kind, index)
        assert tinyt.device(index) == there
        assert x.to(index).device == x.to(device=index).device == there
        assert x.to(index, tinyt.int32).device == there
        assert nn.Linear(2, 2).to(index).weight.device == there
        assert nn.Linear(2, 2, device=index).weight.device == there
        makers = (tinyt.ones, tinyt.empty, tinyt.rand, tinyt.arange, x.new_zeros)
        assert {make(2, device=index).device for make in makers} == {there}
        assert tinyt.tensor([1.0], device=index).device == there
        assert tinyt.zeros_like(x, device=index).device == there
    for call in (lambda: tinyt.ones(1, device=99), lambda: x.to(99)):
        with pytest.raises(RuntimeError, match=f"'{kind}:99' is not available"):
            call()
    with pytest.raises(RuntimeError, match="index must be from 0 to 127, got -1"):
        tinyt.ones(1, device=-1)
    for call in (lambda: tinyt.ones(1, device=True), lambda: x.to(True)):
        with pytest.raises(TypeError, match="expected a name, got True"):
            call()


@settings(max_examples=25)
@given(data=st.data())
def test_copies_of_any_strides(place, data):
    """Against NumPy's views: permuted, sliced with steps of both signs, broadcast."""
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.sampled_from([0, 1, 2, 5, 33])) for _ in range(rank)]
    base = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    order = data.draw(st.permutations(range(rank)))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in range(rank)]
    view = base.transpose(order)[tuple(slice(None, None, s) for s in steps)]
    x = tinyt.tensor(base).to(place).permute(*order)
    for d, step in enumerate(steps):
        x = (
            x.flip(d)[(slice(None),) * d + (slice(None, None, -step),)]
            if step < 0
            else x[(slice(None),) * d + (slice(None, None, step),)]
        )
    np.testing.assert_array_equal(x.clone().cpu().numpy(), view)
    wide = tinyt.empty(2, *x.shape, dtype=tinyt.float32, device=place)
    wide.copy_(x)
    np.testing.assert_array_equal(wide.cpu().numpy(), np.broadcast_to(view, wide.shape))
    column = tinyt.zeros(*x.shape, 2, dtype=tinyt.int32, device=place)
    column[..., 1] = x
    np.testing.assert_array_equal(column.cpu().numpy()[..., 1], view)
    assert not column.cpu().numpy()[..., 0].any()


def test_large_results(place):
    """So large that a device may store them past its caches, from and to any place."""
    x = tinyt.randn(2055, 2113)
    y = x.to(place)
    same(y.clone(), x)
    same(y.t().contiguous(), x.t().contiguous())
    same(y[1:, 1:].t().contiguous(), x[1:, 1:].t().contiguous())
    same(y.view(-1)[3:] + 1.5, x.view(-1)[3:] + 1.5)
    same(y.t() * 2 + y.t(), x.t() * 2 + x.t())
    same(y > 0, x > 0)
    same(y.double().int() if "float64" in computed_dtypes(place) else y.int(), x.int())
    wide, near = (tinyt.zeros(2113, 2060, device=at) for at in (place, "cpu"))
    wide[:, 5:], near[:, 5:] = y.t(), x.t()
    same(wide, near)
    wide.add_(1), near.add_(1)
    same(wide, near)


def test_halves_are_rounded_once(place):
    """Each half, the numbers around it and those half-way to the next, in lines of any length."""
    bits = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.int32)
    bits = np.concatenate([bits + k for k in (-1, 0, 1, 0xFFF, 0x1000, 0x1001)]).astype(np.int32)
    x = tinyt.from_numpy(bits.view(np.float32))
    y = x.to(place)
    same(y.half(), x.half())
    for n in (1, 7, 8, 31, 32, 33, 71):
        same(y[5 : 5 + n].half(), x[5 : 5 + n].half())
    x, y = x.half(), y.half()
    for f in (lambda t: t * 1.7, lambda t: t.sqrt(), lambda t: t[1:] - t[:-1], lambda t: t.float()):
        same(f(y), f(x))
    same(y[::3].view(2, -1).t() * 3, x[::3].view(2, -1).t() * 3)
    whole = tinyt.arange(-70_000, 70_001)
    same(whole.to(place).half(), whole.half())


def test_shapes_share_kernels(place):
    x = tinyt.randn(3, 4).to(place)
    (x + x, x.sum(1), x.t().clone(), tinyt.ones(2, 70, device=place).sum(1))
    before = _core.gpu_kernels(str(place))
    for shape in ((5,), (7, 9), (2, 3, 4), (1, 1), (0, 3), (33, 2, 65)):
        x = tinyt.randn(shape).to(place)
        same((x + x), x.cpu() + x.cpu())
        x.sum(-1)
    assert _core.gpu_kernels(str(place)) == before


def test_in_place_and_into(place):
    """Arguments in one buffer are one binding, whatever they are to the kernel."""
    x, y = tinyt.randn(5, 6), tinyt.randn(6, 5)
    a, b = x.to(place), y.to(place)
    a.mul_(2).add_(b.t()).neg_()
    x.mul_(2).add_(y.t()).neg_()
    same(a, x)
    out = tinyt.zeros(6, 10, device=place)
    tinyt.add(b, 1, out=out[:, ::2])
    same(out[:, ::2].clone(), y + 1)
    assert not out[:, 1::2].cpu().any()
    a[1:, 1:] += 1
    x[1:, 1:] += 1
    same(a, x)
    a[0] = a[1] * a[2]
    x[0] = x[1] * x[2]
    same(a, x)
    small = tinyt.arange(9).to(tinyt.int8)
    there = small.to(place)
    there[0:3] += there[5:8]
    small[0:3] += small[5:8]
    same(there, small)


def test_operations_that_wait(place):
    """`tinyt.lazy` fuses them, as on the CPU; what is on another device runs between."""

    def step(x, y):
        y.mul_(0.5)
        z = (x + y).relu() * 2
        return (z - z.mean(1, keepdim=True)).t() + tinyt.ones(50, 6, device=x.device)

    for turn in range(3):
        x, y = tinyt.randn(6, 50), tinyt.randn(6, 50)
        a, b = x.to(place), y.to(place)
        before = tinyt.lazy.cache_info()
        with tinyt.lazy():
            got = step(a, b)
            beside = step(x, y.clone())
            more = got.cpu() + beside
            again = got * 2
        same(got, step(x, y))
        same(b, y)
        same(again, got.cpu() * 2)
        np.testing.assert_array_equal(more.numpy(), (got.cpu() + beside).numpy())
        assert tinyt.lazy.cache_info().hits - before.hits == (2 if turn else 0)


def test_faults_are_found_later(place):
    x = tinyt.arange(4.0, device=place)
    y = x[tinyt.tensor([1, 7], device=place)]
    with pytest.raises(IndexError, match="index 7 is out of range for dimension 0 of size 4"):
        y.cpu()
    same(x.cpu().to(place), tinyt.arange(4.0))
    x[tinyt.tensor([-9], device=place)] = 5.0
    with pytest.raises(IndexError, match="index -9 is out of range"):
        synchronize(place)
    same(x, tinyt.arange(4.0))


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex128"])
def test_no_index_is_in_a_dimension_of_size_0(place, dtype):
    """There is no memory that could be read in its place."""
    if dtype == "complex128" and "float64" not in computed_dtypes(place):
        pytest.skip("no float64 there")
    none = tinyt.zeros(0, 3, dtype=getattr(tinyt, dtype)).to(place)
    index = tinyt.tensor([0, -1]).to(place)
    calls = [
        lambda: nn.functional.embedding(index, none),
        lambda: none[index],
        lambda: none.index_select(0, index),
        lambda: none.gather(0, index.reshape(2, 1)),
        lambda: none.take(index),
        lambda: none.flatten()[index[0]],
    ]
    for call in calls:
        with pytest.raises(IndexError, match=r"out of range for dimension 0 of size 0|empty"):
            call().cpu()
    same(none.gather(0, index[:0].reshape(0, 1)), none[:, :1].cpu())


def test_indexing(place):
    x = tinyt.randn(5, 6)
    index = tinyt.tensor([[3, 1, 0, 4, 4, 2]])
    y, there = x.to(place), index.to(place)
    same(y.gather(0, there), x.gather(0, index))
    same(y.scatter(0, there, y), x.scatter(0, index, x))
    same(y.scatter_add(1, there, y), x.scatter_add(1, index, x))
    same(y[there[0, :3], there[0, 3:]], x[index[0, :3], index[0, 3:]])
    same(y.argmax(1), x.argmax(1))
    got, want = y.cummax(1), x.cummax(1)
    same(got[0], want[0])
    same(got[1], want[1])
    tinyt.testing.assert_close(y.cumsum(0).cpu(), x.cumsum(0), rtol=1e-5, atol=1e-6)


def test_long_lines(place):
    """Beyond what a thread takes alone, and what llvmpipe's loops run: 65,535 turns."""
    n = 70_001
    whole = tinyt.arange(n) % 7 - 3
    there = whole.to(place)
    same(there.cumsum(0), whole.cumsum(0))
    same((there % 2 * 2 + 1).cumprod(0), (whole % 2 * 2 + 1).cumprod(0))
    same(there.argmax(), whole.argmax())
    x = tinyt.tensor(np.random.default_rng(2).integers(-999, 999, (3, n)).astype(np.float32))
    x[1, 5000] = float("nan")
    y = x.to(place)
    for got, want in zip(there.short().cummax(0), whole.short().cummax(0), strict=True):
        same(got, want)
    for name in ("cummax", "cummin"):
        for got, want in zip(getattr(y, name)(1), getattr(x, name)(1), strict=True):
            same(got, want)
        for got, want in zip(getattr(y.t(), name)(0), getattr(x.t(), name)(0), strict=True):
            same(got, want)
    for half in (tinyt.float32, tinyt.bfloat16):
        got, want = ((t[0] / 999).to(half).logcumsumexp(0).cpu() for t in (y, x))
        tinyt.testing.assert_close(got, want)
    same(y.argmax(1), x.argmax(1))
    same(y.t().argmin(0), x.t().argmin(0))
    same(y[::2].sum(1), x[::2].sum(1))
    index = whole.abs()
    same(
        tinyt.zeros(4, dtype=tinyt.int64, device=place).scatter_add(0, index.to(place), there),
        tinyt.zeros(4, dtype=tinyt.int64).scatter_add(0, index, whole),
    )
    same(
        tinyt.zeros(4, dtype=tinyt.int64, device=place).scatter(0, index.to(place), there),
        tinyt.zeros(4, dtype=tinyt.int64).scatter(0, index, whole),
    )
    same(there[:, None].t() @ there[:, None], whole[:, None].t() @ whole[:, None])
    same(there.nonzero(), whole.nonzero())


def test_long_windows(place):
    """Rows of an image longer than a thread takes, windows, and large triangular systems."""
    rng = np.random.default_rng(3)
    x = tinyt.tensor(rng.integers(-3, 4, (1, 2, 70_000)).astype(np.float32))
    w = tinyt.tensor(rng.integers(-3, 4, (3, 2, 5)).astype(np.float32))
    results = []
    for device in (place, "cpu"):
        a, b = (t.to(device).requires_grad_() for t in (x, w))
        out = tinyt.nn.functional.conv1d(a, b, padding=2)
        out.sum().backward()
        results.append((out.detach(), a.grad, b.grad))
    for got, want in zip(*results, strict=True):
        same(got, want)
    a = np.tril(rng.integers(-1, 2, (400, 400))) + 20 * np.eye(400)
    b = rng.normal(size=(400, 2))
    for matrix, upper in ((a, False), (a.T.copy(), True)):
        got = tinyt.linalg.solve_triangular(
            *(tinyt.tensor(t.astype(np.float32)).to(place) for t in (matrix, b)), upper=upper
        )
        np.testing.assert_allclose(got.cpu(), np.linalg.solve(matrix, b), rtol=1e-4, atol=1e-5)
        ones = np.where(np.eye(400) == 1, 1, matrix / 100)
        got = tinyt.linalg.solve_triangular(
            *(tinyt.tensor(t.astype(np.float32)).to(place) for t in (matrix / 100, b)),
            upper=upper,
            unitriangular=True,
        )
        np.testing.assert_allclose(got.cpu(), np.linalg.solve(ones, b), rtol=1e-4, atol=1e-4)


def test_a_network_trains_as_on_the_cpu(place):
    losses = []
    for device in ("cpu", place):
        tinyt.manual_seed(1)
        model = tinyt.nn.Sequential(
            tinyt.nn.Conv2d(1, 4, 3, padding=1),
            tinyt.nn.BatchNorm2d(4),
            tinyt.nn.ReLU(),
            tinyt.nn.MaxPool2d(2),
            tinyt.nn.Flatten(),
            tinyt.nn.Linear(64, 10),
        ).to(device)
        x, t = tinyt.randn(8, 1, 8, 8).to(device), tinyt.arange(8).to(device)
        optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-2)

        def step(model=model, optimizer=optimizer, x=x, t=t):
            optimizer.zero_grad()
            loss = tinyt.nn.functional.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss.detach()

        compiled = tinyt.compile(step)
        losses.append([step().item() for _ in range(3)] + [compiled().item() for _ in range(4)])
    assert losses[0][-1] < losses[0][0] / 2
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-4)


def test_memory_is_counted_and_comes_back(place):
    synchronize(place)
    before = tinyt.memory.statistics(place)["current_bytes"]
    x = tinyt.ones(1000, device=place)
    assert tinyt.memory.statistics(place)["current_bytes"] == before + 4000
    del x
    assert tinyt.memory.statistics(place)["current_bytes"] == before
    most = _core.gpu_limits(str(place))["bytes"]
    for size in (most + 64, 1 << 45):
        with pytest.raises(tinyt.OutOfMemoryError, match=f"{place} gives at most {most} bytes"):
            tinyt.empty(size, dtype=tinyt.uint8, device=place)
    tinyt.memory.set_limit(1 << 20, place)
    try:
        with pytest.raises(tinyt.OutOfMemoryError, match=f"limit of {place}"):
            tinyt.empty(1 << 21, dtype=tinyt.uint8, device=place)
    finally:
        tinyt.memory.set_limit(None, place)
        assert tinyt.memory.limit(place) == 0


@given(data=st.data())
def test_order_is_that_of_the_cpu(place, data):
    """Values and places, of equal elements and NaNs too."""
    dtype = getattr(tinyt, data.draw(st.sampled_from(["float32", "bfloat16", "int64", "uint8"])))
    shape = data.draw(
        st.sampled_from(
            [(), (1,), (7,), (16,), (17,), (300,), (0, 3), (3, 40), (40, 3), (2, 33, 3)]
        )
    )
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    values = rng.choice([-np.inf, -2.5, -0.0, 0.0, 1.0, 7.0, 200.0, np.inf, np.nan], shape)
    if not dtype.is_floating_point:
        values = rng.integers(0, 9, shape)
    x = tinyt.tensor(values).to(dtype)
    if len(shape) > 1 and data.draw(st.booleans()):
        x = x.t() if len(shape) == 2 else x.transpose(0, 2)
    dim = data.draw(st.integers(-max(1, x.ndim), max(1, x.ndim) - 1))
    size = x.shape[dim] if x.ndim else 1
    falling = data.draw(st.booleans())
    calls = [lambda x: x.sort(dim, descending=falling)]
    if size:
        k = data.draw(st.integers(1, size))
        calls += [
            lambda x: x.topk(k, dim, largest=falling),
            lambda x: x.kthvalue(k, dim),
            lambda x: x.median(dim),
            lambda x: x.nanmedian(dim, keepdim=True),
        ]
    there = x.to(place)
    for call in calls:
        for got, want in zip(call(there), call(x), strict=True):
            same(got, want)


def test_long_lines_are_sorted(place):
    rng = np.random.default_rng(7)
    x = tinyt.tensor(rng.integers(-1000, 1000, 70001).astype(np.float32))
    for got, want in zip(x.to(place).sort(), x.sort(), strict=True):
        same(got, want)
    for got, want in zip(x.to(place).topk(100), x.topk(100), strict=True):
        same(got, want)
    lines = tinyt.tensor(rng.integers(0, 50, (3, 5000)))
    for got, want in zip(lines.to(place).sort(1), lines.sort(1), strict=True):
        same(got, want)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places_in_sorted_lines(place, dtype):
    rng = np.random.default_rng(8)
    values = [-np.inf, -1.5, 0.0, 1.0, 2.0, np.inf, np.nan] if dtype == "float32" else range(9)
    for lines, shape in (
        ((9,), (3, 4)),
        ((2, 9), (2, 5)),
        ((1,), ()),
        ((0,), (3,)),
        ((2, 0), (2, 1)),
    ):
        line = np.sort(rng.choice(values, lines), -1).astype(dtype)
        x, v = tinyt.tensor(line), tinyt.tensor(rng.choice(values, shape).astype(dtype))
        for right in (False, True):
            same(
                tinyt.searchsorted(x.to(place), v.to(place), right=right),
                tinyt.searchsorted(x, v, right=right),
            )


def test_elements_that_are_not_zero(place):
    rng = np.random.default_rng(9)
    for shape in ((), (0,), (1,), (255,), (256,), (3, 1000), (7, 5, 3), (2, 0)):
        for dtype in (np.float32, np.int16, bool, np.complex64):
            given = np.array(9 * rng.random(shape) * (rng.random(shape) < 0.3)).astype(dtype)
            if dtype == np.float32:
                given[given > 7] = np.nan
            x = tinyt.tensor(given)
            same(x.to(place).nonzero(), x.nonzero())
            same(x.to(place)[(x != 0).to(place)], x[x != 0])
    x, rows = tinyt.arange(60).reshape(5, 4, 3), tinyt.tensor([True, False, True, False, True])
    for mask in (rows, rows[:, None] & tinyt.tensor([True, False, True, True])):
        same(x.to(place)[mask.to(place)], x[mask])
        same(x.to(place).transpose(0, 2)[:, :, rows.to(place)], x.transpose(0, 2)[:, :, rows])
    y = x.to(place, copy=True)
    y[rows.to(place)] = 0
    assert y.cpu().nonzero().shape[0] == 24
    same(tinyt.unique(y % 7), tinyt.unique(y.cpu() % 7))


def test_images_are_resized(place):
    x = tinyt.randn(2, 3, 7, 5)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        for size in ((4, 9), (14, 2)):
            a, b = (t.detach().requires_grad_() for t in (x, x.to(place)))
            want = tinyt.nn.functional.interpolate(a, size=size, mode=mode)
            got = tinyt.nn.functional.interpolate(b, size=size, mode=mode)
            assert got.device == place
            tinyt.testing.assert_close(got.cpu(), want)
            want.square().sum().backward()
            got.square().sum().backward()
            tinyt.testing.assert_close(b.grad.cpu(), a.grad)


def computed_dtypes(place):
    """float32, and float64 where the device computes in it."""
    code = _tensor.number_of_device(place)
    dtypes = [d for d in ("float32", "float64") if _core.has_kernel("add", getattr(tinyt, d), code)]
    assert dtypes == (["float32"] if place.type == "webgpu" else ["float32", "float64"])
    return dtypes


def test_factors_and_triangular_systems(place):
    for dtype in computed_dtypes(place):
        check_factors(place, dtype)


def check_factors(place, dtype):
    rng = np.random.default_rng(10)
    close = 1e-4 if dtype == "float32" else 1e-10
    for shape in ((), (3,), (2, 0)):
        for n in (1, 2, 17):
            half = rng.normal(size=(*shape, n, n + 9))
            a = half @ half.swapaxes(-1, -2)
            factor = np.linalg.cholesky(a)
            lower = tinyt.linalg.cholesky(tinyt.tensor(a.astype(dtype)).to(place))
            np.testing.assert_allclose(lower.cpu().numpy(), factor, rtol=close, atol=close)
            b = rng.normal(size=(*shape, n, 3))
            for upper in (False, True):
                matrix = factor.swapaxes(-1, -2).copy() if upper else factor
                got = tinyt.linalg.solve_triangular(
                    tinyt.tensor(matrix.astype(dtype)).to(place),
                    tinyt.tensor(b.astype(dtype)).to(place),
                    upper=upper,
                )
                want = np.linalg.solve(matrix, b)
                np.testing.assert_allclose(got.cpu().numpy(), want, rtol=10 * close, atol=close)
    for wrong in (-1, 0, float("nan"), float("inf")):
        bad = tinyt.eye(3)
        bad[1, 1] = wrong
        factor, order = tinyt.linalg.cholesky_ex(tinyt.stack([tinyt.eye(3), bad]).to(place))
        assert order.tolist() == [0, 2]
        assert factor[0].tolist() == tinyt.eye(3).tolist()


def test_random_numbers_are_the_cpus(place):
    for draw in (
        lambda d: tinyt.rand(33, device=d),
        lambda d: tinyt.randint(0, 1 << 40, (9,), device=d),
    ):
        tinyt.manual_seed(7)
        want = draw("cpu")
        tinyt.manual_seed(7)
        same(draw(place), want)
    tinyt.manual_seed(7)
    want = tinyt.randn(33)
    tinyt.manual_seed(7)
    tinyt.testing.assert_close(tinyt.randn(33, device=place).cpu(), want, rtol=1e-6, atol=1e-6)
    same(tinyt.arange(5, device=place), tinyt.arange(5))
    same(tinyt.arange(0.5, 3, 0.3, device=place), tinyt.arange(0.5, 3, 0.3))


def written_in_place(place):
    x = tinyt.ones(3, device=place, requires_grad=True)
    y = x.exp()
    y.add_(1)
    return y.sum()


def test_a_backward_that_fails_leaves_the_place_of_new_tensors(place):
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        written_in_place(place).backward()
    assert tinyt.ones(1).device.type == "cpu"
    with place, pytest.raises(RuntimeError, match="modified by an inplace"):
        written_in_place("cpu").backward()
    assert tinyt.ones(1).device.type == "cpu"


def test_code_of_the_forward_runs_where_it_did(place):
    """As checkpoints and hooks of saved tensors run it in backward."""
    made = []

    def block(x):
        order = tinyt.randperm(3)
        made.append(order.device.type)
        return x[tinyt.from_numpy(order.numpy())].exp()

    x = tinyt.ones(3, device=place, requires_grad=True)
    checkpoint(block, x, use_reentrant=False).sum().backward()
    same(x.grad, tinyt.ones(3).exp())

    def unpack(t):
        made.append(tinyt.ones(1).device.type)
        raise ValueError("unpack")

    with tinyt.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = x.exp().sum()
    with pytest.raises(ValueError, match="unpack"):
        y.backward()
    assert made == ["cpu"] * 3
    assert tinyt.ones(1).device.type == "cpu"


def test_float64_on_the_way(place, monkeypatch):
    """What computes in it between float32 and float32, on devices without it too."""
    for make in (
        lambda **at: tinyt.linspace(-1, 2, 7, **at),
        lambda **at: tinyt.linspace(0, 9, 4, dtype=tinyt.int32, **at),
        lambda **at: tinyt.logspace(0, 1, 5, dtype=tinyt.float16, **at),
        lambda **at: tinyt.hann_window(8, **at),
        lambda **at: tinyt.kaiser_window(9, False, **at),
        lambda **at: tinyt.rand(9, generator=tinyt.Generator().manual_seed(1), **at).histogram(3)[
            1
        ],
        lambda **at: nn.init.trunc_normal_(
            tinyt.empty(50, **at), generator=tinyt.Generator().manual_seed(1)
        ),
    ):
        same(make(device=place), make())
    with place:
        same(tinyt.linspace(0, 1, 3), tinyt.linspace(0, 1, 3, device="cpu"))
    monkeypatch.setattr("tinyt.ops.reduce.order._EXACT_RANKS", 8)  # as of lines of 2^24 elements
    x = tinyt.randn(3, 20)
    same(x.to(place).quantile(0.3, 1), x.quantile(0.3, 1))
    x = tinyt.randn(8, 3)
    for _ in range(2):
        layers = [nn.BatchNorm1d(3, momentum=None).to(at) for at in (place, "cpu")]
        results = [layer(x.to(at)) for layer, at in zip(layers, (place, "cpu"), strict=True)]
        assert (results[0].cpu() - results[1]).abs().amax() < 1e-5
        assert (layers[0].running_var.cpu() - layers[1].running_var).abs().amax() < 1e-5


def test_modules_of_devices_know_the_kind(place):
    assert tinyt.amp.is_autocast_available(place.type)
    tinyt.ones(1, device=place)
    tinyt.accelerator.synchronize(place.type)
    bad = tinyt.zeros(3, device=place)[tinyt.tensor([7], device=place)]
    with pytest.raises(IndexError, match=r"an earlier operation, \w+: index 7 is out of range"):
        tinyt.accelerator.synchronize(place)
    assert bad.tolist() == [0]  # told once


def test_commands(place, tmp_path, monkeypatch, capsys):
    """Training, evaluation and text as on the CPU, within rounding."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_command, "is_installed", lambda package: False)  # pictures
    Path("text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 20)
    size = ["--width", "16", "--layers", "1", "--heads", "2", "--context", "16", "--epochs", "1"]
    bits = {}
    for device in ("cpu", str(place)):
        out = device.partition(":")[0]
        train = ["train", "chars", "--text", "text.txt", *size, "--device", device, "--out", out]
        assert main(train) == 0
        line = capsys.readouterr().out.splitlines()[-1]
        assert line.startswith("held-out bits per character: ")
        bits[device] = float(line.split()[-1])
        assert main(["eval", out, "--device", device]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == line
        assert main(["eval", out, "--device", str(place)]) == 0  # where it was not trained, too
        assert abs(float(capsys.readouterr().out.split()[-1]) - bits[device]) < 0.01
        told = ["generate", out, "the quick", "--length", "9", "--seed", "3", "--device", device]
        assert main(told) == 0
        assert len(capsys.readouterr().out) == len("the quick") + 9 + 1
    assert abs(bits["cpu"] - bits[str(place)]) < 0.01
    assert main([*train[:-1], "other", "--device", f"{place.type}:99"]) != 0
    assert f"'{place.type}:99' is not available" in capsys.readouterr().err


def test_choices_are_the_cpus(place):
    weights = tinyt.tensor([[1.0, 0.0, 3.0], [2.0, 2.0, 0.5]])
    for more in ((2,), (9, True)):
        tinyt.manual_seed(3)
        want = tinyt.multinomial(weights, *more)
        tinyt.manual_seed(3)
        same(tinyt.multinomial(weights.to(place), *more), want)


@pytest.mark.parametrize(
    ("draw", "parameters"),
    [
        (tinyt._standard_gamma, [[0.2, 1.0, 30.0]]),
        (tinyt._sample_dirichlet, [[0.2, 1.0, 3.0]]),
        (tinyt.poisson, [[0.0, 3.0, 400.0]]),
        (tinyt.binomial, [[5.0, 40.0, 900.0], [0.1, 0.9, 0.5]]),
        (tinyt._sample_von_mises, [[0.0, 1.0, 50.0]]),
    ],
)
def test_draws_with_parameters_are_the_cpus(place, draw, parameters):
    """Of any strides, eagerly and compiled."""
    operands = [tinyt.tensor(p).repeat(7, 1).t() for p in parameters]
    there = [x.to(place) for x in operands]
    compiled = tinyt.compile(lambda *given: draw(*given) + 1)
    tinyt.manual_seed(5)
    want = [draw(*operands), draw(*operands) + 1, draw(*operands) + 1]
    tinyt.manual_seed(5)
    for got, known in zip([draw(*there), compiled(*there), compiled(*there)], want, strict=True):
        assert got.device == place
        same(got, known)
    assert draw(*[x[:0] for x in there]).shape == (0, 7)


def test_arithmetic_is_probed(place):
    """Of llvmpipe a sum that is rounded to 53 bits first is found."""
    found = _core.gpu_arithmetic(str(place), tinyt.float32.number)
    assert len(found) == 8
    inexact = [name for name, is_exact in found.items() if not is_exact]
    assert inexact in ([], ["fma"])
    if place.type in ("cuda", "opencl"):
        assert not inexact
        assert all(_core.gpu_arithmetic(str(place), tinyt.float64.number).values())
    elif any(d.hardware.startswith("llvmpipe") for d in tinyt.devices()):
        assert inexact
    limits = _core.gpu_limits(str(place))
    assert limits["bytes"] >= 1 << 16
    with pytest.raises(tinyt.DeviceError, match="no kernels are built for cpu"):
        _core.gpu_limits("cpu")


def test_values_of_a_program_are_in_pieces_where_memory_is(place):
    """Many at once, each of which is small: 141 KB."""

    def many(x):
        made = [(x * k).sum(0, keepdim=True) * x for k in range(24)]
        return made[3].sum(), reduce(tinyt.maximum, made)

    x = tinyt.randn(1500)
    for got, want in zip(tinyt.compile(many)(x.to(place)), many(x), strict=True):
        same(got, want)


def test_copies_do_not_overtake(place):
    """What is copied may be overwritten at once, and is there when kernels that were asked for
    before are done with what was there."""
    sizes = (1, 5, 300_000, 1_500_000)
    for dtype in (tinyt.float32, tinyt.uint8):
        there = [tinyt.zeros(n, dtype=dtype, device=place) for n in sizes]
        for turn in range(4):
            for x in there:
                host = tinyt.full(x.shape, turn, dtype=dtype)
                before = x + 1
                x.copy_(host)
                host.fill_(99)
                assert x.amax().item() == x.amin().item() == turn
                assert before.amax().item() == before.amin().item() == max(turn, 1)


def test_a_forked_process_is_refused(place):
    tinyt.ones(1, device=place).cpu()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            tinyt.ones(1, device=place)
            os.write(write, b"nothing was raised")
        except tinyt.DeviceError as error:
            os.write(write, str(error).encode())
        (missing,) = {d.missing for d in tinyt.devices() if d.name.startswith(f"{place.type}:")}
        os.write(write, b"\n" + missing.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    raised, missing = os.read(read, 1000).decode().split("\n")
    assert re.search("a forked process cannot use (CUDA|OpenCL|WebGPU)", raised)
    assert missing == raised.partition(": ")[2]
    assert not any(d.missing for d in tinyt.devices() if d.name.startswith(f"{place.type}:"))
    os.close(read)
    os.close(write)
