"""Gamma distributions and those of quotients of gamma-distributed values."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math

import tinyt
from tinyt import Tensor
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, ExponentialFamily, Shape
from tinyt.distributions.transformed_distribution import TransformedDistribution
from tinyt.distributions.transforms import PowerTransform
from tinyt.distributions.utils import all_numbers, broadcast_all, standard_normal


def _off_zero(x: Tensor) -> Tensor:
    """Draws, none of which is below the smallest normal number: their logarithm is finite."""
    return x.clamp(min=tinyt.finfo(x.dtype).tiny)


class Gamma(ExponentialFamily):
    """Density ``rate**concentration x**(concentration - 1) exp(-rate x) / Gamma(concentration)``.

    ``rsample`` has implicit reparametrisation gradients (Figurnov, Mohamed, Mnih, 2018).

    >>> Gamma(2.0, 1.0).log_prob(tinyt.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    batched = {"concentration": 0, "rate": 0}
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        shape = () if all_numbers(concentration, rate) else self.concentration.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        standard = tinyt._standard_gamma(self.concentration.expand(shape))
        return _off_zero(standard / self.rate.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c = self.concentration
        powers = c.xlogy(self.rate) + (c - 1).xlogy(value)
        return powers - self.rate * value - c.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return tinyt.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c - self.rate.log() + c.lgamma() + (1.0 - c) * c.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The sum of ``df`` squares of standard normal values; ``df`` may be a fraction."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (half,) = broadcast_all(df)
        super().__init__(0.5 * half, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Chi2 | None = None) -> Chi2:
        return self._expanded(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """``1 / g`` of a gamma-distributed ``g``."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(
        self,
        concentration: Tensor | float,
        rate: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: InverseGamma | None = None) -> InverseGamma:
        return super().expand(batch_shape, self._get_checked_instance(InverseGamma, _instance))

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        c = self.concentration
        return tinyt.where(c > 1, self.rate / (c - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        c = self.concentration
        variance = self.rate.square() / ((c - 1).square() * (c - 2))
        return tinyt.where(c > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()


class Dirichlet(ExponentialFamily):
    """Density proportional to the product of ``x_i**(concentration_i - 1)`` on the simplex."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    batched = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return tinyt._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        c = self.concentration
        powers = (c - 1.0).xlogy(value).sum(-1)
        return powers + c.sum(-1).lgamma() - c.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """A corner where all concentrations are below 1; as PyTorch has it, that of the largest
        excess over 1."""
        excess = (self.concentration - 1).clamp(min=0.0)
        mode = excess / excess.sum(-1, keepdim=True)
        corner = tinyt.nn.functional.one_hot(mode.argmax(-1), mode.shape[-1]).to(mode.dtype)
        return tinyt.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        c, total = self.concentration, self.concentration.sum(-1, keepdim=True)
        return c * (total - c) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        c, n = self.concentration, self.concentration.shape[-1]
        total = c.sum(-1)
        log_beta = c.lgamma().sum(-1) - total.lgamma()
        return log_beta - (n - total) * total.digamma() - ((c - 1.0) * c.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x = natural_params[0]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Density proportional to ``x**(concentration1 - 1) (1 - x)**(concentration0 - 1)``."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        concentration1: Tensor | float,
        concentration0: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        both = broadcast_all(concentration1, concentration0)
        self._dirichlet = Dirichlet(tinyt.stack(both, -1), validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Beta | None = None) -> Beta:
        new: Beta = self._get_checked_instance(Beta, _instance)
        new._dirichlet = self._dirichlet.expand(batch_shape)
        Distribution.__init__(new, batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def concentration1(self) -> Tensor:
        """The exponent of x, plus 1."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """The exponent of 1 - x, plus 1."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a * b / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._dirichlet.log_prob(tinyt.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class StudentT(Distribution):
    """``loc + scale z / sqrt(chi2 / df)`` of a normal ``z`` and a ``chi2`` of ``df`` degrees of
    freedom."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    batched = {"df": 0, "loc": 0, "scale": 0}

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return tinyt.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        finite = self.scale.square() * df / (df - 2)
        return tinyt.where(df > 2, finite, tinyt.where(df > 1, math.inf, math.nan).to(df.dtype))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        normal = standard_normal(shape, self.df.dtype, self.df.device)
        chi2 = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * (normal * (chi2 / self.df).rsqrt())

    def _log_norm(self) -> Tensor:
        """log(sqrt(df) B(df / 2, 1 / 2))."""
        half = 0.5 * self.df
        log_beta = half.lgamma() + 0.5 * math.log(math.pi) - (half + 0.5).lgamma()
        return 0.5 * self.df.log() + log_beta

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        z = (value - self.loc) / self.scale
        power = -0.5 * (self.df + 1.0) * (z.square() / self.df).log1p()
        return power - self.scale.log() - self._log_norm()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        slope = (half + 0.5) * ((half + 0.5).digamma() - half.digamma())
        return self.scale.log() + slope + self._log_norm()


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared values, each over its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    batched = {"df1": 0, "df2": 0}

    def __init__(
        self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        shape = () if all_numbers(df1, df2) else self.df1.shape
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return tinyt.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """NaN where the density falls from 0 on, as in PyTorch."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return tinyt.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        variance = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return tinyt.where(b > 4, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        above = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        below = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        return _off_zero(above / below)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
        powers = a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
        return powers - log_beta
