"""The special functions in float64 by series, recurrences and Newton's method."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray

erfc = np.vectorize(math.erfc, otypes=[np.float64])
_erf = np.vectorize(math.erf, otypes=[np.float64])
SQRT_PI = math.sqrt(math.pi)
WIDE = np.longdouble  # sums of many terms


def _lgamma(x: float) -> float:
    if x <= 0 and (math.isinf(x) or x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


lgamma = np.vectorize(_lgamma, otypes=[np.float64])


def erfinv(x: Array) -> Array:
    """Newton's method on erf from Winitzki's approximation; inf at 1, NaN beyond."""
    inside = np.abs(x) < 1
    safe = np.where(inside, x, 0.0)
    log = np.log1p(-safe * safe)
    a = 0.147
    half = 2 / (math.pi * a) + log / 2
    y = np.copysign(np.sqrt(np.sqrt(half * half - log / a) - half), safe)
    for _ in range(4):
        # The smaller of erf and erfc carries the digits.
        error = np.where(
            np.abs(safe) < 0.5,
            _erf(y) - safe,
            np.sign(safe) * ((1 - np.abs(safe)) - erfc(np.abs(y))),
        )
        y = y - error * (SQRT_PI / 2) * np.exp(y * y)
    return np.where(inside, y, np.where(np.abs(x) == 1, np.copysign(np.inf, x), np.nan))


def digamma(x: Array) -> Array:
    """Abramowitz & Stegun 6.3.18 beyond 30, recurrence below it, reflection below zero."""
    x = np.asarray(x, WIDE)
    negative = x < 0
    y = np.where(negative, 1 - x, x)
    total = np.zeros_like(y)
    for _ in range(30):
        small = y < 30
        total = np.where(small, total - 1 / y, total)
        y = np.where(small, y + 1, y)
    z = 1 / (y * y)
    total = total + np.log(y) - 0.5 / y - z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z / 240)))
    turn = np.where(x == np.floor(x), np.nan, math.pi / np.tan(math.pi * (x - np.round(x))))
    return np.where(negative, total - turn, total).astype(np.float64)


def bessel_i(order: int, x: Array) -> Array:
    """The power series of I0 or I1 (Abramowitz & Stegun 9.6.10); all terms have one sign."""
    x = np.asarray(x, WIDE)
    z = x * x / 4
    term = np.ones_like(z) if order == 0 else x / 2
    total = term
    for k in range(1, 60):
        term = term * z / (k * (k + order))
        total = total + term
    return total.astype(np.float64)


def zeta(s: Array, q: Array) -> Array:
    """300 terms of the sum; the rest as an integral with the first corrections."""
    q = np.asarray(q, WIDE)
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


def xlogy(x: Any, y: Any) -> Array:
    return np.where((np.asarray(x) == 0) & ~np.isnan(y), 0.0, x * np.log(y))


def xlog1py(x: Any, y: Any) -> Array:
    return np.where((np.asarray(x) == 0) & ~np.isnan(y), 0.0, x * np.log1p(y))


def ndtr(x: Array) -> Array:
    return erfc(-x / math.sqrt(2)) / 2


def entr(x: Array) -> Array:
    return np.where(x < 0, -np.inf, -xlogy(x, x))


def frexp(x: Array) -> tuple[Array, Array]:
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


def erfcx(x: Array) -> Array:
    """``exp(x**2) erfc(x)``."""
    x = np.asarray(x, np.float64)
    square = np.asarray(x, WIDE) ** 2
    return np.asarray(np.exp(square) * erfc(x), np.float64)


def log_ndtr(x: Array) -> Array:
    """The logarithm of erfc(-x / sqrt(2)) / 2: of a value near 1 by what is missing."""
    x = np.asarray(x, np.float64)
    below = np.log(0.5 * erfc(-np.minimum(x, 0) / math.sqrt(2)))
    return np.where(x < 0, below, np.log1p(-0.5 * erfc(x / math.sqrt(2))))


def ndtri(p: Array) -> Array:
    """sqrt(2) erfinv(2 p - 1)."""
    return math.sqrt(2) * erfinv(2 * np.asarray(p, np.float64) - 1)


def gammainc(a: Array, x: Array) -> Array:
    """The series of the lower function (Abramowitz & Stegun 6.5.29), of moderate arguments."""
    return _gammainc(a, x).astype(np.float64)


def gammaincc(a: Array, x: Array) -> Array:
    """What is left of 1."""
    return (1 - _gammainc(a, x)).astype(np.float64)


def _gammainc(a: Array, x: Array) -> Array:
    # lgamma of an extended number: by Stirling's series from a + 20 down.
    a, x = np.broadcast_arrays(np.asarray(a, WIDE), np.asarray(x, WIDE))
    term = np.ones_like(x)
    total = term
    for k in range(1, 200):
        term = term * x / (a + k)
        total = total + term
    z = a + 21
    log_gamma = (z - 0.5) * np.log(z) - z + np.log(2 * np.asarray(np.pi, WIDE)) / 2
    for k, c in enumerate((1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188)):
        log_gamma = log_gamma + c / z ** (2 * k + 1)
    for k in range(1, 21):
        log_gamma = log_gamma - np.log(a + k)
    return np.exp(a * np.log(x) - x - log_gamma) * total
