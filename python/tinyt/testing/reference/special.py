"""Special functions, by series, recurrences and Newton's method; sums of many terms in extended
precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinyt.testing.reference.elementwise import xlogy
from tinyt.testing.reference.form import Array, Formula, Row, sized

_WIDE: Any = np.longdouble

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _lgamma(x: float) -> float:
    try:
        return math.lgamma(x)
    except (ValueError, OverflowError):
        return math.inf


lgamma = np.vectorize(_lgamma, otypes=[np.float64])


def erfinv(x: Array) -> Array:
    """Newton's method on erf from Winitzki's approximation; inf at 1, NaN beyond."""
    a = np.minimum(abs(x), 1.0)
    log = np.log1p(-a * a)
    half = 2 / (math.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(half * half - log / 0.147) - half)
    y = np.where(np.isfinite(y), y, 0.0)
    for _ in range(5):
        error = np.where(a < 0.5, erf(y) - a, (1 - a) - erfc(y))  # the smaller has the digits
        y = y - error * np.exp(y * y) * (math.sqrt(math.pi) / 2)
    y = np.where(a == 1, np.inf, y)
    return np.where(abs(x) > 1, np.nan, np.copysign(y, x))


def digamma(x: Array) -> Array:
    """Abramowitz & Stegun 6.3.18 beyond 30, recurrence below it, reflection below zero."""
    x = np.asarray(x, _WIDE)
    y = np.where(x < 0, 1 - x, x)
    total = np.zeros_like(y)
    for _ in range(30):
        small = y < 30
        total = np.where(small, total - 1 / y, total)
        y = np.where(small, y + 1, y)
    z = 1 / (y * y)
    total = total + np.log(y) - 0.5 / y - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    turn = np.where(x == np.floor(x), np.nan, math.pi / np.tan(math.pi * (x - np.round(x))))
    return np.where(x < 0, total - turn, total).astype(np.float64)


def _bessel(order: int, x: Array) -> Array:
    """I0 and I1 over e^|x| by their integral over a quarter of a period, which the midpoint rule
    gives exactly; from 100 on by Hankel's expansion (DLMF 10.40.1)."""
    angle = (np.arange(24) + 0.5) * (math.pi / 48)
    c, below = np.cos(angle), 2 * np.sin(angle / 2) ** 2  # what it is below 1
    a = np.minimum(abs(x), 100)[..., None]
    twice = np.expm1(-2 * a * c)  # e^-a c times 2 sinh(a c), or 2 cosh
    near = ((-twice * c if order else 2 + twice) * np.exp(-a * below)).mean(-1) / 2
    a = np.maximum(abs(x), 100)
    term = far = np.ones_like(a)
    for k in range(1, 12):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * a)
        far = far + term
    found = np.where(abs(x) < 100, near, far / np.sqrt(2 * math.pi * a))
    return np.copysign(found, x) if order else found


def _scaled_back(found: Array, x: Array) -> Array:
    half = np.exp(abs(x) / 2)  # the whole is finite where e^|x| is not any more
    return np.where(np.isinf(x), np.copysign(np.inf, found), found * half * half)


i0: Formula = lambda x: _scaled_back(i0e(x), x)
i0e: Formula = lambda x: _bessel(0, x)
i1: Formula = lambda x: _scaled_back(i1e(x), x)
i1e: Formula = lambda x: _bessel(1, x)


def zeta(s: Array, q: Array) -> Array:
    """300 terms of the sum; the rest as an integral with the first corrections."""
    q = np.asarray(q, _WIDE)
    terms = sum((q + k) ** -s for k in range(300))
    a = q + 300
    rest = a ** (1 - s) / (s - 1) + a**-s / 2 + s * a ** (-s - 1) / 12
    rest -= s * (s + 1) * (s + 2) * a ** (-s - 3) / 720
    return np.asarray(terms + rest, np.float64)


def polygamma(x: Array, n: int) -> Array:
    if n == 0:
        return digamma(x)
    return (-1) ** (n + 1) * math.factorial(n) * zeta(np.float64(n + 1), x)


def mvlgamma(x: Array, p: int) -> Array:
    constant = p * (p - 1) / 4 * math.log(math.pi)
    return constant + sum(lgamma(x - j / 2) for j in range(p))


def logit(x: Array, eps: float | None = None) -> Array:
    x = x if eps is None else np.clip(x, eps, 1 - eps)
    return np.log(x / (1 - x))


ndtr: Formula = lambda x: erfc(-x / math.sqrt(2)) / 2
entr: Formula = lambda x: np.where(x < 0, -np.inf, -xlogy(x, x))


def frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


def erfcx(x: Array) -> Array:
    """``exp(x**2) erfc(x)``."""
    return np.asarray(np.exp(np.asarray(x, _WIDE) ** 2) * erfc(x), np.float64)


def log_ndtr(x: Array) -> Array:
    """The logarithm of erfc(-x / sqrt(2)) / 2: of a value near 1 by what is missing."""
    below = np.log(0.5 * erfc(-np.minimum(x, 0) / math.sqrt(2)))
    return np.where(x < 0, below, np.log1p(-0.5 * erfc(x / math.sqrt(2))))


ndtri: Formula = lambda p: math.sqrt(2) * erfinv(2 * p - 1)


def gammainc(a: Array, x: Array) -> Array:
    """The series of the lower function (Abramowitz & Stegun 6.5.29), of moderate arguments."""
    return _gammainc(a, x).astype(np.float64)


def gammaincc(a: Array, x: Array) -> Array:
    """What is left of 1."""
    return (1 - _gammainc(a, x)).astype(np.float64)


def _gammainc(a: Array, x: Array) -> Array:
    # lgamma of an extended number: by Stirling's series from a + 20 down.
    a, x = np.broadcast_arrays(np.asarray(a, _WIDE), np.asarray(x, _WIDE))
    term = np.ones_like(x)
    total = term
    for k in range(1, 200):
        term = term * x / (a + k)
        total = total + term
    z = a + 21
    log_gamma = (z - 0.5) * np.log(z) - z + np.log(2 * np.asarray(np.pi, _WIDE)) / 2
    for k, c in enumerate((1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)):
        log_gamma = log_gamma + c / z ** (2 * k + 1)
    for k in range(1, 21):
        log_gamma = log_gamma - np.log(a + k)
    return np.exp(a * np.log(x) - x - log_gamma) * total


_beside_a_pole: Formula = lambda _, x: 1.0 + 1.0 / np.maximum(abs(x - np.rint(x)), 1e-8)


ROWS = {
    "erf": Row(erf),
    "erfc": Row(erfc),
    "lgamma": Row(sized(lgamma, lambda _, x: 1.0)),
    "erfinv": Row(erfinv, 8),
    "digamma": Row(sized(digamma, _beside_a_pole), 16),
    "i0": Row(i0, 8),
    "i0e": Row(i0e, 8),
    "i1": Row(i1, 16),
    "i1e": Row(i1e, 16),
}
