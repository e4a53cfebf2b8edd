"""Python on an OpenCL device (PoCL's, where no other is installed): run by
`tests/unit/test_opencl.py` in a process of its own, so that others have no accelerator."""

import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinyt
from op_samples import OPS
from sampling import assert_same_bits, build
from tinyt import _core
from tinyt._tensor import synchronize

DEVICE = tinyt.device("opencl:0")
SCALAR = {row["name"] for row in _core.op_table() if row["kind"] == "scalar"}
REAL = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")


def same(x, expected):
    assert x.device == DEVICE
    if x.dtype == tinyt.bfloat16:  # which NumPy lacks
        assert expected.dtype == tinyt.bfloat16
        x, expected = x.view(tinyt.int16), expected.view(tinyt.int16)
    assert_same_bits(x.cpu(), expected)


def test_its_names():
    assert tinyt.device("opencl").type == "opencl"
    x = tinyt.ones(2, device="opencl")
    assert x.device == DEVICE
    assert repr(x) == "tensor([1., 1.], device='opencl:0')"
    with pytest.raises(RuntimeError, match=r"'opencl:99' is not available; .*: cpu, opencl:0"):
        tinyt.ones(1, device="opencl:99")
    assert tinyt.accelerator.current_accelerator() == tinyt.device("opencl")
    here = {d.name: d for d in tinyt.devices()}
    assert here["opencl:0"].hardware
    assert here["opencl:0"].memory_bytes > 0
    assert not here["opencl:0"].missing


def test_moves():
    for dtype in (*REAL, "float64", "complex64", "complex128"):
        x = tinyt.arange(12).to(getattr(tinyt, dtype)).reshape(3, 4)
        y = x.to(DEVICE)
        same(y, x)
        same(y.t(), x.t())
        same(y[:, 1::2].clone(), x[:, 1::2])
        y[1] = 7
        x[1] = 7
        same(y, x)
        same(y.flip(0, 1), x.flip(0, 1))
        same(tinyt.cat([y, y[:, :0], y], 1), tinyt.cat([x, x], 1))
        same(y.t().reshape(2, 6), x.t().reshape(2, 6))


def test_copies_keep_the_bits_of_nans():
    for dtype, whole in ((tinyt.float32, tinyt.int32), (tinyt.float16, tinyt.int16)):
        bits = tinyt.tensor([0x7FA12345 if dtype is tinyt.float32 else 0x7D23, -1], dtype=whole)
        x = bits.view(dtype).to(DEVICE)
        assert x[::2].clone().cpu().view(whole).tolist() == bits[::2].tolist()
        assert x.clone().cpu().view(whole).tolist() == bits.tolist()


@given(st.data())
def test_copies_of_any_strides(data):
    """Against NumPy's views: permuted, sliced with steps of both signs, broadcast."""
    rank = data.draw(st.integers(1, 4))
    shape = [data.draw(st.sampled_from([0, 1, 2, 5, 33])) for _ in range(rank)]
    base = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    order = data.draw(st.permutations(range(rank)))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in range(rank)]
    view = base.transpose(order)[tuple(slice(None, None, s) for s in steps)]
    x = tinyt.tensor(base).to(DEVICE).permute(*order)
    for d, step in enumerate(steps):
        x = (
            x.flip(d)[(slice(None),) * d + (slice(None, None, -step),)]
            if step < 0
            else x[(slice(None),) * d + (slice(None, None, step),)]
        )
    np.testing.assert_array_equal(x.clone().cpu().numpy(), view)
    wide = tinyt.empty(2, *x.shape, dtype=tinyt.float32, device=DEVICE)
    wide.copy_(x)
    np.testing.assert_array_equal(wide.cpu().numpy(), np.broadcast_to(view, wide.shape))
    column = tinyt.zeros(*x.shape, 2, dtype=tinyt.int32, device=DEVICE)
    column[..., 1] = x
    np.testing.assert_array_equal(column.cpu().numpy()[..., 1], view)
    assert not column.cpu().numpy()[..., 0].any()


