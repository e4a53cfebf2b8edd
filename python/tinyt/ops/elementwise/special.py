"""Functions of mathematical physics that are composites: sinc, logit, polygamma and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError
from tinyt.dtypes import float32, int32
from tinyt.ops.common import (
    float_or_default,
    in_float32,
    is_recorded,
    need_tensor,
    overwrite,
    power_series,
    to_dtype,
    wide,
    with_gradient_of,
    write_out,
)
from tinyt.ops.results import returned
from tinyt.return_types import MantissaExponent
from tinyt.tensor import Tensor, attach, method, prim


@method
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``sin(pi x) / (pi x)``, and 1 at 0."""
    given = to_dtype(need_tensor("sinc", input), float_or_default(input))
    x = wide(given)
    if out is not None or not is_recorded(x):
        return write_out(out, to_dtype(_sinc(x), given.dtype))
    # Near 0 the quotient's derivative is a difference of large numbers; that of its series is not.
    near = prim.le(prim.abs(x), 0.25)
    square = prim.square(prim.where(near, x, 0.0) * math.pi)
    found = prim.where(
        near,
        with_gradient_of(power_series(SINC, square), _sinc(x.detach())),
        _sinc(prim.where(near, 1.0, x)),
    )
    return to_dtype(found, given.dtype)


# Of sin(a) / a in powers of a^2.
SINC = tuple((-1.0) ** k / math.factorial(2 * k + 1) for k in range(10))


def _sinc(x: Tensor) -> Tensor:
    zero = prim.eq(x, 0)
    angle = prim.where(zero, 1.0, x) * math.pi
    return prim.where(zero, 1.0, prim.sin(angle) / angle)


@method
def sinc_(input: Tensor) -> Tensor:
    """sinc in place."""
    return overwrite(input, sinc)


@method
def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """``log(x / (1 - x))``, of x limited to [eps, 1 - eps]; without ``eps`` NaN outside [0, 1]."""
    x = to_dtype(need_tensor("logit", input), float_or_default(input))
    if eps is not None:
        x = prim.where(
            prim.isnan(x), x, prim.clamp(x, float(eps), 1.0 - eps)
        )  # a NaN has a gradient
    if out is not None or not is_recorded(x):
        return write_out(out, to_dtype(prim.log(wide(x) / (1 - wide(x))), x.dtype))
    # At the ends, where the quotient's gradient is NaN, the difference of logarithms has the limit.
    inside = prim.logical_and(prim.gt(x, 0.0), prim.lt(x, 1.0))
    safe = wide(prim.where(inside, x, 0.5))
    outside = prim.logical_or(prim.lt(x, 0.0), prim.gt(x, 1.0))
    end = wide(x) * prim.where(outside, math.nan, 1.0)
    found = prim.where(inside, prim.log(safe / (1 - safe)), prim.log(end) - prim.log1p(-end))
    return to_dtype(found, x.dtype)


@method
def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    """logit in place."""
    return overwrite(input, logit, eps)


@method
@in_float32
def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Logarithm of the multivariate gamma function of dimension ``p``:
    ``p (p - 1) / 4 log(pi)`` plus the sum of ``lgamma(input - j / 2)`` for j < p."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p must be at least 1, got {p}")
    x = to_dtype(need_tensor("mvlgamma", input), float_or_default(input))
    steps = prim.iota(p, x.dtype, 0.0, -0.5, 0, 0)
    terms = prim.lgamma(prim.reshape(x, (*x.shape, 1)) + steps)
    return prim.add(prim.sum(terms, (-1,), False), p * (p - 1) / 4 * math.log(math.pi), out=out)


@method
def mvlgamma_(self: Tensor, p: int) -> Tensor:
    """mvlgamma in place."""
    return overwrite(self, mvlgamma, p)


