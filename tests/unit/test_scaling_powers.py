"""ldexp where the power of two alone leaves the range, nextafter's gradient, quantiles between
infinities."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tinyt

INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_ldexp_over_the_whole_range(name: str) -> None:
    """NumPy's: one rounding, where the result is subnormal too."""
    info = np.finfo(name)
    rng = np.random.default_rng(0)
    span = info.maxexp - info.minexp + info.nmant + 3
    x = rng.uniform(1, 2, 4000) * 2.0 ** rng.integers(info.minexp, info.maxexp, 4000)
    x = np.concatenate(
        [x, [info.max, info.tiny, info.smallest_subnormal, -info.max, 0.0, -0.0, INF, -INF]]
    ).astype(name)
    powers = rng.integers(-span, span, x.size)
    powers[-8:] = [-span + 2, span - 2, span - 2, -span + 3, span, 5000, -5000, -7]
    with np.errstate(all="ignore"):
        want = np.ldexp(x, powers)
    got = tinyt.ldexp(tinyt.tensor(x), tinyt.tensor(powers)).numpy()
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_ldexp_undoes_frexp(name: str) -> None:
    dtype = getattr(tinyt, name)
    info = tinyt.finfo(dtype)
    x = tinyt.tensor([info.max, -info.max, info.tiny, 1.0, 0.0, -3.5], dtype=dtype)
    back = tinyt.ldexp(*tinyt.frexp(x))
    assert back.dtype is dtype
    assert back.tolist() == x.tolist()


def test_ldexp_has_the_dtype_of_its_operands() -> None:
    one, integers = tinyt.tensor([3.0]), tinyt.tensor([2])
    assert tinyt.ldexp(one.half(), integers).dtype is tinyt.float16
    assert tinyt.ldexp(one.half(), integers.float()).dtype is tinyt.float32
    assert tinyt.ldexp(integers, integers).dtype is tinyt.float32
    assert tinyt.ldexp(one.double(), integers).dtype is tinyt.float64
    assert tinyt.ldexp(one.half(), tinyt.tensor([14])).tolist() == [49152.0]
    assert tinyt.ldexp(one, tinyt.tensor([0.5])).item() == pytest.approx(3 * 2**0.5)
    assert tinyt.ldexp(tinyt.zeros(1), tinyt.tensor([INF])).isnan().all()


def test_gradients_of_ldexp() -> None:
    x = tinyt.tensor([1e-30, 3.0, 1e30], requires_grad=True)
    powers = tinyt.tensor([120.0, -2.5, -140.0], requires_grad=True)
    tinyt.ldexp(x, powers).sum().backward()
    want = 2.0 ** powers.detach().double().numpy()
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)
    slope = x.detach().double().numpy() * want * math.log(2)
    np.testing.assert_allclose(powers.grad.numpy(), slope, rtol=1e-6)
    far = tinyt.tensor([1e-30], requires_grad=True)
    tinyt.ldexp(far, tinyt.tensor([150])).backward()
    assert far.grad.item() == INF  # 2**150, beyond float32


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_gradient_of_nextafter(name: str) -> None:
    """The neighbour moves with the input; zero at an equal one and for the direction."""
    dtype = getattr(tinyt, name)
    x = tinyt.tensor([1.0, 2.0, 3.0, -4.0], dtype=dtype, requires_grad=True)
    y = tinyt.tensor([1.0, 5.0, NAN, -9.0], dtype=dtype, requires_grad=True)
    tinyt.nextafter(x, y).sum().backward()
    assert x.grad.tolist() == [0.0, 1.0, 1.0, 1.0]
    assert y.grad is None or y.grad.tolist() == [0.0] * 4


@pytest.mark.parametrize("function", [tinyt.quantile, tinyt.nanquantile])
@pytest.mark.parametrize("q", [1.5, -0.1, 2.0, NAN, [1.5], [-1e-9], [NAN], [0.5, 1.001], [INF]])
@pytest.mark.parametrize("how", ["linear", "nearest"])
def test_quantiles_lie_between_zero_and_one(function: Any, q: Any, how: str) -> None:
    """Of any input: where all places are one, and where a NaN decides, too."""
    given = [q, tinyt.tensor(q)] if isinstance(q, float) else [tinyt.tensor(q)]
    for x in (tinyt.ones(3), tinyt.ones(1), tinyt.tensor([1.0, NAN])):
        for some in given:
            with pytest.raises(RuntimeError, match=r"q values must be in the range \[0, 1\]"):
                function(x, some, interpolation=how)


