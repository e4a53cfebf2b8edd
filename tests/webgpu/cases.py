"""Python on a WebGPU device (Mesa's llvmpipe, where no other is installed): run by
`tests/unit/test_webgpu.py` in a process of its own, so that others have no accelerator."""

import operator
import os

import numpy as np
import pytest

import tinyt
from device_cases import *  # noqa: F403
from device_cases import same
from group_cases import *  # noqa: F403
from int64_cases import *  # noqa: F403
from op_samples import BY_NAME
from sampling import build
from tinyt import _core

DEVICE = tinyt.device("webgpu:0")
WHOLE = ("uint8", "int8", "int16", "int32", "int64")
REAL = ("bool", *WHOLE, "float16", "bfloat16", "float32")
ARITY = {row["name"]: row["inputs"] for row in _core.op_table()}


@pytest.fixture(scope="session")
def place():
    return DEVICE


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


def test_its_integers():
    """In two words where the adapter has none of 64 bits, or the variable says so."""
    words = os.environ.get("TINYT_WEBGPU_INT64") == "0"
    tinyt.ones(1, device=DEVICE)
    dialect = _core.gpu_dialect("webgpu:0")
    assert dialect == "wgsl-two-words" if words else dialect.startswith("wgsl")


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
    "clamp_min",
    "clamp_max",
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
    "sign",
    "relu",
]


def check(function, operands):
    same(function(*(x.to(DEVICE) for x in operands)), function(*operands))


def check_row(name, dtype, compare, most=2):
    """The operation on the device and on the CPU; how many samples there are."""
    op = BY_NAME[name]
    assert dtype in op.dtypes
    checked = 0
    for sample in op.samples(np.random.default_rng(3), dtype)[:most]:
        args, kwargs = build(tinyt, sample.args), build(tinyt, sample.kwargs)
        want = op.function(tinyt)(*args, **kwargs)
        there = [x.to(DEVICE) if isinstance(x, tinyt.Tensor) and x.ndim else x for x in args]
        if not any(isinstance(x, tinyt.Tensor) and x.device == DEVICE for x in there):
            continue
        compare(op.function(tinyt)(*there, **kwargs), want)
        checked += 1
    return checked


@pytest.mark.parametrize("name", EXACT)
def test_float32_operations_have_the_bits_of_the_cpu(name):
    assert check_row(name, "float32", same)


@pytest.mark.parametrize("name", CLOSE)
def test_float32_functions(name):
    if not has_bits_of_others():
        pytest.skip("the CPU has no fused multiply-add at this level")

    def close(got, want):
        tinyt.testing.assert_close(got.cpu(), want, rtol=5e-7, atol=1e-7, equal_nan=True)

    assert check_row(name, "float32", close)


