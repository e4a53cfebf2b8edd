"""The stated error bounds of the elementwise functions, against references of higher precision.

`BOUNDS` is the statement: the documentation quotes it. An error is measured in units in the last
place of the exact result, so 0.5 is correctly rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import scipy.special

import tinyt
from tinyt.testing.reference import elementwise
from ulp import check, float32_bound, float32_errors, float64_error, relative_to_one, samples, sweep

Array = np.ndarray

# ULP, at every instruction-set level: float32, float64.
BOUNDS: dict[str, tuple[float, float]] = {
    "exp": (1.2, 1.2),
    "expm1": (0.51, 1.8),
    "log": (0.9, 0.9),
    "log1p": (0.95, 0.9),
    "sqrt": (0.5, 0.5),
    "rsqrt": (1.5, 1.5),
    "reciprocal": (0.5, 0.5),
    "sin": (0.95, 0.9),
    "cos": (0.95, 0.9),
    "tanh": (1.5, 2.5),
    "sigmoid": (2.5, 2.5),
    "erf": (1.5, 1.6),
    "exp2": (0.51, 1.2),
    "log2": (0.51, 0.51),
    "log10": (0.51, 0.51),
    "tan": (1.0, 2.5),
    "asin": (0.51, 1.6),
    "acos": (0.51, 1.6),
    "atan": (0.51, 1.6),
    "sinh": (0.51, 2.2),
    "cosh": (0.51, 1.8),
    "asinh": (0.51, 3.0),
    "acosh": (0.51, 3.0),
    "atanh": (0.51, 2.5),
    "erfc": (0.51, 4.5),
    "erfinv": (0.51, 5.0),
    "erfcx": (0.51, 8.0),
    "log_ndtr": (0.51, 24.0),
    "ndtri": (0.51, 16.0),
    "lgamma": (1.2, 8.0),
    "digamma": (1.2, 24.0),
    "i0": (0.51, 6.0),
    "i0e": (0.51, 6.0),
    "i1": (0.51, 6.0),
    "i1e": (0.51, 6.0),
    "pow": (0.51, 1.3),
}
UNARY = tuple(name for name in BOUNDS if name != "pow")
# Their bounds are in units of the larger of |result| and 1: zeros lie between the floats.
ABSOLUTE = ("lgamma", "digamma")

# In float64, for float32 results.
NUMPY: dict[str, Callable[..., Array]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": elementwise.rsqrt,
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "sigmoid": elementwise.sigmoid,
    "erf": scipy.special.erf,
    "exp2": np.exp2,
    "log2": np.log2,
    "log10": np.log10,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erfc": scipy.special.erfc,
    # scipy takes microseconds to refuse a value.
    "erfinv": lambda x: scipy.special.erfinv(np.where(np.abs(x) <= 1, x, np.nan)),
    "erfcx": scipy.special.erfcx,
    "log_ndtr": scipy.special.log_ndtr,
    "ndtri": scipy.special.ndtri,
    # The limits at infinities are not what scipy gives.
    "lgamma": lambda x: np.where(np.isinf(x), np.inf, scipy.special.gammaln(x)),
    "digamma": scipy.special.psi,
    "i0": lambda x: np.where(np.isinf(x), np.inf, scipy.special.i0(x)),
    "i0e": scipy.special.i0e,
    "i1": lambda x: np.where(np.isinf(x), x, scipy.special.i1(x)),
    "i1e": scipy.special.i1e,
    "pow": np.power,
}
# With 160 bits and more where a result cancels, for float64 results.
MPMATH: dict[str, Callable[..., mpmath.mpf]] = {
    "exp": mpmath.exp,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "erf": mpmath.erf,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "log10": mpmath.log10,
    "tan": mpmath.tan,
    "asin": mpmath.asin,
    "acos": mpmath.acos,
    "atan": mpmath.atan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "asinh": mpmath.asinh,
    "acosh": mpmath.acosh,
    "atanh": mpmath.atanh,
    "erfc": mpmath.erfc,
    "erfinv": mpmath.erfinv,
    "erfcx": lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
    "log_ndtr": lambda x: (
        mpmath.log1p(-mpmath.erfc(x / mpmath.sqrt(2)) / 2)
        if x > 0
        else mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)
    ),
    "ndtri": lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1),
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))) if x < 0 else mpmath.loggamma(x),
    "digamma": mpmath.digamma,
    "i0": lambda x: mpmath.besseli(0, x),
    "i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "i1": lambda x: mpmath.besseli(1, x),
    "i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "pow": mpmath.power,
}
PRECISION = 160
# Open intervals outside which a function is not real, trivial, or too slow to check.
DOMAIN: dict[str, tuple[float, float]] = {
    "log": (0, math.inf),
    "log2": (0, math.inf),
    "log10": (0, math.inf),
    "sqrt": (0, math.inf),
    "rsqrt": (0, math.inf),
    "log1p": (-1, math.inf),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atanh": (-1, 1),
    "acosh": (1, math.inf),
    "erfc": (-7, 29),
    "erfinv": (-1, 1),
    "erfcx": (-26.5, 1e4),
    "log_ndtr": (-1e4, 38),
    "ndtri": (1e-40, 1),
    "lgamma": (-150, math.inf),
    "digamma": (-1e4, math.inf),
    **{name: (-800.0, 800.0) for name in ("i0", "i0e", "i1", "i1e")},
}
# These cancel, or reduce large arguments, in the reference too.
WIDE = (
    "sin",
    "cos",
    "tan",
    "sigmoid",
    "log1p",
    "expm1",
    "exp2",
    "sinh",
    "asinh",
    "acosh",
    "atanh",
    "log_ndtr",
    "ndtri",
    "lgamma",
)


def compute(name: str, *arrays: Array) -> Array:
    module = tinyt if hasattr(tinyt, name) else tinyt.special
    return getattr(module, name)(*(tinyt.as_tensor(a) for a in arrays)).numpy(force=True)


def pow_samples(dtype: type[np.floating], rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Results over the whole range, overflow and underflow included; whole exponents too."""
    base = samples(dtype, rng, n)
    spread = rng.uniform(-1.1, 1.1, base.size) * math.log(float(np.finfo(dtype).max))
    with np.errstate(all="ignore"):
        fitting = (spread / np.log(np.abs(base.astype(np.float64)))).astype(dtype)
    whole = rng.integers(-20, 20, base.size).astype(dtype)
    exponent = np.where(rng.random(base.size) < 0.3, whole, fitting)
    return np.where(rng.random(base.size) < 0.5, base, np.abs(base)), exponent


