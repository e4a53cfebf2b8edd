"""Functions of complex numbers by their real and imaginary parts, in the dtype of the parts.

Quotients follow Smith (Comm. ACM 5, 1962) on operands scaled by powers of two; square roots,
inverse sines and cosines and the inverse hyperbolic tangent Kahan, "Branch cuts for complex
elementary functions" (in The State of the Art in Numerical Analysis, 1987). Branch cuts, signed
zeros and infinities are those of C99, Annex G.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from tinyt.dtypes import float32
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt.tensor import Tensor

Parts = tuple["Tensor", "Tensor"]
LN2, LN2_OF_FLOAT32 = math.log(2), float.fromhex("0x1.62e43p-1")
LN2_TAIL = 2.3190468138462996e-17  # what the float64 lacks


class Range(NamedTuple):
    """Of a dtype of parts. Beyond ``far`` and below 1 / ``far`` numbers are scaled by ``step``, an
    even power of two; ``most`` is just below where exp overflows; from ``wide`` on, squares of
    1 / z are rounding errors of 1."""

    far: float
    step: float
    most: float
    wide: float


OF_FLOAT32 = Range(2.0**64, 2.0**60, 88.0, 2.0**30)
OF_FLOAT64 = Range(2.0**512, 2.0**500, 709.0, 2.0**60)


def range_of(x: Tensor) -> Range:
    """That of the dtype of a part."""
    return OF_FLOAT32 if x.dtype is float32 else OF_FLOAT64


def number(value: float, like: Tensor) -> Tensor:
    """A number in the dtype of ``like``; alone beside other numbers it would be of the default
    dtype."""
    return prim.fill((), like.dtype, value, 0)


def size(x: Tensor, y: Tensor) -> Tensor:
    """The larger of |x| and |y|; of NaN and a number the number."""
    return prim.fmax(prim.abs(x), prim.abs(y))


def scale_of(largest: Tensor) -> Tensor:
    """A power of two that brings numbers of that size where no product over- or underflows."""
    far, step, *_ = range_of(largest)
    near = prim.where(largest < 1 / far, step, number(1.0, largest))
    return prim.where(largest > far, 1 / step, near)


# ---- arithmetic


def times(x: Parts, y: Parts) -> Parts:
    """The product, unscaled as the CPU's."""
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def square(x: Tensor, y: Tensor) -> Parts:
    """z^2."""
    both = x * y
    return x * x - y * y, both + both


def quotient(x: Parts, y: Parts) -> Parts:
    """x / y by Smith's method. Scaled operands keep it from over- and underflow on the way."""
    (a, b), (c, d) = x, y
    nought, below = (c == 0) & (d == 0), prim.abs(c)
    up, down = scale_of(size(a, b)), scale_of(size(c, d))
    a, b, c, d = a * up, b * up, c * down, d * down
    second = ~(prim.abs(c) >= prim.abs(d))
    high, low = prim.where(second, d, c), prim.where(second, c, d)
    u, v = prim.where(second, b, a), prim.where(second, a, b)
    ratio = low / high
    whole = high + low * ratio
    turned = u * ratio
    real = (u + v * ratio) / whole
    imag = prim.where(second, turned - v, v - turned) / whole
    back = down / up
    return prim.where(nought, a / below, real) * back, prim.where(nought, b / below, imag) * back


def reciprocal(x: Tensor, y: Tensor) -> Parts:
    """1 / z."""
    return quotient((number(1.0, x), number(0.0, x)), (x, y))


# ---- roots and logarithms


def sqrt(x: Tensor, y: Tensor) -> Parts:
    """Kahan's root, of numbers scaled by an even power of two."""
    largest = size(x, y)
    scale = scale_of(largest)
    back = prim.sqrt(1.0 / scale)
    a, b = prim.abs(x) * scale, y * scale
    root = prim.sqrt((a + prim.hypot(a, b)) * 0.5)
    long, short = root * back, prim.where(root == 0, y, b / (root * 2.0) * back)
    left, endless = x < 0, prim.isinf(y)
    real = prim.where(left, prim.abs(short), long)
    imag = prim.where(left, prim.copysign(long, y), short)
    return prim.where(endless, math.inf, real), prim.where(endless, y, imag)


def rsqrt(x: Tensor, y: Tensor) -> Parts:
    """1 / sqrt(z)."""
    return reciprocal(*sqrt(x, y))