FUNCTIONS = [
    *("log", "log2", "log10", "log1p", "exp", "exp2", "expm1", "asin", "acos", "atan", "asinh"),
    *("acosh", "atanh", "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "digamma", "i0"),
    *("special.i0e", "special.i1", "special.i1e", "special.ndtri", "special.log_ndtr"),
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_at_their_ends(name):
    """In two words of float32, which nothing may simplify."""
    function = operator.attrgetter(name)(tinyt)
    inf = float("inf")
    values = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 1e-45, 1e-30, 3e38, inf, -inf, float("nan")]
    x = tinyt.tensor([*values, *np.linspace(-3, 9, 200)], dtype=tinyt.float32)
    got, want = function(x.to(DEVICE)).cpu(), function(x.double())
    # The larger of 1 and the result, where functions have zeros between the floats.
    least = 2.5e-7 if name in ("lgamma", "digamma") else 1e-44
    np.testing.assert_allclose(got.numpy(), want.float().numpy(), 2.5e-7, least)


@pytest.mark.parametrize("name", INTEGRAL)
def test_operations_of_whole_numbers(name):
    rng = np.random.default_rng(11)
    for kind in WHOLE:
        dtype = getattr(tinyt, kind)
        ends = [tinyt.iinfo(dtype).min, tinyt.iinfo(dtype).max]
        values = rng.integers(*ends, 40, endpoint=True)
        x = tinyt.tensor([*ends, 0, 1, 7, *values.tolist()], dtype=dtype)
        y = x.flip(0)
        y[y == 0] = 3
        if name == "floor_divide":  # the least by -1 has no result
            y[y == -1] = 2
        check(getattr(tinyt, name), [x, y][: ARITY[name]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "bool"])
def test_narrow_dtypes(dtype):
    dtype = getattr(tinyt, dtype)
    x = tinyt.tensor([0.0, -0.0, 1.5, -3.25, 1e-7, 60000.0, float("inf"), float("nan")]).to(dtype)
    names = ["maximum", "eq", "lt", "logical_and", "isnan"]
    if dtype != tinyt.bool:
        names += ["add", "mul", "div", "neg", "abs", "sqrt"]
    for name in names:
        check(getattr(tinyt, name), [x, x.flip(0)][: ARITY[name]])


def test_every_conversion():
    rng = np.random.default_rng(1)
    x = tinyt.tensor(rng.normal(0, 50, 40).round(1))
    for source in REAL:
        host = x.to(getattr(tinyt, source)) if source != "uint8" else x.abs().to(tinyt.uint8)
        for target in ("bool", "int8", "int64", "bfloat16", "float32"):
            same(host.to(DEVICE).to(getattr(tinyt, target)), host.to(getattr(tinyt, target)))


def test_doubles_are_converted_by_the_host():
    """Stored, moved and converted; arithmetic beside numbers of one element, too."""
    x = tinyt.tensor([0.1, -2.5e300, 7.0, float("nan"), 0.0], dtype=tinyt.float64)
    y = x.to(DEVICE)
    for dtype in (tinyt.float32, tinyt.int64, tinyt.bfloat16, tinyt.bool):
        kept = x[2:3] if dtype is tinyt.int64 else x
        there = y[2:3] if dtype is tinyt.int64 else y
        same(there.to(dtype), kept.to(dtype))
        same(there.to(dtype).double(), kept.to(dtype).double())
    one = tinyt.tensor([1.5, 2.5])
    same(one.to(DEVICE) * y[0], one * x[0])
    same(y.nonzero(), x.nonzero())
    same(y[tinyt.tensor([True, False, True, True, False], device=DEVICE)], x[[0, 2, 3]])
    rounded = tinyt.compile(lambda t: (t.double().float() + 1, t.double()))
    for _ in range(2):
        for got, want in zip(rounded(one.to(DEVICE)), (one + 1, one.double()), strict=True):
            same(got, want)
    tinyt.manual_seed(1)
    want = tinyt.rand(5, dtype=tinyt.float64)
    tinyt.manual_seed(1)
    same(tinyt.rand(5, dtype=tinyt.float64, device=DEVICE), want)


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


def test_products():
    x, w = tinyt.randn(7, 33), tinyt.randn(33, 10)
    tinyt.testing.assert_close((x.to(DEVICE) @ w.to(DEVICE)).cpu(), x @ w, rtol=1e-5, atol=1e-5)
    b = tinyt.randn(3, 1, 5, 4), tinyt.randn(2, 4, 6)
    got = b[0].to(DEVICE) @ b[1].to(DEVICE)
    tinyt.testing.assert_close(got.cpu(), b[0] @ b[1], rtol=1e-5, atol=1e-5)


def test_many_launches_wait_for_nobody():
    """More than fit one submission, and more groups than lie along one dimension."""
    x = tinyt.zeros(1000, device=DEVICE)
    for _ in range(2500):
        x += 1
    same(x, tinyt.full((1000,), 2500.0))
    big = tinyt.arange(300_000).to(tinyt.float32)
    same(big.to(DEVICE) + 1, big + 1)


def test_what_it_lacks_says_so():
    with pytest.raises(NotImplementedError, match=r"add: no kernel for float64 on webgpu:0 \("):
        tinyt.ones(3, dtype=tinyt.float64, device=DEVICE) + 1
    x = tinyt.ones(3, dtype=tinyt.complex128, device=DEVICE)
    lack = r"no kernel for complex128 on webgpu:0, nor for float64 \("
    for name in ("mul", "exp", "sum", "matmul"):
        args = (x, x) if name in ("mul", "matmul") else (x,)
        with pytest.raises(NotImplementedError, match=f"{name}: {lack}"):
            getattr(tinyt, name)(*args)
