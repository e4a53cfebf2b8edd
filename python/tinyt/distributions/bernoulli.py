"""Two outcomes: Bernoulli trials, failures before a success, and their continuous form."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Tensor
from tinyt._core import is_recording
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, ExponentialFamily, Shape
from tinyt.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    one_of,
    probs_to_logits,
)
from tinyt.nn.functional import binary_cross_entropy_with_logits

Param = Tensor | float | None


class Binary(Distribution):
    """What families of a success probability share: ``probs`` or ``logits``, its log-odds; the
    other one is computed when it is asked for."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _take(self, probs: Param, logits: Param) -> Any:
        """Sets the parameter that is given and returns the batch shape."""
        if one_of(probs, logits, "`probs` or `logits`"):
            given: Any = probs
            (self.probs,) = broadcast_all(given)
        else:
            given = logits
            (self.logits,) = broadcast_all(given)
        return self._param.shape if isinstance(given, Tensor) else ()

    @property
    def _param(self) -> Tensor:
        return self.probs if "probs" in self.__dict__ else self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds of a success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of a success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> tinyt.Size:
        """The shape of the parameter that was given."""
        return self._param.size()


class Bernoulli(Binary, ExponentialFamily):
    """1 with probability ``probs``, else 0.

    >>> Bernoulli(probs=0.25).log_prob(tinyt.tensor(1.0))
    tensor(-1.3863)
    """

    support = constraints.boolean
    has_enumerate_support = True
    batched = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0.0

    def __init__(
        self, probs: Param = None, logits: Param = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are as likely."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return tinyt.where(self.probs == 0.5, math.nan, likelier)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            return tinyt.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(
            tinyt.arange(2, dtype=self._param.dtype, device=self._param.device), expand
        )

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return tinyt.nn.functional.softplus(natural_params[0])


class Geometric(Binary):
    """The number of failures before the first success: ``probs (1 - probs)**k``, k = 0, 1, ..."""

    support = constraints.nonnegative_integer
    batched = {"probs": 0, "logits": 0}

    def __init__(
        self, probs: Param = None, logits: Param = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._take(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not is_recording():
            valid = self.probs > 0
            if not valid.all():
                raise ValueError(
                    f"Expected parameter probs ({type(self.probs).__name__} of shape "
                    f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{self.probs[~valid]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return tinyt.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.probs.dtype
        with tinyt.no_grad():
            u = tinyt.rand(shape, dtype=dtype, device=self.probs.device).clamp(
                min=tinyt.finfo(dtype).tiny
            )
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # At a probability of 1 the value 0 has the logarithm 0, which 0 log(0) is not.
        certain = (probs == 1) & (value == 0)
        failures = value * (-tinyt.where(certain, 0.0, probs)).log1p()
        return failures + self.probs.log()

    def entropy(self) -> Tensor:
        nats = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return nats / self.probs


class ContinuousBernoulli(Binary, ExponentialFamily):
    """Density ``C probs**x (1 - probs)**(1 - x)`` of x in [0, 1] (Loaiza-Ganem and Cunningham, "The
    continuous Bernoulli", 2019); between ``lims`` around 1/2, where its formulas are 0 / 0, their
    Taylor series there."""

    support = constraints.unit_interval
    has_rsample = True
    batched = {"probs": 0, "logits": 0}
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        probs: Param = None,
        logits: Param = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        shape = self._take(probs, logits)
        if probs is not None:
            if validate_args is None:
                validate_args = self._validate_args
            look = validate_args and not is_recording()
            if look and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> ContinuousBernoulli:
        new = self._expanded(batch_shape, _instance)
        new._lims = self._lims
        return new

    def _near_half(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where the series holds, the distance from 1/2, and probabilities off 1/2."""
        near = (self.probs > self._lims[0]) & (self.probs <= self._lims[1])
        return near, self.probs - 0.5, tinyt.where(near, self._lims[0], self.probs)

    def _cont_bern_log_norm(self) -> Tensor:
        """log C, C = 2 atanh(1 - 2 p) / (1 - 2 p)."""
        near, y, p = self._near_half()
        exact = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        square = y.square()
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * square) * square
        return tinyt.where(near, series, exact)

    @property
    def mean(self) -> Tensor:
        near, y, p = self._near_half()
        exact = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * y.square()) * y
        return tinyt.where(near, series, exact)

    @property
    def variance(self) -> Tensor:
        near, y, p = self._near_half()
        exact = p * (p - 1.0) / (1.0 - 2.0 * p).square()
        exact = exact + 1.0 / ((-p).log1p() - p.log()).square()
        square = y.square()
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * square) * square
        return tinyt.where(near, series, exact)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        u = tinyt.rand(
            self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
        )
        return self.icdf(u)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        nats = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - nats

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        near, _, p = self._near_half()
        exact = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        return tinyt.where(near, value, exact).clamp(min=0.0, max=1.0)

    def icdf(self, value: Tensor) -> Tensor:
        near, _, p = self._near_half()
        failure = (-p).log1p()
        exact = ((-p + value * (2.0 * p - 1.0)).log1p() - failure) / (p.log() - failure)
        return tinyt.where(near, value, exact)

    def entropy(self) -> Tensor:
        failure, success = (-self.probs).log1p(), self.probs.log()
        return self.mean * (failure - success) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """log((e^x - 1) / x)."""
        x = natural_params[0]
        near = x.abs() < 0.5 * (self._lims[1] - self._lims[0])
        off = tinyt.where(near, 1.0, x)
        exact = off.expm1().abs().log() - off.abs().log()
        return tinyt.where(near, 0.5 * x + x.square() / 24.0 - x.pow(4) / 2880.0, exact)