# A part of the samples: each dtype and layout of an operation is a kernel to compile.
@pytest.mark.parametrize("op", [op for op in OPS if op.name in SCALAR], ids=lambda op: op.name)
def test_elementwise_operations_have_the_bits_of_the_cpu(op):
    """From level v3 on; AVX-512 has two of its own in float32 (docs/numerics.md)."""
    if _core.build_info()["isa"] in ("x86-64-v2", "neon"):
        pytest.skip("the CPU has no fused multiply-add at this level")
    by_pieces = op.name in ("tanh", "gelu") and "v4" in _core.build_info()["isa"]
    dtype = op.dtypes[len(op.name) % len(op.dtypes)]
    if dtype.startswith("complex"):
        dtype = op.dtypes[0]
    rng = np.random.default_rng(3)
    for sample in op.samples(rng, dtype)[:2]:
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        want = op.function(tinyt)(*args, **kwargs)
        there = [x.to(DEVICE) if isinstance(x, tinyt.Tensor) and x.ndim else x for x in args]
        if not any(isinstance(x, tinyt.Tensor) and x.device == DEVICE for x in there):
            continue
        got = op.function(tinyt)(*there, **kwargs)
        if by_pieces:
            tinyt.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=0, equal_nan=True)
        else:
            same(got, want)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "bool"])
def test_reductions_have_the_bits_of_the_cpu(name, dtype):
    rng = np.random.default_rng(5)
    function = getattr(tinyt, name)
    for shape, dims in (
        ((3, 50), (1,)),
        ((9000,), (0,)),
        ((2, 10000), (1,)),
        ((300, 5), (0,)),
        ((4, 150, 3, 70), (1,)),
        ((4, 15, 3, 7), (0, 2)),
        ((4, 15, 3, 7), (1, 3)),
        ((5, 1), (1,)),
        ((3, 0, 2), (0,)),
    ):
        x = tinyt.tensor(rng.normal(1, 0.01, shape) + (rng.random(shape) < 0.001))
        x = x.to(getattr(tinyt, dtype))
        for view in (x, x.transpose(0, -1)) if len(set(dims)) == 1 and dims[0] else (x,):
            there = x.to(DEVICE)
            there = there if view is x else there.transpose(0, -1)
            if name == "prod":
                for d in sorted(dims, reverse=True):
                    same(function(there, d), function(view, d))
            else:
                same(function(there, dims), function(view, dims))
    if name in ("sum", "prod"):
        same(function(tinyt.zeros(2, 0, device=DEVICE), 1), function(tinyt.zeros(2, 0), 1))


