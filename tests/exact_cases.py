"""What holds on devices whose arithmetic is IEEE 754's, as `gpu/probe.cpp` finds: their bits are
the CPU's. Imported by the cases of each, as `device_cases.py`."""

import numpy as np
import pytest

import tinyt
from device_cases import same
from op_samples import OPS
from sampling import build
from tinyt import _core

SCALAR = {row["name"] for row in _core.op_table() if row["kind"] == "scalar"}
REAL = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32")


def test_its_names(place):
    kind = place.type
    assert tinyt.device(kind).type == kind
    x = tinyt.ones(2, device=kind)
    assert x.device == place
    assert repr(x) == f"tensor([1., 1.], device='{kind}:0')"
    with pytest.raises(RuntimeError, match=rf"'{kind}:99' is not available; .*: cpu, {kind}:0"):
        tinyt.ones(1, device=f"{kind}:99")
    assert tinyt.accelerator.current_accelerator() == tinyt.device(kind)
    here = {d.name: d for d in tinyt.devices()}
    assert here[f"{kind}:0"].hardware
    assert here[f"{kind}:0"].memory_bytes > 0
    assert not here[f"{kind}:0"].missing


def test_moves(place):
    for dtype in (*REAL, "float64", "complex64", "complex128"):
        x = tinyt.arange(12).to(getattr(tinyt, dtype)).reshape(3, 4)
        y = x.to(place)
        same(y, x)
        same(y.t(), x.t())
        same(y[:, 1::2].clone(), x[:, 1::2])
        y[1] = 7
        x[1] = 7
        same(y, x)
        same(y.flip(0, 1), x.flip(0, 1))
        same(tinyt.cat([y, y[:, :0], y], 1), tinyt.cat([x, x], 1))
        same(y.t().reshape(2, 6), x.t().reshape(2, 6))


# A part of the samples: each dtype and layout of an operation is a kernel to compile.
@pytest.mark.parametrize("op", [op for op in OPS if op.name in SCALAR], ids=lambda op: op.name)
def test_elementwise_operations_have_the_bits_of_the_cpu(place, op):
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
        there = [x.to(place) if isinstance(x, tinyt.Tensor) and x.ndim else x for x in args]
        if not any(isinstance(x, tinyt.Tensor) and x.device == place for x in there):
            continue
        got = op.function(tinyt)(*there, **kwargs)
        if by_pieces:
            tinyt.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=0, equal_nan=True)
        else:
            same(got, want)


@pytest.mark.parametrize("name", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32", "bool"])
def test_reductions_have_the_bits_of_the_cpu(place, name, dtype):
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
            there = x.to(place)
            there = there if view is x else there.transpose(0, -1)
            if name == "prod":
                for d in sorted(dims, reverse=True):
                    same(function(there, d), function(view, d))
            else:
                same(function(there, dims), function(view, dims))
    if name in ("sum", "prod"):
        same(function(tinyt.zeros(2, 0, device=place), 1), function(tinyt.zeros(2, 0), 1))


def test_numbers_are_arguments(place):
    x = tinyt.tensor([1.5, -2.0, float("nan")])
    y = x.to(place)
    before = _core.gpu_kernels(str(place))
    for number in (1, 2.5, float("inf"), -0.0, 1 << 40, True):
        same(y * number, x * number)
        same(y > number, x > number)
    same(y + tinyt.tensor(0.1, dtype=tinyt.float64), x + tinyt.tensor(0.1, dtype=tinyt.float64))
    assert _core.gpu_kernels(str(place)) - before <= 4  # none for a number
    whole = tinyt.tensor([100, 27], dtype=tinyt.int8)
    same(whole.to(place) + 300, whole + 300)
    same(whole.to(place) // 7, whole // 7)
    with pytest.raises(RuntimeError, match="floor_divide: division by zero"):
        whole.to(place) // 0
    with pytest.raises(RuntimeError, match="remainder: division by zero"):
        whole.to(place) % tinyt.tensor([3, 0], dtype=tinyt.int8, device=place)


def test_compiled_functions(place):
    """Fused kernels: what an eager call gives, to the bit."""

    def step(x, w):
        h = (x * w + 1).sigmoid()
        return (h - h.mean(1, keepdim=True)).square().sum(1), h.to(tinyt.bfloat16)

    x, w = tinyt.randn(6, 50), tinyt.randn(50)
    compiled = tinyt.compile(step)
    for _ in range(3):
        for got, want in zip(compiled(x.to(place), w.to(place)), step(x, w), strict=True):
            same(got, want)


def test_compiled_divisions_are_checked(place):
    divide = tinyt.compile(lambda x, y: (x + 1) // y + 1)
    x = tinyt.tensor([5, 6], device=place)
    for _ in range(3):
        same(divide(x, tinyt.tensor([2, 3], device=place)), tinyt.tensor([4, 3]))
    with pytest.raises(RuntimeError, match="division by zero"):
        divide(x, tinyt.tensor([2, 0], device=place))


def test_gradients(place):
    x, w = tinyt.randn(4, 5), tinyt.randn(5)
    ours, theirs = [], []
    for where, grads in ((place, ours), ("cpu", theirs)):
        a, b = (t.to(where).detach().requires_grad_() for t in (x, w))
        ((a * b).sigmoid().sum(0).exp() / 3).sum().backward()
        grads += [a.grad, b.grad]
    for got, want in zip(ours, theirs, strict=True):
        same(got, want)
