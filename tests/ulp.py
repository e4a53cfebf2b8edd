"""Errors of computed values in units in the last place (ULP), and inputs to look for them at."""

from __future__ import annotations

import math
from collections.abc import Callable

import mpmath
import numpy as np

import tinyt

Array = np.ndarray

# ULP of definitions in float32 alone, as tests/compiler/test_single_definitions.py measures them.
SINGLE_BOUNDS = {
    "exp2": 0.51,
    "expm1": 0.51,
    "log2": 0.51,
    "log10": 0.51,
    "sin": 0.95,
    "cos": 0.95,
    "tan": 1.0,
    "asin": 0.51,
    "acos": 0.51,
    "atan": 0.51,
    "sinh": 0.51,
    "cosh": 0.51,
    "asinh": 0.51,
    "acosh": 0.51,
    "atanh": 0.51,
    "erfc": 0.51,
    "erfinv": 0.51,
    "erfcx": 1.0,
    "log_ndtr": 0.51,
    "ndtri": 0.51,
    "lgamma": 1.2,
    "digamma": 1.2,
    "i0": 0.51,
    "i0e": 0.51,
    "i1": 0.51,
    "i1e": 0.51,
    "pow": 0.51,
    "atan2": 1.0,
    "hypot": 0.51,
    "fmod": 0.0,
    "remainder": 0.0,
    "floor_divide": 0.0,
    "logaddexp": 1.1,
    "logaddexp2": 1.1,
    "zeta": 0.6,
    "gammainc": 2.0,
    "gammaincc": 2.0,
    "standard_gamma_grad": 0.6,
    "dirichlet_grad": 0.6,
}


def float32_bound(name: str, bound: float) -> float:
    """Of a function where tensors of the tests are: not every device has float64 to compute in."""
    place = tinyt._tensor.number_of_device(tinyt.get_default_device())
    if tinyt._core.has_kernel("add", tinyt.float64, place):
        return bound
    return max(bound, SINGLE_BOUNDS.get(name, bound))


def samples(dtype: type[np.floating], rng: np.random.Generator, n: int) -> Array:
    """All exponents evenly, the ranges where functions bend, around 1, near multiples of pi/2."""
    unsigned = np.uint32 if dtype is np.float32 else np.uint64
    any_bits = rng.integers(0, np.iinfo(unsigned).max, n, dtype=unsigned).view(dtype)
    range_of_exp = math.log(float(np.finfo(dtype).max)) + 20
    turns = rng.integers(-3000, 3000, n // 4) * (np.pi / 2)
    far_turns = turns * rng.integers(1, 2**40, n // 4)
    parts = (
        any_bits,
        rng.standard_normal(n) * 4,
        rng.uniform(-1.1, 1.1, n),
        rng.uniform(-range_of_exp, range_of_exp, n // 2),
        1 + rng.uniform(-0.5, 1, n // 2) * np.exp(rng.uniform(-30, 0, n // 2)),
        np.exp(rng.uniform(-28, 4, n // 2)) * rng.choice([-1, 1], n // 2),
        turns,
        np.nextafter(turns.astype(dtype), dtype(1e9)),
        far_turns,
    )
    return np.concatenate([p.astype(dtype) for p in parts])


def float32_errors(got: Array, want: Array) -> Array:
    """ULP between float32 results and float64 references; inf where one of them is NaN or has
    overflowed and the other has not."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        # The power of two that |want| begins with; frexp takes most of a sweep's time.
        power = (want.view(np.int64) & (0x7FF << 52)).view(np.float64)
        ulp = np.maximum(power * 2.0**-23, 2.0**-149)
        errors = np.abs(got - want) / ulp
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    special = ~np.isfinite(got) | ~np.isfinite(rounded)
    # One step from overflow, the reference's own rounding decides.
    brink = np.abs(want) >= float(np.finfo(np.float32).max)
    errors = np.where(special, np.where(same, 0.0, np.where(brink, 1.0, np.inf)), errors)
    return np.where((want == 0) & same, 0.0, errors)


def float64_error(got: float, want: mpmath.mpf) -> float:
    if mpmath.isnan(want) or math.isnan(got):
        return 0.0 if mpmath.isnan(want) and math.isnan(got) else math.inf
    largest = float(np.finfo(np.float64).max)
    if math.isinf(got) or mpmath.isinf(want) or abs(want) > largest:
        brink = abs(want) >= largest * (1 - 2.0**-53)
        return 0.0 if brink and (got > 0) == (want > 0) and abs(got) >= largest else math.inf
    if want == 0:
        return 0.0 if got == 0 else math.inf
    ulp = mpmath.ldexp(1, max(int(mpmath.frexp(want)[1]) - 53, -1074))
    return float(abs(mpmath.mpf(got) - want) / ulp)


def relative_to_one(got: Array, want: Array) -> Array:
    """Errors in units in the last place of the larger of |want| and 1."""
    unit = float(np.finfo(got.dtype).eps) / 2 * np.maximum(np.abs(want), 1)
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / unit
        same = (got == want.astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))


def check(name: str, errors: Array, bound: float, *arrays: Array) -> None:
    worst = int(np.argmax(errors))
    where = ", ".join(repr(a[worst]) for a in arrays)
    assert errors[worst] <= bound, f"{name}({where}) is off by {errors[worst]:.4g} ULP"


def sweep(
    name: str,
    function: Callable[[Array], Array],
    reference: Callable[[Array], Array],
    bound: float,
    errors: Callable[[Array, Array], Array] = float32_errors,
    among: Callable[[Array], Array] | None = None,
) -> None:
    """Checks a function of float32 at all 2^32 values, or where `among` holds."""
    chunk = 1 << 16
    for start in range(0, 1 << 32, chunk):
        x = np.arange(start, start + chunk, dtype=np.uint32).view(np.float32)
        if among is not None:
            x = x[among(x)]
        with np.errstate(all="ignore"):
            want = reference(x.astype(np.float64))
            rounded = want.astype(np.float32)
        got = function(x)
        # What is correctly rounded needs no error, which takes longest to compute.
        off = (got.view(np.int32) != rounded.view(np.int32)) & ~(np.isnan(got) & np.isnan(rounded))
        if off.any():
            check(name, errors(got[off], want[off]), bound, x[off])
