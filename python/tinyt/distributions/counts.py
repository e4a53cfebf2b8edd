"""Counts: binomial, negative binomial and Poisson distributions."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.bernoulli import Binary, Param
from tinyt.distributions.distribution import ExponentialFamily, Shape
from tinyt.distributions.gamma import Gamma
from tinyt.distributions.utils import broadcast_all, lazy_property, one_of
from tinyt.nn.functional import logsigmoid


class _Trials(Binary):
    """A count and a success probability, which broadcast."""

    total_count: Tensor
    batched = {"total_count": 0, "probs": 0, "logits": 0}

    def _take_both(self, total_count: Tensor | float, probs: Param, logits: Param) -> Size:
        given: Any = probs
        if one_of(probs, logits, "`probs` or `logits`"):
            self.total_count, self.probs = broadcast_all(total_count, given)
        else:
            given = logits
            self.total_count, self.logits = broadcast_all(total_count, given)
        self.total_count = self.total_count.to(self._param.dtype)
        return self._param.shape


class Binomial(_Trials):
    """The successes in ``total_count`` trials.

    >>> Binomial(4, probs=0.5).log_prob(tinyt.tensor(2.0)).exp()
    tensor(0.3750)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    batched = _Trials.batched

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Param = None,
        logits: Param = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take_both(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tinyt.no_grad():
            return tinyt.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        orders = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return orders + value * self.logits + n * logsigmoid(-self.logits)

    def entropy(self) -> Tensor:
        values = self._values("Inhomogeneous total count not supported by `entropy`.", False)
        log_prob = self.log_prob(values)
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        message = "Inhomogeneous total count not supported by `enumerate_support`."
        return self._values(message, expand)

    def _values(self, message: str, expand: bool) -> Tensor:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(message)
        return self._enumerated(
            tinyt.arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand
        )


class NegativeBinomial(_Trials):
    """The successes, of probability ``probs``, before ``total_count`` failures; which may be a
    fraction."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    batched = _Trials.batched

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Param = None,
        logits: Param = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(self._take_both(total_count, probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        """Of the rate of the Poisson distribution that the count has, given it."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> NegativeBinomial:
        return self._expanded(batch_shape, _instance)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            return tinyt.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        powers = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        none = n + value == 0.0
        safe = tinyt.where(none, 1.0, n)
        orders = (safe + value).lgamma() - (1.0 + value).lgamma() - safe.lgamma()
        return powers + tinyt.where(none, 0.0, orders)


class Poisson(ExponentialFamily):
    """``exp(-rate) rate**k / k!`` of k = 0, 1, ..."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    batched = {"rate": 0}

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            return tinyt.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
