"""The stated error bounds of the activation kernels: values in ULP of the exact result, slopes in
half units in the last place of the larger of 1 and the slope."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy.special import erfc, expit

import tinyt
from ulp import check, float32_errors, float64_error, relative_to_one, samples, sweep

Array = np.ndarray

# ULP, at every instruction-set level: float32, float64.
BOUNDS: dict[str, tuple[float, float]] = {
    "gelu": (6.0, 5.0),
    "silu": (2.5, 2.0),
    "mish": (4.0, 3.0),
    "elu": (1.2, 1.8),
    "softplus": (1.8, 1.6),
    "logsigmoid": (1.8, 1.6),
    "hardsigmoid": (1.1, 1.1),
    "hardswish": (2.0, 2.0),
}
# Half units in the last place of the larger of 1 and the slope.
SLOPE_BOUND = 6.0
# Below, the exponential that these divide by overflows, or has lost bits already.
LOWEST = {"silu": (-87.0, -708.0), "mish": (-86.0, -707.0)}


def tanh_of_softplus(x: Array) -> Array:
    e = np.exp(np.minimum(x, 300))
    return e * (e + 2) / (e * (e + 2) + 2)


NUMPY: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: x * erfc(x * -math.sqrt(0.5)) / 2,
    "silu": lambda x: x * expit(x),
    "mish": lambda x: x * tanh_of_softplus(x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "softplus": lambda x: np.where(x > 20, x, np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))),
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * (np.clip(x + 3, 0, 6) / 6),
}
NUMPY_SLOPES: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: (
        erfc(x * -math.sqrt(0.5)) / 2 + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    ),
    "silu": lambda x: expit(x) * (1 + x * expit(-x)),
    "mish": lambda x: (
        tanh_of_softplus(x) + x * expit(x) * (1 - tanh_of_softplus(x)) * (1 + tanh_of_softplus(x))
    ),
    "elu": lambda x: np.where(x > 0, 1, np.exp(x)),
    "softplus": lambda x: np.where(x > 20, 1, expit(x)),
    "logsigmoid": lambda x: expit(-x),
    "hardsigmoid": lambda x: np.where(np.abs(x) < 3, 1 / 6, 0),
    "hardswish": lambda x: np.where(x <= -3, 0, np.where(x < 3, x / 3 + 0.5, 1)),
}
MPMATH: dict[str, Callable[[mpmath.mpf], mpmath.mpf]] = {
    "gelu": lambda x: (
        x if x > 40 else x * 0 if x < -40 else x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2
    ),
    "silu": lambda x: x if x > 800 else x / (1 + mpmath.exp(-x)),
    "mish": lambda x: x if x > 800 else x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "elu": lambda x: x if x > 0 else mpmath.expm1(max(x, -800)),
    "softplus": lambda x: x if x > 20 else mpmath.log1p(mpmath.exp(max(x, -800))),
    "logsigmoid": lambda x: x if x < -800 else -mpmath.log1p(mpmath.exp(-min(x, 800))),
    "hardsigmoid": lambda x: min(max(x + 3, 0), 6) / mpmath.mpf(6),
    "hardswish": lambda x: x * (min(max(x + 3, 0), 6) / mpmath.mpf(6)),
}


def inputs(name: str, dtype: type[np.floating], rng: np.random.Generator, n: int) -> Array:
    x = samples(dtype, rng, n)
    x = x[np.isfinite(x) & (x != 0) & (np.abs(x) < 1e30)]
    return x[x > LOWEST[name][dtype is np.float64]] if name in LOWEST else x


def run(name: str, x: Array) -> tuple[Array, Array]:
    """Values and slopes."""
    leaf = tinyt.as_tensor(x).requires_grad_()
    out = getattr(tinyt.nn.functional, name)(leaf)
    out.sum().backward()
    return out.detach().numpy(force=True), leaf.grad.numpy(force=True)


@pytest.mark.kernels
@pytest.mark.parametrize("name", BOUNDS)
def test_float32(name: str, rng: np.random.Generator) -> None:
    x = inputs(name, np.float32, rng, 20_000)
    got, slope = run(name, x)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        check(name, float32_errors(got, NUMPY[name](wide)), BOUNDS[name][0], x)
        want = np.nan_to_num(NUMPY_SLOPES[name](wide))
    check(f"{name}'", relative_to_one(slope, want), SLOPE_BOUND, x)


@pytest.mark.kernels
@pytest.mark.parametrize("name", BOUNDS)
def test_float64(name: str, rng: np.random.Generator) -> None:
    x = inputs(name, np.float64, rng, 150)
    got = run(name, x)[0]
    with mpmath.workprec(160 if name in ("gelu", "hardsigmoid", "hardswish") else 1300):
        pairs = zip(got.tolist(), x.tolist(), strict=True)
        errors = np.array([float64_error(y, MPMATH[name](mpmath.mpf(v))) for y, v in pairs])
    check(name, errors, BOUNDS[name][1], x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gelu_has_its_limits(dtype: type[np.floating]) -> None:
    x = np.array([math.inf, -math.inf, -60.0, -0.0, 0.0, math.nan], dtype)
    got, slope = run("gelu", x)
    assert repr(got.tolist()) == repr([math.inf, -0.0, -0.0, -0.0, 0.0, math.nan])
    np.testing.assert_array_equal(slope, np.array([1, 0, 0, 0.5, 0.5, math.nan], dtype))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", BOUNDS)
def test_every_float32(name: str) -> None:
    """All finite values from the lowest on."""
    lowest = LOWEST.get(name, (-math.inf,))[0]
    function = getattr(tinyt.nn.functional, name)
    sweep(
        name,
        lambda x: function(tinyt.as_tensor(x)).numpy(force=True),
        NUMPY[name],
        BOUNDS[name][0],
        among=lambda x: np.isfinite(x) & (x > lowest),
    )
