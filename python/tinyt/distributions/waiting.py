"""Families of waiting times and sizes: exponential, Weibull, Pareto and Kumaraswamy."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Tensor
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, ExponentialFamily, Shape
from tinyt.distributions.location_scale import Uniform
from tinyt.distributions.transformed_distribution import TransformedDistribution
from tinyt.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from tinyt.distributions.utils import all_numbers, broadcast_all, euler_constant


class Exponential(ExponentialFamily):
    """Density ``rate exp(-rate x)`` of x >= 0.

    >>> Exponential(2.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    batched = {"rate": 0}
    _mean_carrier_measure = 0.0

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return tinyt.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return (
            tinyt.empty(shape, dtype=self.rate.dtype, device=self.rate.device).exponential_()
            / self.rate
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Weibull(TransformedDistribution):
    """``scale e**(1 / concentration)`` of an exponential ``e``."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    batched = {"scale": 0, "concentration": 0}

    def __init__(
        self,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(tinyt.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._transforms(), validate_args=validate_args)

    def _transforms(self) -> list[Any]:
        power = PowerTransform(exponent=self.concentration.reciprocal())
        return [power, AffineTransform(loc=0, scale=self.scale)]

    def expand(self, batch_shape: Shape, _instance: Weibull | None = None) -> Weibull:
        new = self._expanded(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(batch_shape)
        new.transforms = new._transforms()
        return new

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """NaN where the density falls from 0 on, as in PyTorch."""
        k = self.concentration
        return self.scale * ((k - 1) / k).pow(k.reciprocal())

    @property
    def variance(self) -> Tensor:
        r = self.concentration.reciprocal()
        second, first = (1 + 2 * r).lgamma().exp(), (2 * (1 + r).lgamma()).exp()
        return self.scale.square() * (second - first)

    def entropy(self) -> Tensor:
        r = self.concentration.reciprocal()
        return euler_constant * (1 - r) + (self.scale * r).log() + 1


class Pareto(TransformedDistribution):
    """Density ``alpha scale**alpha / x**(alpha + 1)`` of x >= scale."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    batched = {"scale": 0, "alpha": 0}

    def __init__(
        self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        super().__init__(base, self._transforms(), validate_args=validate_args)

    def _transforms(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]

    def expand(self, batch_shape: Shape, _instance: Pareto | None = None) -> Pareto:
        new = self._expanded(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(batch_shape)
        new.transforms = new._transforms()
        return new

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)  # infinite up to 1
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)  # infinite up to 2
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """``(1 - u**(1 / concentration0))**(1 / concentration1)`` of a uniform ``u``."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    batched = {"concentration1": 0, "concentration0": 0}

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zeros, ones = tinyt.zeros_like(self.concentration0), tinyt.ones_like(self.concentration0)
        base = Uniform(zeros, ones, validate_args=validate_args)
        super().__init__(base, self._transforms(), validate_args=validate_args)

    def _transforms(self) -> list[Any]:
        return [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]

    def expand(self, batch_shape: Shape, _instance: Kumaraswamy | None = None) -> Kumaraswamy:
        new = self._expanded(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(batch_shape)
        new.transforms = new._transforms()
        return new

    def _moment(self, n: int) -> Tensor:
        """E[x^n] = b B(1 + n / a, b)."""
        b, order = self.concentration0, 1 + n / self.concentration1
        return b * (order.lgamma() + b.lgamma() - (order + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """``((a - 1) / (a b - 1))**(1 / a)``, NaN where a or b is below 1. (PyTorch 2.13 takes
        logarithms of negative numbers and returns NaN everywhere.)"""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        ratio = tinyt.where(inside, (a - 1) / (a * b - 1), math.nan)
        return ratio.pow(a.reciprocal())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


def _moderate(x: Tensor) -> Tensor:
    """x within bounds in which its product with 0 is 0."""
    return x.clamp(min=-1e8, max=1e8)


class GeneralizedPareto(Distribution):
    """``P(X > x) = (1 + concentration z)**(-1 / concentration)`` with ``z = (x - loc) / scale``;
    ``exp(-z)`` where the concentration is 0.

    Moments as in scipy.stats.genpareto; NaN where they do not exist.
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    batched = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = () if all_numbers(loc, scale, concentration) else self.loc.shape
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, tinyt.where(self.concentration < 0, end, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 there. Formulas for 0 have a
        first term in the concentration, of which the gradient comes."""
        zero = self.concentration.abs() < tinyt.finfo(self.loc.dtype).tiny
        return zero, tinyt.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = tinyt.rand(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        zero, c = self._shape()
        z = (value - self.loc) / self.scale
        slow = z + self.concentration * _moderate(z) * (1 - 0.5 * z)
        inside = tinyt.where(zero, slow, (1 + 1 / c) * (c * z).log1p())
        return -self.scale.log() - inside

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log P(X > value)."""
        if self._validate_args:
            self._validate_sample(value)
        zero, c = self._shape()
        z = (value - self.loc) / self.scale
        slow = 0.5 * self.concentration * _moderate(z).square() - z
        return tinyt.where(zero, slow, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log P(X <= value)."""
        return (-self.log_survival_function(value).expm1()).log()

    def cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        zero, c = self._shape()
        survival = (-value).log1p()
        slow = 0.5 * self.concentration * _moderate(survival).square() - survival
        return self.loc + self.scale * tinyt.where(zero, slow, (-c * survival).expm1() / c)

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return tinyt.where(c < 1, self.loc + self.scale / (1 - c), math.nan)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return tinyt.where(c < 0.5, variance, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
