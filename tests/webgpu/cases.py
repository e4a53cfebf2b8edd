"""Python on a WebGPU device (Mesa's llvmpipe, where no other is installed): run by
`tests/unit/test_webgpu.py` in a process of its own, so that others have no accelerator."""

import os
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tinyt
from op_samples import OPS
from sampling import assert_same_bits, build
from tinyt import _core
from tinyt._tensor import synchronize

DEVICE = tinyt.device("webgpu:0")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
REAL = ("bool", *WHOLE, "float16", "bfloat16", "float32")
ROWS = {op.name: op for op in OPS}


def same(x, expected):
    assert x.device == DEVICE
    if x.dtype == tinyt.bfloat16:  # which NumPy lacks
        assert expected.dtype == tinyt.bfloat16
        x, expected = x.view(tinyt.int16), expected.view(tinyt.int16)
    assert_same_bits(x.cpu(), expected)


def test_its_names():
    assert tinyt.device("webgpu").type == "webgpu"
    x = tinyt.ones(2, device="webgpu")
    assert x.device == DEVICE
    assert repr(x) == "tensor([1., 1.], device='webgpu:0')"
    with pytest.raises(RuntimeError, match=r"'webgpu:99' is not available; .*: cpu, webgpu:0"):
        tinyt.ones(1, device="webgpu:99")
    assert tinyt.accelerator.current_accelerator() == tinyt.device("webgpu")
    here = {d.name: d for d in tinyt.devices()}
    assert here["webgpu:0"].hardware
    assert not here["webgpu:0"].missing


def test_moves():
    for dtype in (*REAL, "float64", "complex64"):
        x = tinyt.arange(12).to(getattr(tinyt, dtype)).reshape(3, 4)
        y = x.to(DEVICE)
        same(y, x)
        same(y.t(), x.t())
        same(y[:, 1::2].clone(), x[:, 1::2])


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "int64"])
def test_writes_into_parts(dtype):
    """Neighbours in a word of memory stay as they are."""
    x = tinyt.arange(15).to(getattr(tinyt, dtype)).reshape(3, 5)
    y = x.to(DEVICE)
    for part in ((1, slice(None)), (slice(None), slice(1, None, 2)), (2, 4)):
        x[part] = 7
        y[part] = 7
        same(y, x)
    same(y.flip(0, 1), x.flip(0, 1))
    same(tinyt.cat([y, y[:, :0], y], 1), tinyt.cat([x, x], 1))
    y[0, :3].copy_(x[1, 1:4])  # bytes of the host that begin between two words
    x[0, :3].copy_(x[1, 1:4].clone())
    same(y, x)
    y[2, 1:4].copy_(y[0, :3])
    x[2, 1:4].copy_(x[0, :3])
    same(y, x)


def test_copies_keep_the_bits_of_nans():
    for dtype, whole in ((tinyt.float32, tinyt.int32), (tinyt.float16, tinyt.int16)):
        bits = tinyt.tensor([0x7FA12345 if dtype is tinyt.float32 else 0x7D23, -1], dtype=whole)
        x = bits.view(dtype).to(DEVICE)
        assert x[::2].clone().cpu().view(whole).tolist() == bits[::2].tolist()
        assert x.clone().cpu().view(whole).tolist() == bits.tolist()


@settings(max_examples=25)
@given(st.data())
def test_copies_of_any_strides(data):
    """Against NumPy's views: permuted, sliced with steps of both signs, broadcast."""
    rank = data.draw(st.integers(1, 3))
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
    column = tinyt.zeros(*x.shape, 2, dtype=tinyt.int32, device=DEVICE)
    column[..., 1] = x
    np.testing.assert_array_equal(column.cpu().numpy()[..., 1], view)
    assert not column.cpu().numpy()[..., 0].any()


def has_bits_of_others() -> bool:
    """From level v3 on the CPU has a fused multiply-add."""
    return _core.build_info()["isa"] not in ("x86-64-v2", "neon")


# Operations of float32 without double-word arithmetic; functions; operations of whole numbers.
EXACT = [
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "sqrt",
    "square",
    "reciprocal",
    "maximum",
    "minimum",
    "floor",
    "ceil",
    "trunc",
    "round",
    "relu",
    "sign",
    "where",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "clamp",
]
CLOSE = ["exp", "log", "sigmoid", "tanh", "sin", "erf", "rsqrt"]
INTEGRAL = [
    "add",
    "sub",
    "mul",
    "floor_divide",
    "remainder",
    "bitwise_and",
    "bitwise_not",
    "neg",
    "abs",
    "maximum",
    "lt",
    "eq",
]


def check_row(name, dtype, check, most=2):
    op = ROWS.get(name)
    if op is None or dtype not in op.dtypes:
        return 0
    checked = 0
    for sample in op.samples(np.random.default_rng(3), dtype)[:most]:
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        want = op.function(tinyt)(*args, **kwargs)
        there = [x.to(DEVICE) if isinstance(x, tinyt.Tensor) and x.ndim else x for x in args]
        if not any(isinstance(x, tinyt.Tensor) and x.device == DEVICE for x in there):
            continue
        check(op.function(tinyt)(*there, **kwargs), want)
        checked += 1
    return checked