def log_size(x: Tensor, y: Tensor) -> Tensor:
    """log |z|; near the unit circle from |z|^2 - 1, without cancellation."""
    a, b = prim.abs(x), prim.abs(y)
    high, low = prim.maximum(a, b), prim.minimum(a, b)
    scale = scale_of(high)
    far = prim.log(prim.hypot(x * scale, y * scale)) - prim.log(scale)
    near = prim.log1p((high - 1.0) * (high + 1.0) + low * low) * 0.5
    return prim.where((high >= 0.5) & (high <= 2.0), near, far)


def log(x: Tensor, y: Tensor) -> Parts:
    """log |z| + i arg z."""
    return log_size(x, y), prim.atan2(y, x)


def log_to(base: float) -> Callable[[Tensor, Tensor], Parts]:
    """The logarithm to a base."""
    factor = 1 / math.log(base)

    def of(x: Tensor, y: Tensor) -> Parts:
        a, b = log(x, y)
        return a * factor, b * factor

    return of


def log1p(x: Tensor, y: Tensor) -> Parts:
    """log(1 + z); |1 + z|^2 - 1 = x (2 + x) + y^2 keeps the digits of a small z."""
    near = prim.log1p(x * (x + 2.0) + y * y) * 0.5
    whole = x + 1.0
    inside = size(x, y) <= 0.5
    return prim.where(inside, near, log_size(whole, y)), prim.atan2(y, whole)


# ---- exponentials


def swung(x: Tensor, wave: Tensor) -> Tensor:
    """exp(x) times a sine or cosine; where exp overflows it is taken in halves."""
    half = prim.exp(x * 0.5)
    return prim.where(x > range_of(x).most, half * wave * half, prim.exp(x) * wave)


def exp(x: Tensor, y: Tensor) -> Parts:
    """exp(x) (cos y + i sin y)."""
    return turned_by(x, y, prim.cos(y), prim.sin(y))


def turned_by(x: Tensor, y: Tensor, cosine: Tensor, sine: Tensor) -> Parts:
    """exp(x) times a number of the unit circle, of the angle y."""
    gone = (x == -math.inf) & ~prim.isfinite(y)  # a zero of either sign
    endless = (x == math.inf) & ~prim.isfinite(y)
    real, imag = swung(x, cosine), swung(x, sine)
    real = prim.where(endless, math.inf, prim.where(gone, 0.0, real))
    return real, prim.where(y == 0, y, prim.where(gone, 0.0, imag))


def split(x: Tensor) -> Parts:
    """Dekker's halves of a number (Numer. Math. 18, 1971), whose products are exact."""
    shifted = x * (2.0**12 + 1 if x.dtype is float32 else 2.0**27 + 1)
    high = shifted - (shifted - x)
    return high, x - high


def exp2(x: Tensor, y: Tensor) -> Parts:
    """2^x (cos(y log 2) + i sin(y log 2)), the angle with its rounding error."""
    factor = number(LN2, y)
    angle = y * factor
    (a, b), (c, d) = split(y), split(factor)
    rest = ((a * c - angle) + a * d + b * c) + b * d
    rest = rest + y * (LN2 - LN2_OF_FLOAT32 if y.dtype is float32 else LN2_TAIL)
    rest = prim.where(prim.isfinite(rest), rest, 0.0)  # halves of huge numbers overflow
    cosine, sine, near, less = prim.cos(angle), prim.sin(angle), prim.cos(rest), prim.sin(rest)
    turned = cosine * near - sine * less, sine * near + cosine * less
    large = x > 120.0 if x.dtype is float32 else x > 1000.0
    half, full = prim.exp2(x * 0.5), prim.exp2(x)
    real, imag = (prim.where(large, half * wave * half, full * wave) for wave in turned)
    odd = ~prim.isfinite(y)
    real = prim.where(
        (x == math.inf) & odd, math.inf, prim.where((x == -math.inf) & odd, 0.0, real)
    )
    return real, prim.where(y == 0, y, prim.where((x == -math.inf) & odd, 0.0, imag))