@pytest.mark.parametrize("function", [tinyt.quantile, tinyt.nanquantile])
def test_a_program_checks_quantiles(function: Any) -> None:
    x, right = tinyt.tensor([1.0, 2.0, 4.0]), [tinyt.tensor([0.5, 1.0, 0.0]), tinyt.tensor(0.5)]
    compiled = tinyt.compile(lambda x, q: function(x, q))
    for q in right * 2:
        assert compiled(x, q).tolist() == function(x, q).tolist()
    for q in (tinyt.tensor([0.5, 1.0, -0.1]), tinyt.tensor([NAN, 0.0, 0.0]), tinyt.tensor(1.01)):
        with pytest.raises(tinyt.OutOfRangeError):
            compiled(x, q)
    assert compiled(x, right[0]).tolist() == [2.0, 4.0, 1.0]


def test_gradient_of_where_quantiles_lie() -> None:
    q = tinyt.tensor([0.25, 0.75]).requires_grad_()
    tinyt.quantile(tinyt.tensor([1.0, 2.0, 4.0]), q).sum().backward()
    assert q.grad is not None
    assert q.grad.tolist() == [2.0, 4.0]
    assert tinyt.quantile(tinyt.ones(3), tinyt.ones(0)).tolist() == []


def between(low: float, high: float, weight: float) -> float:
    """The point between two numbers, in the extended reals; NaN between both infinities."""
    if low == high or weight == 0:
        return low
    if math.isinf(low) and math.isinf(high):
        return NAN
    if math.isinf(low) or math.isinf(high):
        return low if math.isinf(low) else high
    return low + weight * (high - low)


@pytest.mark.parametrize("kind", ["linear", "midpoint"])
@pytest.mark.parametrize(
    "values",
    [
        [-INF, -0.3, 0.0],
        [-INF, 1.0, INF],
        [-INF, INF],
        [0.0, INF],
        [1.0, INF, INF],
        [-INF, -INF, 1.0],
    ],
)
def test_quantiles_between_infinities(values: list[float], kind: str) -> None:
    x = tinyt.tensor(values, dtype=tinyt.float64)
    for q in (0.0, 0.1, 0.25, 0.37, 0.5, 0.75, 0.9, 1.0):
        rank = q * (len(values) - 1)
        low, high = values[math.floor(rank)], values[math.ceil(rank)]
        weight = 0.5 if kind == "midpoint" else rank - math.floor(rank)
        want = between(low, high, weight)
        for function in (tinyt.quantile, tinyt.nanquantile):
            got = function(x, q, interpolation=kind).item()
            np.testing.assert_allclose(got, want, rtol=1e-12, err_msg=f"{q}")


def test_quantiles_are_numpys_beside_infinities() -> None:
    x = [-INF, -0.3, 0.0]
    for q in (0.37, 0.8):
        with np.errstate(invalid="ignore"):
            want = np.quantile(np.array(x), q)
        assert tinyt.quantile(tinyt.tensor(x, dtype=tinyt.float64), q).item() == want


def test_modules_in_a_memory_format() -> None:
    nn = tinyt.nn
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(2, 2))
    x = tinyt.randn(2, 3, 5, 5)
    want = model[:2](x)
    assert model.to(memory_format=tinyt.channels_last) is model
    weight = model[0].weight
    assert isinstance(weight, nn.Parameter)
    assert weight.stride() == (27, 1, 9, 3)
    assert model[2].weight.stride() == (2, 1)
    np.testing.assert_allclose(model[:2](x).detach().numpy(), want.detach().numpy(), atol=1e-5)
    model.to(tinyt.float64, memory_format=tinyt.channels_last)
    assert (model[0].weight.dtype, model[0].weight.stride()) == (tinyt.float64, (27, 1, 9, 3))
    model.to(memory_format=tinyt.contiguous_format)
    assert model[0].weight.stride() == (27, 9, 3, 1)
    with pytest.raises(RuntimeError):
        model.to(memory_format=tinyt.channels_last_3d)
    with pytest.raises(TypeError):
        model.to(memory_format="channels_last")