@pytest.mark.parametrize("name", EXACT)
def test_float32_operations_have_the_bits_of_the_cpu(name):
    check_row(name, "float32", same)


@pytest.mark.parametrize("name", CLOSE)
def test_float32_functions(name):
    if not has_bits_of_others():
        pytest.skip("the CPU has no fused multiply-add at this level")

    def close(got, want):
        tinyt.testing.assert_close(got.cpu(), want, rtol=5e-7, atol=1e-7, equal_nan=True)

    assert check_row(name, "float32", close)


@pytest.mark.parametrize("name", INTEGRAL)
def test_operations_of_whole_numbers(name):
    dtype = WHOLE[len(name) % len(WHOLE)]
    check_row(name, dtype, same, 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool"])
def test_narrow_dtypes(dtype):
    for name in ("add", "maximum", "eq", "logical_and"):
        check_row(name, dtype, same, 1)


def test_every_conversion():
    rng = np.random.default_rng(1)
    x = tinyt.tensor(rng.normal(0, 50, 40).round(1))
    for source in REAL:
        host = x.to(getattr(tinyt, source)) if source != "uint8" else x.abs().to(tinyt.uint8)
        for target in ("bool", "int8", "int64", "bfloat16", "float32"):
            if source == "float32" and target == "bool":
                continue
            same(host.to(DEVICE).to(getattr(tinyt, target)), host.to(getattr(tinyt, target)))


def test_nan_and_infinity_are_not_assumed_away():
    nan, inf = float("nan"), float("inf")
    x = tinyt.tensor([nan, inf, -inf, 0.0, -0.0, 1e-40, 3e38])
    y = x.to(DEVICE)
    for f in (
        lambda t: t != t,
        lambda t: t - t,
        lambda t: t / t,
        lambda t: t * 0,
        lambda t: t + 0,
        lambda t: ~(t < 1),
        lambda t: t.isnan(),
        lambda t: tinyt.maximum(t, t.flip(0)),
        lambda t: t.amax(),
        lambda t: (t + 1) - 1,
        lambda t: t * t * t,
    ):
        got, want = f(y).cpu(), f(x)
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    compiled = tinyt.compile(lambda t: ((t + 1e8) - 1e8, (t * 3 + 1) - t * 3, ~(t < 1), t - t))
    for got, want in zip(compiled(y), compiled(x), strict=True):
        np.testing.assert_array_equal(got.cpu().numpy(), want.numpy())


@pytest.mark.parametrize("name", ["sum", "prod", "amax"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool"])
def test_reductions_have_the_bits_of_the_cpu(name, dtype):
    rng = np.random.default_rng(5)
    function = getattr(tinyt, name)
    for shape, dims in (((3, 50), (1,)), ((9000,), (0,)), ((300, 5), (0,)), ((3, 0, 2), (0,))):
        x = tinyt.tensor(rng.normal(1, 0.01, shape) + (rng.random(shape) < 0.001))
        x = x.to(getattr(tinyt, dtype))
        same(function(x.to(DEVICE), dims[0]), function(x, dims[0]))


def test_numbers_are_arguments():
    x = tinyt.tensor([1.5, -2.0, float("nan")])
    y = x.to(DEVICE)
    before = _core.gpu_kernels("webgpu:0")
    for number in (1, 2.5, float("inf"), -0.0, True):
        same(y * number, x * number)
    assert _core.gpu_kernels("webgpu:0") - before <= 3  # none for a number
    whole = tinyt.tensor([100, -27])
    for number in (1 << 40, -(1 << 33) - 5, (1 << 31) + 3, -1):
        same(whole.to(DEVICE) + number, whole + number)
    with pytest.raises(RuntimeError, match="floor_divide: division by zero"):
        whole.to(DEVICE) // 0


def test_shapes_share_kernels():
    x = tinyt.randn(3, 4).to(DEVICE)
    (x + x, x.sum(1), x.t().clone())
    before = _core.gpu_kernels("webgpu:0")
    for shape in ((5,), (7, 9), (2, 3, 4), (1, 1), (0, 3), (33, 2, 65)):
        x = tinyt.randn(shape).to(DEVICE)
        same((x + x), x.cpu() + x.cpu())
        x.sum(-1)
    assert _core.gpu_kernels("webgpu:0") == before


def test_in_place_and_into():
    """Arguments in one buffer are one binding, whatever they are to the kernel."""
    x, y = tinyt.randn(5, 6), tinyt.randn(6, 5)
    a, b = x.to(DEVICE), y.to(DEVICE)
    a.mul_(2).add_(b.t()).neg_()
    x.mul_(2).add_(y.t()).neg_()
    same(a, x)
    out = tinyt.zeros(6, 10, device=DEVICE)
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
    there = small.to(DEVICE)
    there[0:3] += there[5:8]
    small[0:3] += small[5:8]
    same(there, small)


def test_compiled_functions():
    """Fused kernels over parts of one arena: what an eager call gives, to the bit."""

    def step(x, w):
        h = (x * w + 1).relu()
        return (h - h.mean(1, keepdim=True)).square().sum(1), h.to(tinyt.bfloat16)

    x, w = tinyt.randn(6, 50), tinyt.randn(50)
    compiled = tinyt.compile(step)
    for _ in range(3):
        for got, want in zip(compiled(x.to(DEVICE), w.to(DEVICE)), step(x, w), strict=True):
            same(got, want)


def test_random_numbers_are_the_cpus():
    for draw in (
        lambda d: tinyt.rand(33, device=d),
        lambda d: tinyt.randint(0, 1 << 40, (9,), device=d),
    ):
        tinyt.manual_seed(7)
        want = draw("cpu")
        tinyt.manual_seed(7)
        same(draw(DEVICE), want)
    tinyt.manual_seed(7)
    want = tinyt.randn(33)
    tinyt.manual_seed(7)
    tinyt.testing.assert_close(tinyt.randn(33, device=DEVICE).cpu(), want, rtol=1e-6, atol=1e-6)
    same(tinyt.arange(5, device=DEVICE), tinyt.arange(5))
    same(tinyt.arange(0.5, 3, 0.3, device=DEVICE), tinyt.arange(0.5, 3, 0.3))


def test_products():
    x, w = tinyt.randn(7, 33), tinyt.randn(33, 10)
    tinyt.testing.assert_close((x.to(DEVICE) @ w.to(DEVICE)).cpu(), x @ w, rtol=1e-5, atol=1e-5)
    b = tinyt.randn(3, 1, 5, 4), tinyt.randn(2, 4, 6)
    got = b[0].to(DEVICE) @ b[1].to(DEVICE)
    tinyt.testing.assert_close(got.cpu(), b[0] @ b[1], rtol=1e-5, atol=1e-5)


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


def test_indexing():
    x = tinyt.randn(5, 6)
    index = tinyt.tensor([[3, 1, 0, 4, 4, 2]])
    y, there = x.to(DEVICE), index.to(DEVICE)
    same(y.gather(0, there), x.gather(0, index))
    same(y.scatter(0, there, y), x.scatter(0, index, x))
    same(y.scatter_add(1, there, y), x.scatter_add(1, index, x))
    same(y[there[0, :3], there[0, 3:]], x[index[0, :3], index[0, 3:]])
    same(y.argmax(1), x.argmax(1))
    got, want = y.cummax(1), x.cummax(1)
    same(got[0], want[0])
    same(got[1], want[1])
    tinyt.testing.assert_close(y.cumsum(0).cpu(), x.cumsum(0), rtol=1e-5, atol=1e-6)


def test_a_network_trains_as_on_the_cpu():
    losses = []
    for place in ("cpu", DEVICE):
        tinyt.manual_seed(1)
        model = tinyt.nn.Sequential(
            tinyt.nn.Conv2d(1, 4, 3, padding=1),
            tinyt.nn.ReLU(),
            tinyt.nn.MaxPool2d(2),
            tinyt.nn.Flatten(),
            tinyt.nn.Linear(64, 10),
        ).to(place)
        x, t = tinyt.randn(8, 1, 8, 8).to(place), tinyt.arange(8).to(place)
        optimizer = tinyt.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(5):
            optimizer.zero_grad()
            loss = tinyt.nn.functional.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[4] < losses[0]
    np.testing.assert_allclose(losses[5:], losses[:5], rtol=1e-4)


def test_many_launches_wait_for_nobody():
    """More than fit one submission, and more groups than lie along one dimension."""
    x = tinyt.zeros(1000, device=DEVICE)
    for _ in range(2500):
        x += 1
    same(x, tinyt.full((1000,), 2500.0))
    big = tinyt.arange(300_000).to(tinyt.float32)
    same(big.to(DEVICE) + 1, big + 1)


def test_memory_is_counted_and_comes_back():
    synchronize(DEVICE)
    before = tinyt.memory.statistics(DEVICE)["current_bytes"]
    x = tinyt.ones(1000, device=DEVICE)
    assert tinyt.memory.statistics(DEVICE)["current_bytes"] == before + 4000
    del x
    assert tinyt.memory.statistics(DEVICE)["current_bytes"] == before
    with pytest.raises(tinyt.OutOfMemoryError, match="webgpu:0"):
        tinyt.empty(1 << 45, dtype=tinyt.uint8, device=DEVICE)
    tinyt.memory.empty_cache(DEVICE)
    same(tinyt.ones(3, device=DEVICE), tinyt.ones(3))


def test_what_it_lacks_says_so():
    with pytest.raises(NotImplementedError, match=r"float64|f64"):
        tinyt.ones(3, dtype=tinyt.float64).to(DEVICE) + 1
    with pytest.raises(NotImplementedError, match=r"cholesky.*webgpu:0"):
        tinyt.linalg.cholesky(tinyt.eye(2, device=DEVICE))


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
    assert re.search(rb"a forked process cannot use WebGPU", os.read(read, 1000))
    os.close(read)
    os.close(write)