def expm1(x: Tensor, y: Tensor) -> Parts:
    """exp(z) - 1 without cancellation: its real part is expm1(x) cos y - 2 sin^2(y / 2)."""
    half, wave = prim.sin(y * 0.5), prim.cos(y)
    real, imag = turned_by(x, y, wave, prim.sin(y))
    near = prim.expm1(x) * wave - half * half * 2.0
    gone = (x == -math.inf) & ~prim.isfinite(y)
    real = prim.where(x > range_of(x).most, real, prim.where(gone, -1.0, near))
    return real, imag


def sigmoid(x: Tensor, y: Tensor) -> Parts:
    """1 / (1 + exp(-z)) of exp(-|x|), which does not overflow. Where cos y < 0, near the poles,
    1 + cos y is 2 cos^2(y / 2), which keeps the digits."""
    away, half = prim.neg(prim.abs(x)), prim.cos(y * 0.5)
    small, less = prim.exp(away), prim.expm1(away)
    rise, cosine, across = half * half * 2.0, prim.cos(y), small * prim.sin(y)
    left = cosine < 0
    below = prim.where(left, rise + less * cosine, 1.0 + small * cosine)
    above = prim.where(left, rise + less, cosine + small)
    whole = below * below + across * across
    real = prim.where(x < 0, small * above, below) / whole
    endless, nought = prim.isinf(x), prim.copysign(number(0.0, y), y)
    return prim.where(endless, prim.clamp(x, 0.0, 1.0), real), prim.where(
        endless, nought, across / whole
    )


def power(x: Parts, y: Parts) -> Parts:
    """|x|^c exp(-d arg x) at the angle d log|x| + c arg x, of y = c + i d. As on the CPU it is 1,
    x and its square for y = 0, 1, 2, and of x = 0 it is 0 where c is positive, else NaN. Its error
    grows with |y log x|."""
    (a, b), (c, d) = x, y
    long, turn, length = log_size(a, b), prim.atan2(b, a), prim.hypot(a, b)
    lift, fall, angle = c * long, d * turn, d * long + c * turn
    cosine, sine = prim.cos(angle), prim.sin(angle)
    # Better than by the sum of exponents where neither factor is at an end of the range, nor |x|
    # close to 1, where a power enlarges its rounding.
    height, (far, _, most, _) = prim.pow(length, c) * prim.exp(prim.neg(fall)), range_of(length)
    plain = (prim.abs(long) > 0.5) & (length < far) & (length > 1 / far)
    plain = plain & (size(lift, fall) < most - 8) & prim.isfinite(height)
    real, imag = turned_by(lift - fall, angle, cosine, sine)
    real = prim.where(plain, height * cosine, real)
    imag = prim.where(plain & (angle != 0), height * sine, imag)
    nought, gain = (a == 0) & (b == 0), prim.where(c > 0, 0.0, number(math.nan, length))
    real, imag = prim.where(nought, gain, real), prim.where(nought, gain, imag)
    (e, f), flat = square(a, b), d == 0
    for value, one, two in ((2.0, e, f), (1.0, a, b), (0.0, 1.0, 0.0)):
        here = flat & (c == value)
        real, imag = prim.where(here, one, real), prim.where(here, two, imag)
    return real, imag


# ---- hyperbolic and circular functions


def sinh(x: Tensor, y: Tensor) -> Parts:
    """sinh x cos y + i cosh x sin y."""
    cosine, sine = prim.cos(y), prim.sin(y)
    beyond = prim.abs(x) > range_of(x).most
    half = prim.exp(prim.abs(x) * 0.5)
    real = prim.where(beyond, prim.copysign(half, x) * 0.5 * cosine * half, prim.sinh(x) * cosine)
    imag = prim.where(beyond, half * 0.5 * sine * half, prim.cosh(x) * sine)
    known = ((x == 0) | prim.isinf(x)) & ~prim.isfinite(y)
    return prim.where(known, x, real), prim.where(y == 0, y, imag)


def cosh(x: Tensor, y: Tensor) -> Parts:
    """cosh x cos y + i sinh x sin y."""
    cosine, sine = prim.cos(y), prim.sin(y)
    beyond = prim.abs(x) > range_of(x).most
    half = prim.exp(prim.abs(x) * 0.5)
    real = prim.where(beyond, half * 0.5 * cosine * half, prim.cosh(x) * cosine)
    imag = prim.where(beyond, prim.copysign(half, x) * 0.5 * sine * half, prim.sinh(x) * sine)
    odd = ~prim.isfinite(y)
    real = prim.where(prim.isinf(x) & odd, math.inf, real)
    nought = prim.copysign(prim.copysign(number(0.0, x), x), y) * prim.copysign(number(1.0, x), x)
    return real, prim.where((y == 0) | ((x == 0) & odd), nought, imag)