@in_float32
def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma: ``(-1)^(n + 1) n! zeta(n + 1, input)`` for n > 0."""
    if n < 0:
        raise RuntimeError(f"polygamma: n must not be negative, got {n}")
    if n == 0:
        return prim.digamma(input, out=out)
    factorial = float(math.factorial(n)) if n <= 170 else math.inf
    return prim.mul(prim.zeta(n + 1.0, input), -factorial if n % 2 == 0 else factorial, out=out)


def _tensor_polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return polygamma(n, self)


def _tensor_polygamma_(self: Tensor, n: int) -> Tensor:
    """polygamma in place."""
    return overwrite(self, lambda x: polygamma(n, x))


attach(polygamma=_tensor_polygamma, polygamma_=_tensor_polygamma_)


@method
def frexp(input: Tensor, *, out: Sequence[Tensor] | None = None) -> MantissaExponent:
    """``input == mantissa * 2 ** exponent`` with ``|mantissa|`` in [1/2, 1) and an int32 exponent;
    zeros, infinities and NaN are their own mantissa. Floats only."""
    if not need_tensor("frexp", input).dtype.is_floating_point:
        raise DTypeError(f"frexp: floats only, got {input.dtype.name}")
    x = input.detach()
    if x.element_size() == 2:
        x = prim.cast(x, float32)
    regular = prim.logical_and(prim.isfinite(x), prim.ne(x, 0))
    # log2 may be off by one at the ends of a binade: the quotient shows it.
    power = prim.floor(prim.log2(prim.abs(prim.where(regular, x, 1.0)))) + 1.0
    size = prim.abs(_scaled(x, -power))
    power = prim.where(prim.ge(size, 1.0), power + 1.0, power)
    power = prim.where(prim.lt(size, 0.5), power - 1.0, power)
    power = prim.where(regular, power, 0.0)
    mantissa = to_dtype(_scaled(to_dtype(input, x.dtype), -power), input.dtype)
    return returned(MantissaExponent, "frexp", out, (mantissa, prim.cast(power, int32)))


def _scaled(x: Tensor, power: Tensor) -> Tensor:
    """``x * 2 ** power`` in two steps, neither of which leaves the range of exponents."""
    half = prim.floor(power * 0.5)
    return x * prim.exp2(half) * prim.exp2(power - half)


@method
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next value of the dtype from ``input`` towards ``other``."""
    x, y = (need_tensor("nextafter", t) for t in (input, other))
    if x.dtype is not y.dtype or x.dtype.name not in MANTISSA_BITS:
        return prim.nextafter(x, y, out=out)
    return write_out(out, prim.cast(_next_narrow(x, y), x.dtype))


# Stored bits of the mantissa and the exponent of the smallest subnormal.
MANTISSA_BITS = {"float16": (10, -24), "bfloat16": (7, -133)}


def _next_narrow(x: Tensor, y: Tensor) -> Tensor:
    """A float32 value that rounds to the one after x: 0.6 units in the last place away. That is
    past the middle of a whole step and short of the middle of the second half step below a power
    of two."""
    bits, least = MANTISSA_BITS[x.dtype.name]
    x, y = prim.cast(x, float32), prim.cast(y.detach(), float32)
    unit = prim.exp2(prim.clamp_min(prim.floor(prim.log2(prim.abs(x))) - float(bits), float(least)))
    step = prim.where(prim.gt(y, x), unit, -unit) * 0.6
    largest = (2.0 - 2.0**-bits) * (2.0**15 if bits == 10 else 2.0**127)
    moved = prim.where(prim.isinf(x), prim.copysign(largest, x), x + step)
    return prim.where(prim.eq(x, y), y, prim.where(prim.isnan(y), x + y, moved))


@method
def nextafter_(self: Tensor, other: Tensor) -> Tensor:
    """The next value towards ``other`` in place."""
    return overwrite(self, nextafter, other)


@in_float32
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``-x log(x)``: 0 at 0, -inf below."""
    if out is not None or not is_recorded(input):
        return write_out(out, _entr(input))
    # At 0 and inf, where the rule of x log(y) gives NaN, functions of the same value and slope.
    zero, far = prim.eq(input, 0), prim.eq(input, math.inf)
    inside = _entr(prim.where(prim.logical_or(zero, far), 1.0, input))
    return prim.where(
        zero, prim.sqrt(input), prim.where(far, -input * prim.where(far, input, 1.0), inside)
    )


def _entr(x: Tensor) -> Tensor:
    return prim.where(prim.lt(x, 0), -math.inf, -prim.xlogy(x, x))


@in_float32
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The distribution function of the standard normal distribution."""
    return prim.mul(prim.erfc(input * -math.sqrt(0.5)), 0.5, out=out)


@method
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other), of floats: NaN for negative
    arguments. (A gradient goes to both; PyTorch has none to the first.)"""
    return prim.gammainc(input, other, out=out)


@method
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function Q = 1 - P of :func:`igamma`."""
    return prim.gammaincc(input, other, out=out)


@method
def igamma_(self: Tensor, other: Tensor) -> Tensor:
    """igamma in place."""
    return overwrite(self, prim.gammainc, other)


@method
def igammac_(self: Tensor, other: Tensor) -> Tensor:
    """igammac in place."""
    return overwrite(self, prim.gammaincc, other)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (sinc, logit, mvlgamma, polygamma, frexp, nextafter, igamma, igammac)
}