def float64_error_to_one(got: float, want: mpmath.mpf) -> float:
    """As `relative_to_one`; the ends of the range as in `float64_error`."""
    if not math.isfinite(got) or not mpmath.isfinite(want):
        return float64_error(got, want)
    return float(abs(mpmath.mpf(got) - want) / max(abs(want), 1) * 2**53)


@pytest.mark.parametrize("name", UNARY)
def test_float32_where_exponents_change(name: str) -> None:
    """Every power of two and its neighbours, zeros, infinities, NaN."""
    powers = np.arange(1 << 9, dtype=np.uint32) << np.uint32(23)
    x = np.concatenate([powers - 1, powers, powers + 1]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = NUMPY[name](x.astype(np.float64))
    errors = relative_to_one if name in ABSOLUTE else float32_errors
    check(name, errors(compute(name, x), want), float32_bound(name, BOUNDS[name][0]), x)


@pytest.mark.parametrize("name", BOUNDS)
def test_float32(name: str, rng: np.random.Generator) -> None:
    arrays = (
        pow_samples(np.float32, rng, 20_000)
        if name == "pow"
        else (samples(np.float32, rng, 50_000),)
    )
    with np.errstate(all="ignore"):
        want = NUMPY[name](*(a.astype(np.float64) for a in arrays))
    errors = relative_to_one if name in ABSOLUTE else float32_errors
    bound = float32_bound(name, BOUNDS[name][0])
    check(name, errors(compute(name, *arrays), want), bound, *arrays)


@pytest.mark.parametrize("name", BOUNDS)
def test_float64(name: str, rng: np.random.Generator) -> None:
    if name == "pow":
        arrays: tuple[Array, ...] = pow_samples(np.float64, rng, 300)
        arrays = (np.abs(arrays[0]), arrays[1])
    else:
        x = samples(np.float64, rng, 500 if name not in WIDE else 250)
        low, high = DOMAIN.get(name, (-math.inf, math.inf))
        arrays = (x[(x > low) & (x < high)],)
    keep = np.logical_and.reduce([np.isfinite(a) & (a != 0) for a in arrays])
    arrays = tuple(np.ascontiguousarray(a[keep]) for a in arrays)
    got = compute(name, *arrays)
    with mpmath.workprec(PRECISION + 1100 * (name in WIDE)):
        points = zip(got.tolist(), *(a.tolist() for a in arrays), strict=True)
        measure = float64_error_to_one if name in ABSOLUTE else float64_error
        errors = np.array([measure(y, MPMATH[name](*map(mpmath.mpf, x))) for y, *x in points])
    check(name, errors, BOUNDS[name][1], *arrays)


def specials(dtype: type[np.floating]) -> Array:
    info = np.finfo(dtype)
    positive = [0.0, 1.0, 0.5, 2.0, 3.0, math.inf, info.max, info.tiny, info.smallest_subnormal]
    return np.array([*positive, *(-v for v in positive), math.nan], dtype)


def assert_special(got: Array, want: Array, *arrays: Array) -> None:
    """Equal NaN, infinities, zeros and their signs; the rest within a few ULP."""
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        at = [a[i] for a in arrays]
        if np.isnan(w) or np.isinf(w) or w == 0:
            assert repr(abs(g)) == repr(abs(w)), (at, g, w)
            assert np.isnan(w) or np.signbit(g) == np.signbit(w), (at, g, w)
        else:
            tiny = float(np.finfo(want.dtype).smallest_subnormal)
            assert abs(float(g) - float(w)) <= 8 * np.finfo(want.dtype).eps * abs(w) + tiny, (at, g)


# SciPy differs from the limits at some of these points: stated one by one.
INF, NAN = math.inf, math.nan
LIMITS: dict[str, list[tuple[float, float]]] = {
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN), (30.0, 0.0)],
    "erfinv": [(1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (1.5, NAN), (NAN, NAN)],
    "lgamma": [(INF, INF), (-INF, INF), (0.0, INF), (-0.0, INF), (-3.0, INF), (NAN, NAN)]
    + [(1.0, 0.0), (2.0, 0.0)],
    "digamma": [(INF, INF), (-INF, NAN), (0.0, -INF), (-0.0, INF), (-3.0, NAN), (NAN, NAN)],
    "i0": [(INF, INF), (-INF, INF), (0.0, 1.0), (-0.0, 1.0), (NAN, NAN), (720.0, INF)],
    "i0e": [(INF, 0.0), (-INF, 0.0), (0.0, 1.0), (NAN, NAN)],
    "i1": [(INF, INF), (-INF, -INF), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN), (-720.0, -INF)],
    "i1e": [(INF, 0.0), (-INF, -0.0), (0.0, 0.0), (-0.0, -0.0), (NAN, NAN)],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str, dtype: type[np.floating]) -> None:
    x, want = np.array(LIMITS[name], dtype).T.copy()
    assert_special(compute(name, x), want, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name in UNARY if name not in LIMITS])
