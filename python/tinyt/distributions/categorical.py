"""One of several outcomes: as an index, as a one-hot vector, and counts of many draws."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.counts import Binomial
from tinyt.distributions.distribution import Distribution, Shape
from tinyt.distributions.utils import lazy_property, logits_to_probs, one_of, probs_to_logits
from tinyt.nn.functional import one_hot


class Categorical(Distribution):
    """An index 0 .. n-1 with the probabilities in the last dimension of ``probs``, which are
    divided by their sum; or with those of ``logits``, unnormalised log-probabilities.

    >>> Categorical(probs=tinyt.tensor([1.0, 3.0])).log_prob(tinyt.tensor(1))
    tensor(-0.2877)
    """

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    batched = {"probs": 1, "logits": 1}

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        one_of(probs, logits, "`probs` or `logits`")
        for name, given in (("probs", probs), ("logits", logits)):
            if given is not None and given.dim() < 1:
                raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        elif logits is not None:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = self._param.shape[-1]
        super().__init__(self._param.shape[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Categorical:
        new = self._expanded(batch_shape, _instance)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def _param(self) -> Tensor:
        return self.probs if "probs" in self.__dict__ else self.logits

    @lazy_property
    def logits(self) -> Tensor:
        """The log-probabilities, normalised."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities, normalised."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._param.size()

    @property
    def mean(self) -> Tensor:
        """NaN: indices have no mean."""
        return tinyt.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return tinyt.full(
            self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device
        )

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tinyt.no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            count = Size(sample_shape).numel()
            if 0 in shape:
                return tinyt.empty(shape, dtype=tinyt.int64, device=self.probs.device)
            return tinyt.multinomial(rows, count, True).t().reshape(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        index = value.to(tinyt.int64).unsqueeze(-1)
        shape = tinyt.broadcast_shapes(index.shape, (*self.logits.shape[:-1], 1))
        logits = self.logits.expand((*shape[:-1], self._num_events))
        return logits.gather(-1, index.expand(shape)).squeeze(-1)

    def entropy(self) -> Tensor:
        # A probability of 0 adds nothing, though its logarithm is infinite.
        logits = self.logits.clamp(min=tinyt.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = tinyt.arange(self._num_events, dtype=tinyt.int64, device=self._param.device)
        return self._enumerated(values, expand)


class OneHotCategorical(Distribution):
    """The index of :class:`Categorical` as a vector of one 1 and zeros."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> OneHotCategorical:
        new: OneHotCategorical = self._get_checked_instance(OneHotCategorical, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def probs(self) -> Tensor:
        """The probabilities, normalised."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The log-probabilities, normalised."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        index = self._categorical.sample(sample_shape)
        return one_hot(index, self._event_shape[-1]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.event_shape[0]
        values = tinyt.eye(n, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape((n, *(1 for _ in self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose ``rsample`` has the gradient of the probabilities (Bengio, Léonard,
    Courville, "Estimating or propagating gradients through stochastic neurons", 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each of n outcomes has come up in ``total_count`` draws."""

    arg_constraints: Any = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Multinomial:
        new: Multinomial = self._get_checked_instance(Multinomial, _instance)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def probs(self) -> Tensor:
        """The probabilities, normalised."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The log-probabilities, normalised."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter that was given."""
        return self._categorical.param_shape

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        shape = self._extended_shape(sample_shape)
        index = drawn.movedim(0, -1)
        counts = tinyt.zeros(shape, dtype=self.probs.dtype, device=self.probs.device)
        return counts.scatter_add(
            -1, index, tinyt.ones(index.shape, dtype=counts.dtype, device=counts.device)
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = tinyt.broadcast_tensors(self.logits, value)
        orders = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        # What cannot come up, and has not, adds nothing.
        never = (value == 0) & (logits == -math.inf)
        return orders + (tinyt.where(never, 0.0, logits) * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        one = Binomial(n, probs=self.probs, validate_args=False)
        values = one.enumerate_support(expand=False)[1:]
        weighted = one.log_prob(values).exp() * (values + 1).lgamma()
        orders = weighted.sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + orders
