"""Continuous relaxations of Bernoulli and categorical values, at a temperature."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.bernoulli import Binary, Param
from tinyt.distributions.categorical import Categorical
from tinyt.distributions.distribution import Distribution, Shape
from tinyt.distributions.transformed_distribution import TransformedDistribution
from tinyt.distributions.transforms import ExpTransform, SigmoidTransform
from tinyt.distributions.utils import broadcast_all, clamp_probs
from tinyt.nn.functional import logsigmoid


def _uniform(shape: Size, like: Tensor) -> Tensor:
    """Uniform values off 0 and 1."""
    return clamp_probs(tinyt.rand(shape, dtype=like.dtype, device=like.device))


class LogitRelaxedBernoulli(Binary):
    """The log-odds of :class:`RelaxedBernoulli`: ``(logits + l) / temperature`` of a logistic
    ``l``."""

    support = constraints.real
    batched = {"probs": 0, "logits": 0}

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Param = None,
        logits: Param = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> LogitRelaxedBernoulli:
        new = self._expanded(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = _uniform(shape, probs)
        logistic = u.log() - (-u).log1p()
        return (logistic + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        z = logits - value * self.temperature
        nats: Tensor = _log(self.temperature) + z + 2 * logsigmoid(-z)
        return nats


def _log(x: Tensor | float) -> Any:
    return x.log() if isinstance(x, Tensor) else math.log(x)


class RelaxedBernoulli(TransformedDistribution):
    """A value in (0, 1) that tends to a Bernoulli one as the temperature goes to 0 (Maddison, Mnih,
    Teh, "The concrete distribution", 2016)."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Param = None,
        logits: Param = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> RelaxedBernoulli:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))

    @property
    def temperature(self) -> Tensor | float:
        """How far values are from 0 and 1."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """The logarithm of :class:`RelaxedOneHotCategorical`."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> ExpRelaxedCategorical:
        new: ExpRelaxedCategorical = self._get_checked_instance(ExpRelaxedCategorical, _instance)
        new.temperature = self.temperature
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        """The log-probabilities, normalised."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities, normalised."""
        return self._categorical.probs

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        gumbel = -(-_uniform(shape, self.logits).log()).log()
        return ((self.logits + gumbel) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self._event_shape[-1]
        logits, value = tinyt.broadcast_tensors(self.logits, value)
        score = (logits - value * self.temperature).log_softmax(-1).sum(-1)
        norm: Tensor = math.lgamma(n) + (n - 1) * _log(self.temperature)
        return score + norm


class RelaxedOneHotCategorical(TransformedDistribution):
    """A point of the simplex that tends to a one-hot vector as the temperature goes to 0 (Jang, Gu,
    Poole, "Categorical reparameterization with Gumbel-softmax", 2016)."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> RelaxedOneHotCategorical:
        new = self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        return super().expand(batch_shape, new)

    @property
    def temperature(self) -> Tensor | float:
        """How far values are from one-hot vectors."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