def test_special_values(name: str, dtype: type[np.floating]) -> None:
    x = specials(dtype)
    with np.errstate(all="ignore"):
        want = NUMPY[name](x.astype(np.float64)).astype(dtype)
    assert_special(compute(name, x), want, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_special_powers(dtype: type[np.floating]) -> None:
    grid = np.meshgrid(specials(dtype), specials(dtype))
    base, exponent = (np.ascontiguousarray(g.ravel()) for g in grid)
    with np.errstate(all="ignore"):
        want = np.power(base.astype(np.float64), exponent.astype(np.float64)).astype(dtype)
    assert_special(compute("pow", base, exponent), want, base, exponent)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainder_is_exact(dtype: type[np.floating], rng: np.random.Generator) -> None:
    a, b = samples(dtype, rng, 2000), rng.permutation(samples(dtype, rng, 2000))
    keep = np.isfinite(a) & np.isfinite(b) & (b != 0)
    a, b = a[keep], b[keep]
    want = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        r = math.fmod(x, y)
        # The sum is rounded to the dtype, as PyTorch's is.
        want.append(float(dtype(r + y)) if r != 0 and (y < 0) != (r < 0) else r)
    np.testing.assert_array_equal(compute("remainder", a, b), np.array(want, dtype))


@pytest.mark.parametrize("name", ["rsqrt", "sin", "cos", "tan", "gelu"])
def test_rare_lanes_leave_their_neighbours_alone(name: str, rng: np.random.Generator) -> None:
    """These take a second way where a lane of a register needs it."""
    function = getattr(tinyt, name, None) or getattr(tinyt.nn.functional, name)
    x = samples(np.float32, rng, 100)
    x = rng.permutation(np.concatenate([x[x != 0], specials(np.float32)]))
    got = function(tinyt.as_tensor(x)).numpy(force=True)
    alone = np.concatenate(
        [function(tinyt.as_tensor(x[i : i + 1])).numpy(force=True) for i in range(x.size)]
    )
    np.testing.assert_array_equal(got, alone)
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(alone[got == 0]))


