"""Mixtures of components of one family."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

from typing import Any

import tinyt
from tinyt import Tensor
from tinyt.distributions import constraints
from tinyt.distributions.categorical import Categorical
from tinyt.distributions.constraints import MixtureSameFamilyConstraint
from tinyt.distributions.distribution import Distribution, Shape


class MixtureSameFamily(Distribution):
    """A value of one component, which ``mixture_distribution`` chooses: the components are the
    last batch dimension of ``component_distribution``.

    >>> D = tinyt.distributions
    >>> parts = D.Normal(tinyt.tensor([-1.0, 1.0]), 1.0)
    >>> MixtureSameFamily(D.Categorical(tinyt.ones(2)), parts).mean
    tensor(0.)
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                "torch.distributions.Categorical"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        mixture, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(mixture), reversed(batch), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        count = mixture_distribution.param_shape[-1]
        components = component_distribution.batch_shape[-1]
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = components
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MixtureSameFamily:
        new: MixtureSameFamily = self._get_checked_instance(MixtureSameFamily, _instance)
        components = self._component_distribution.expand((*batch_shape, self._num_component))
        new._component_distribution = components
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property()
    def support(self) -> Any:
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weighted(self, values: Tensor) -> Tensor:
        """The mean of the components' values [..., components, event]."""
        probs = self._mixture_distribution.probs
        probs = probs.reshape((*probs.shape, *(1 for _ in range(self._event_ndims))))
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._weighted(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        """The mean of the variances and the variance of the means."""
        away = self._component_distribution.mean - self._pad(self.mean)
        return self._weighted(self._component_distribution.variance + away.square())

    def cdf(self, x: Tensor) -> Tensor:
        found = self._component_distribution.cdf(self._pad(x))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(x)
        found = self._component_distribution.log_prob(self._pad(x))
        return (found + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            # Components of a larger batch choose each for itself.
            chosen = self._mixture_distribution.expand(self.batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self.batch_shape)
            ones = (1 for _ in range(self._event_ndims + 1))
            index = chosen.reshape((*chosen.shape, *ones))
            index = index.expand((*drawn.shape[:dim], 1, *self.event_shape))
            return drawn.gather(dim, index).squeeze(dim)

    def _pad(self, x: Tensor) -> Tensor:
        """Values with a dimension of components of size 1."""
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        parts = f"{self._mixture_distribution!r},\n  {self._component_distribution!r}"
        return f"MixtureSameFamily(\n  {parts})"