def test_numbers_are_arguments():
    x = tinyt.tensor([1.5, -2.0, float("nan")])
    y = x.to(DEVICE)
    before = _core.gpu_kernels("opencl:0")
    for number in (1, 2.5, float("inf"), -0.0, 1 << 40, True):
        same(y * number, x * number)
        same(y > number, x > number)
    same(y + tinyt.tensor(0.1, dtype=tinyt.float64), x + tinyt.tensor(0.1, dtype=tinyt.float64))
    assert _core.gpu_kernels("opencl:0") - before <= 4  # none for a number
    whole = tinyt.tensor([100, 27], dtype=tinyt.int8)
    same(whole.to(DEVICE) + 300, whole + 300)
    same(whole.to(DEVICE) // 7, whole // 7)
    with pytest.raises(RuntimeError, match="floor_divide: division by zero"):
        whole.to(DEVICE) // 0
    with pytest.raises(RuntimeError, match="remainder: division by zero"):
        whole.to(DEVICE) % tinyt.tensor([3, 0], dtype=tinyt.int8, device=DEVICE)


def test_shapes_share_kernels():
    x = tinyt.randn(3, 4).to(DEVICE)
    (x + x, x.sum(1), x.t().clone())
    before = _core.gpu_kernels("opencl:0")
    for shape in ((5,), (7, 9), (2, 3, 4), (1, 1), (0, 3), (33, 2, 65)):
        x = tinyt.randn(shape).to(DEVICE)
        same((x + x), x.cpu() + x.cpu())
        x.sum(-1)
    assert _core.gpu_kernels("opencl:0") == before


def test_in_place_and_into():
    x, y = tinyt.randn(5, 6), tinyt.randn(6, 5)
    a, b = x.to(DEVICE), y.to(DEVICE)
    a.mul_(2).add_(b.t()).exp_()
    x.mul_(2).add_(y.t()).exp_()
    same(a, x)
    out = tinyt.zeros(6, 10, device=DEVICE)
    tinyt.add(b, 1, out=out[:, ::2])
    same(out[:, ::2].clone(), y + 1)
    assert not out[:, 1::2].cpu().any()
    a[1:, 1:] += 1
    x[1:, 1:] += 1
    same(a, x)


def test_compiled_functions():
    """Fused kernels: what an eager call gives, to the bit."""

    def step(x, w):
        h = (x * w + 1).sigmoid()
        return (h - h.mean(1, keepdim=True)).square().sum(1), h.to(tinyt.bfloat16)

    x, w = tinyt.randn(6, 50), tinyt.randn(50)
    compiled = tinyt.compile(step)
    for _ in range(3):
        for got, want in zip(compiled(x.to(DEVICE), w.to(DEVICE)), step(x, w), strict=True):
            same(got, want)


def test_operations_that_wait():
    """`tinyt.lazy` fuses them, as on the CPU; what is on another device runs between."""

    def step(x, y):
        y.mul_(0.5)
        z = (x + y).sigmoid() * 2
        return (z - z.mean(1, keepdim=True)).t() + tinyt.ones(50, 6, device=x.device)

    for turn in range(3):
        x, y = tinyt.randn(6, 50), tinyt.randn(6, 50)
        a, b = x.to(DEVICE), y.to(DEVICE)
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


def test_compiled_divisions_are_checked():
    divide = tinyt.compile(lambda x, y: (x + 1) // y + 1)
    x = tinyt.tensor([5, 6], device=DEVICE)
    for _ in range(3):
        same(divide(x, tinyt.tensor([2, 3], device=DEVICE)), tinyt.tensor([4, 3]))
    with pytest.raises(RuntimeError, match="division by zero"):
        divide(x, tinyt.tensor([2, 0], device=DEVICE))


def test_faults_are_found_later():
    x = tinyt.arange(4.0, device=DEVICE)
    y = x[tinyt.tensor([1, 7], device=DEVICE)]
    with pytest.raises(IndexError, match="index 7 is out of range for dimension 0 of size 4"):
        y.cpu()
    same(x.cpu().to(DEVICE), tinyt.arange(4.0))
    x[tinyt.tensor([-9], device=DEVICE)] = 5.0
    with pytest.raises(IndexError, match="index -9 is out of range"):
        synchronize(DEVICE)
    same(x, tinyt.arange(4.0))


def test_a_network_trains_as_on_the_cpu():
    losses = []
    for place in ("cpu", DEVICE):
        tinyt.manual_seed(1)
        model = tinyt.nn.Sequential(
            tinyt.nn.Conv2d(1, 4, 3, padding=1),
            tinyt.nn.BatchNorm2d(4),
            tinyt.nn.ReLU(),
            tinyt.nn.MaxPool2d(2),
            tinyt.nn.Flatten(),
            tinyt.nn.Linear(64, 10),
        ).to(place)
        x, t = tinyt.randn(8, 1, 8, 8).to(place), tinyt.arange(8).to(place)
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


def test_gradients():
    x, w = tinyt.randn(4, 5), tinyt.randn(5)
    ours, theirs = [], []
    for place, grads in ((DEVICE, ours), ("cpu", theirs)):
        a, b = (t.to(place).detach().requires_grad_() for t in (x, w))
        ((a * b).tanh().sum(0).exp() / 3).sum().backward()
        grads += [a.grad, b.grad]
    for got, want in zip(ours, theirs, strict=True):
        same(got, want)


def test_memory_is_counted_and_comes_back():
    synchronize(DEVICE)
    before = tinyt.memory.statistics(DEVICE)["current_bytes"]
    x = tinyt.ones(1000, device=DEVICE)
    assert tinyt.memory.statistics(DEVICE)["current_bytes"] == before + 4000
    del x
    assert tinyt.memory.statistics(DEVICE)["current_bytes"] == before
    with pytest.raises(tinyt.OutOfMemoryError, match="opencl:0"):
        tinyt.empty(1 << 45, dtype=tinyt.uint8, device=DEVICE)
    tinyt.memory.set_limit(1 << 20, DEVICE)
    try:
        with pytest.raises(tinyt.OutOfMemoryError, match="limit of opencl:0"):
            tinyt.empty(1 << 21, dtype=tinyt.uint8, device=DEVICE)
    finally:
        tinyt.memory.set_limit(0, DEVICE)


@given(st.data())
def test_order_is_that_of_the_cpu(data):
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
    there = x.to(DEVICE)
    for call in calls:
        for got, want in zip(call(there), call(x), strict=True):
            same(got, want)


def test_long_lines_are_sorted():
    rng = np.random.default_rng(7)
    x = tinyt.tensor(rng.integers(-1000, 1000, 70001).astype(np.float32))
    for got, want in zip(x.to(DEVICE).sort(), x.sort(), strict=True):
        same(got, want)
    for got, want in zip(x.to(DEVICE).topk(100), x.topk(100), strict=True):
        same(got, want)
    lines = tinyt.tensor(rng.integers(0, 50, (3, 5000)))
    for got, want in zip(lines.to(DEVICE).sort(1), lines.sort(1), strict=True):
        same(got, want)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_places_in_sorted_lines(dtype):
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
                tinyt.searchsorted(x.to(DEVICE), v.to(DEVICE), right=right),
                tinyt.searchsorted(x, v, right=right),
            )


def test_elements_that_are_not_zero():
    rng = np.random.default_rng(9)
    for shape in ((), (0,), (1,), (255,), (256,), (3, 1000), (7, 5, 3), (2, 0)):
        for dtype in (np.float32, bool, np.complex64):
            given = (rng.random(shape) * (rng.random(shape) < 0.3)).astype(dtype)
            x = tinyt.tensor(given)
            same(x.to(DEVICE).nonzero(), x.nonzero())
            same(x.to(DEVICE)[(x != 0).to(DEVICE)], x[x != 0])
    x, rows = tinyt.arange(60).reshape(5, 4, 3), tinyt.tensor([True, False, True, False, True])
    for mask in (rows, rows[:, None] & tinyt.tensor([True, False, True, True])):
        same(x.to(DEVICE)[mask.to(DEVICE)], x[mask])
        same(x.to(DEVICE).transpose(0, 2)[:, :, rows.to(DEVICE)], x.transpose(0, 2)[:, :, rows])
    y = x.to(DEVICE, copy=True)
    y[rows.to(DEVICE)] = 0
    assert y.cpu().nonzero().shape[0] == 24
    same(tinyt.unique(y % 7), tinyt.unique(y.cpu() % 7))


def test_images_are_resized():
    x = tinyt.randn(2, 3, 7, 5)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        for size in ((4, 9), (14, 2)):
            a, b = (t.detach().requires_grad_() for t in (x, x.to(DEVICE)))
            want = tinyt.nn.functional.interpolate(a, size=size, mode=mode)
            got = tinyt.nn.functional.interpolate(b, size=size, mode=mode)
            assert got.device == DEVICE
            tinyt.testing.assert_close(got.cpu(), want)
            want.square().sum().backward()
            got.square().sum().backward()
            tinyt.testing.assert_close(b.grad.cpu(), a.grad)


def test_factors_and_triangular_systems():
    rng = np.random.default_rng(10)
    for shape in ((), (3,), (2, 0)):
        for n in (1, 2, 17):
            half = rng.normal(size=(*shape, n, n + 2)).astype(np.float32)
            a = half @ half.swapaxes(-1, -2)
            lower = tinyt.linalg.cholesky(tinyt.tensor(a).to(DEVICE))
            np.testing.assert_allclose(
                lower.cpu().numpy(), np.linalg.cholesky(a), rtol=1e-3, atol=1e-4
            )
            b = rng.normal(size=(*shape, n, 3)).astype(np.float32)
            for upper in (False, True):
                factor = np.linalg.cholesky(a)
                factor = factor.swapaxes(-1, -2).copy() if upper else factor
                got = tinyt.linalg.solve_triangular(
                    tinyt.tensor(factor).to(DEVICE), tinyt.tensor(b).to(DEVICE), upper=upper
                )
                np.testing.assert_allclose(factor @ got.cpu().numpy(), b, rtol=1e-3, atol=1e-3)
    bad = tinyt.eye(3)
    bad[1, 1] = -1
    factor, order = tinyt.linalg.cholesky_ex(tinyt.stack([tinyt.eye(3), bad]).to(DEVICE))
    assert order.tolist() == [0, 2]
    assert factor[0].tolist() == tinyt.eye(3).tolist()


def test_what_has_no_kernel_says_so():
    with pytest.raises(NotImplementedError, match=r"add: no kernel for complex64 on opencl:0 \("):
        tinyt.ones(3, dtype=tinyt.complex64, device=DEVICE) + 1
    with pytest.raises(NotImplementedError, match=r"poisson: no kernel on opencl:0 \(TINYT_HOST_F"):
        tinyt.poisson(tinyt.ones(3, device=DEVICE))


def test_a_forked_process_is_refused():
    tinyt.ones(1, device=DEVICE).cpu()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            tinyt.ones(1, device=DEVICE)
            os.write(write, b"nothing was raised")
        except tinyt.DeviceError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert re.search(rb"a forked process cannot use OpenCL", os.read(read, 1000))
    os.close(read)
    os.close(write)