def every_half(dtype: tinyt.dtype) -> tinyt.Tensor:
    return tinyt.as_tensor(np.arange(1 << 16, dtype=np.uint16).view(np.int16)).view(dtype)


def assert_same(got: tinyt.Tensor, want: tinyt.Tensor) -> None:
    """Equal numbers, signs of zeros and NaNs, without their payloads."""
    assert got.dtype is want.dtype
    g, w = got.float().numpy(force=True), want.float().numpy(force=True)
    np.testing.assert_array_equal(g, w)
    numbers = ~np.isnan(w)
    np.testing.assert_array_equal(np.signbit(g[numbers]), np.signbit(w[numbers]))


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
@pytest.mark.parametrize(
    "name", ["neg", "abs", "relu", "sqrt", "exp", "sigmoid", "tanh", "silu", "gelu", "log"]
)
def test_every_half(name: str, dtype: tinyt.dtype) -> None:
    """As float32 rounded once, whether the kernel takes halves, their bits, or float32 tiles."""
    function = getattr(tinyt, name, None) or getattr(tinyt.nn.functional, name)
    x = every_half(dtype)
    want = function(x.float()).to(dtype)
    assert_same(function(x), want)
    assert_same(function(x[1:-6]), want[1:-6])
    assert_same(function(x.reshape(2, -1).t()).t().reshape(-1), want)
    assert_same(function(x[::3]), want[::3])
    assert_same(function(x[9:10].expand(37)), want[9:10].expand(37))


@pytest.mark.parametrize("dtype", [tinyt.float16, tinyt.bfloat16])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum"])
def test_pairs_of_halves(name: str, dtype: tinyt.dtype, rng: np.random.Generator) -> None:
    function = getattr(tinyt, name)
    x = every_half(dtype)
    y = x[tinyt.as_tensor(rng.permutation(1 << 16))]
    want = function(x.float(), y.float()).to(dtype)
    assert_same(function(x, y), want)
    assert_same(function(x[3:], y[3:]), want[3:])
    rows = x.reshape(-1, 64), y[:64], y[:1024, None]
    for other in rows[1:]:
        assert_same(function(rows[0], other), function(rows[0].float(), other.float()).to(dtype))
    one = y[5:6]
    assert_same(function(x, one), function(x.float(), one.float()).to(dtype))
    assert_same(function(x, x.float()), function(x.float(), x.float()))
    # A Python number is not rounded to the dtype first.
    number = function(x.float(), tinyt.tensor(0.1)).to(dtype)
    assert_same(function(x, tinyt.tensor(0.1)), number)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", UNARY)
def test_every_float32(name: str) -> None:
    """All 2^32 values, NaNs included."""
    errors = relative_to_one if name in ABSOLUTE else float32_errors
    sweep(name, lambda x: compute(name, x), NUMPY[name], BOUNDS[name][0], errors)


def test_zeta_of_large_exponents() -> None:
    """Its terms vanish; a factor of theirs overflowed, and infinity times 0 is a NaN."""
    for dtype in (tinyt.float32, tinyt.float64):
        s = tinyt.tensor([1e14, 1e30, np.inf], dtype=dtype)
        for q, limit in ((0.5, np.inf), (1.0, 1.0), (1.5, 0.0), (7.0, 0.0)):
            found = tinyt.special.zeta(s, tinyt.full_like(s, q))
            assert found.tolist() == [limit] * 3
