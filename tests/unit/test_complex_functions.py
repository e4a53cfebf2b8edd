"""Functions of complex numbers on branch cuts, at zeros of either sign, at infinities and NaN.

The reference is `cmath`, whose tables are those of C99, Annex G.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tinyt

INF, NAN = math.inf, math.nan
FINITE = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, -2.0)
PARTS = (*FINITE, INF, -INF, NAN)
NAMES = ["exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"]
NAMES += ["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
# Where the real part of the one (the imaginary part of the other) is zero and the rest NaN, a
# defect report of C11 replaced the NaN of C99 in one part.
REVISED = {"tanh": "real", "acosh": "real", "tan": "imag"}


def values_of(name: str, z: list[complex], dtype: Any = tinyt.complex128) -> list[complex]:
    return getattr(tinyt, name)(tinyt.tensor(z, dtype=dtype)).tolist()  # type: ignore[no-any-return]


def agrees(got: float, want: float, signs: bool, eps: float) -> bool:
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    if not signs:
        got, want = abs(got), abs(want)
    if math.isinf(want) or want == 0:
        return got == want and math.copysign(1, got) == math.copysign(1, want)
    return abs(got - want) <= 8 * eps * abs(want)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: str, dtype: str) -> None:
    grid = [complex(x, y) for x in PARTS for y in PARTS]
    eps = float(np.finfo(dtype).eps)
    for z, got in zip(grid, values_of(name, grid, getattr(tinyt, dtype)), strict=True):
        try:
            want = getattr(cmath, name)(z)
        except ValueError:
            continue  # a pole, or sin of infinity: test_poles
        if name in REVISED and getattr(z, REVISED[name]) == 0 and cmath.isnan(z):
            continue
        # C leaves signs open where a part is NaN or the angle of an infinity is.
        signs = not (cmath.isnan(z) or (math.isinf(z.real) and math.isinf(z.imag)))
        good = agrees(got.real, want.real, signs, eps) and agrees(got.imag, want.imag, signs, eps)
        assert good, f"{name}({z}): got {got}, expected {want}"


POLES = [
    ("log", complex(0.0, 0.0), (-INF, 0.0)),
    ("log", complex(-0.0, 0.0), (-INF, math.pi)),
    ("log", complex(-0.0, -0.0), (-INF, -math.pi)),
    ("log10", complex(0.0, -0.0), (-INF, -0.0)),
    ("log2", complex(-0.0, 0.0), (-INF, math.pi / math.log(2))),
    ("log1p", complex(-1.0, 0.0), (-INF, 0.0)),
    ("atanh", complex(1.0, 0.0), (INF, 0.0)),
    ("atanh", complex(-1.0, -0.0), (-INF, -0.0)),
    ("atan", complex(0.0, 1.0), (0.0, INF)),
    ("exp", complex(1.0, INF), (NAN, NAN)),
    ("sin", complex(INF, 1.0), (NAN, NAN)),
    ("cosh", complex(1.0, -INF), (NAN, NAN)),
    ("exp", complex(1000.0, 0.5), (INF, INF)),
    ("exp2", complex(2000.0, -0.5), (INF, -INF)),
]


@pytest.mark.parametrize(("name", "z", "want"), POLES)
def test_poles(name: str, z: complex, want: tuple[float, float]) -> None:
    (got,) = values_of(name, [z])
    assert agrees(got.real, want[0], True, 2e-16), got
    assert agrees(got.imag, want[1], True, 2e-16), got


# Each function with points on its cuts, and which part of the argument chooses the side.
UPPER = ((-0.5, -3.0), "imag")
CUTS: dict[str, tuple[tuple[complex, ...], str]] = {
    "log": UPPER,
    "log2": UPPER,
    "log10": UPPER,
    "sqrt": UPPER,
    "rsqrt": UPPER,
    "log1p": ((-1.5, -40.0), "imag"),
    "asin": ((-2.0, 1.25, 9.0), "imag"),
    "acos": ((-2.0, 1.25, 9.0), "imag"),
    "acosh": ((-2.0, -0.5, 0.25), "imag"),
    "atanh": ((-2.0, 1.25, 9.0), "imag"),
    "atan": ((2j, -1.25j, 9j), "real"),
    "asinh": ((2j, -1.25j, 9j), "real"),
}


@pytest.mark.parametrize("name", list(CUTS))
def test_a_signed_zero_chooses_the_side_of_a_cut(name: str) -> None:
    points, part = CUTS[name]
    for z in points:
        for sign in (1.0, -1.0):
            zero, near = math.copysign(0.0, sign), math.copysign(1e-290, sign)
            at = complex(z.real, zero) if part == "imag" else complex(zero, complex(z).imag)
            by = complex(z.real, near) if part == "imag" else complex(near, complex(z).imag)
            got, limit = values_of(name, [at, by])
            assert abs(got - limit) <= 4e-16 * abs(limit), f"{name}({at})"
        below, above = values_of(name, [complex(at.real, at.imag), at.conjugate()])
        assert name == "rsqrt" or below != above or part == "real"


INVERSES: list[tuple[str, Callable[[complex], complex]]] = [
    ("asin", cmath.sin),
    ("acos", cmath.cos),
    ("atan", cmath.tan),
    ("asinh", cmath.sinh),
    ("acosh", cmath.cosh),
    ("atanh", cmath.tanh),
    ("log", cmath.exp),
    ("sqrt", lambda w: w * w),
]


@pytest.mark.parametrize(("name", "inverse"), INVERSES)
def test_inverses(name: str, inverse: Callable[[complex], complex]) -> None:
    grid = [complex(x, y) for x in (0.3, -1.7, 4.0) for y in (0.2, -2.5)]
    for z, w in zip(grid, values_of(name, grid), strict=True):
        assert abs(inverse(w) - z) < 1e-13 * abs(z), f"{name}({z})"
        if name in ("acos", "log", "acosh"):
            assert -math.pi <= (w.real if name == "acos" else w.imag) <= math.pi


def test_extreme_sizes() -> None:
    (small,) = values_of("log1p", [1e-300 + 1e-200j])
    assert small == 1e-300 + 1e-200j
    (small,) = values_of("expm1", [1e-300 - 1e-200j])
    assert small == 1e-300 - 1e-200j
    (root,) = values_of("sqrt", [complex(1.5e308, 1.5e308)])
    assert abs(root - 1.5e154 * cmath.sqrt(complex(1e-0, 1e-0)) / math.sqrt(1.5)) < 1e140
    assert values_of("abs", [complex(3e200, 4e200)]) == [pytest.approx(5e200, rel=1e-15)]
    assert values_of("reciprocal", [complex(1e300, 1e300)]) == [complex(5e-301, -5e-301)]