def tanh(x: Tensor, y: Tensor) -> Parts:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y), where nothing cancels; from 20 on the
    real part is 1."""
    cosine, sine = prim.cos(y), prim.sin(y)
    up = prim.sinh(prim.clamp(x, -20.0, 20.0))
    across, whole = sine * cosine, up * up + cosine * cosine
    beyond, endless, odd = prim.abs(x) > 20.0, prim.isinf(x), ~prim.isfinite(y)
    flat = endless | (beyond & ~odd)
    real = prim.where(flat, prim.copysign(number(1.0, x), x), up * prim.cosh(x) / whole)
    imag = prim.where(beyond, across * 4.0 * prim.exp(prim.abs(x) * -2.0), across / whole)
    imag = prim.where((endless & odd) | (y == 0), prim.copysign(number(0.0, y), y), imag)
    return prim.where(x == 0, x, real), imag


def by_turning(function: Callable[[Tensor, Tensor], Parts]) -> Callable[[Tensor, Tensor], Parts]:
    """f(z) = -i g(i z), of sin by sinh, tan by tanh, asinh by asin, atan by atanh."""

    def of(x: Tensor, y: Tensor) -> Parts:
        a, b = function(prim.neg(y), x)
        return b, prim.neg(a)

    return of


def cos(x: Tensor, y: Tensor) -> Parts:
    """cosh(i z)."""
    return cosh(prim.neg(y), x)


# ---- their inverses


def roots(x: Tensor, y: Tensor) -> tuple[Parts, Parts]:
    """sqrt(1 - z) and sqrt(1 + z)."""
    return sqrt(1.0 - x, prim.neg(y)), sqrt(1.0 + x, y)


def asin(x: Tensor, y: Tensor) -> Parts:
    """Kahan's inverse sine; of large numbers arg(|y| + i x) + i log(2 |z|)."""
    (a, b), (c, d) = roots(x, y)
    wide = size(x, y) > range_of(x).wide
    real = prim.atan2(x, prim.where(wide, prim.abs(y), a * c - b * d))
    far = prim.copysign(log_size(x, y) + LN2, y)
    imag = prim.where(wide, far, prim.asinh(a * d - b * c))
    return prim.where(x == 0, x, real), imag


def acos(x: Tensor, y: Tensor) -> Parts:
    """Kahan's inverse cosine; of large numbers arg(x + i |y|) - i log(2 |z|)."""
    (a, b), (c, d) = roots(x, y)
    wide = size(x, y) > range_of(x).wide
    real = prim.where(wide, prim.atan2(prim.abs(y), x), prim.atan2(a, c) * 2.0)
    far = prim.copysign(log_size(x, y) + LN2, prim.neg(y))
    imag = prim.where(wide, far, prim.asinh(c * b - d * a))
    return prim.where(x == 0, math.pi / 2, real), imag


def acosh(x: Tensor, y: Tensor) -> Parts:
    """i or -i times the inverse cosine, whichever has a real part that is not negative."""
    a, b = acos(x, y)
    return prim.abs(b), prim.copysign(a, y)


def atanh(x: Tensor, y: Tensor) -> Parts:
    """log1p(4 x / ((1 - x)^2 + y^2)) / 4 + i arg(1 - z^2 + 2 i y) / 2, of |x|; 1 / z and a right
    angle far away."""
    a, b = prim.abs(x), prim.abs(y)
    away = 1.0 - a
    real = prim.log1p(a * 4.0 / (away * away + y * y)) * 0.25
    pole = (away == 0) & (b < 1 / range_of(x).wide)
    real = prim.where(pole, (LN2 - prim.log(b)) * 0.5, real)
    imag = prim.atan2(y * 2.0, away * (a + 1.0) - y * y) * 0.5
    wide, length = size(x, y) > range_of(x).wide, prim.hypot(x, y)
    far = prim.where(prim.isinf(length), 0.0, a / length / length)
    real = prim.where(x == 0, x, prim.copysign(prim.where(wide, far, real), x))
    right = wide & ~prim.isnan(length) & ~prim.isnan(y)
    return real, prim.where(right, prim.copysign(number(math.pi / 2, y), y), imag)
