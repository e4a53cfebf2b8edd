"""Distributions of a function of a random value."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, Shape
from tinyt.distributions.independent import Independent
from tinyt.distributions.transforms import ComposeTransform, Transform
from tinyt.distributions.utils import sum_rightmost

Self = TypeVar("Self", bound="TransformedDistribution")


class TransformedDistribution(Distribution):
    """``transforms`` applied, one after another, to values of ``base_distribution``.

    The density is the base's over the Jacobian determinant of the transforms, which must be
    bijective for it.

    >>> base = tinyt.distributions.Normal(0.0, 1.0)
    >>> exp = tinyt.distributions.ExpTransform()
    >>> TransformedDistribution(base, [exp]).log_prob(tinyt.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = {}
    base_dist: Any

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, (list, tuple)):
            if not all(isinstance(t, Transform) for t in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = list(transforms)
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        base_events = len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                "base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {shape}."
            )
        forward = whole.forward_shape(shape)
        # The base takes the batch of parameters that the transforms have.
        expanded = whole.inverse_shape(forward)
        if shape != expanded:
            batch = expanded[: len(expanded) - base_events]
            base_distribution = base_distribution.expand(batch)
        joined = whole.domain.event_dim - base_events
        self.base_dist = Independent(base_distribution, joined) if joined > 0 else base_distribution
        events = whole.codomain.event_dim + max(base_events - whole.domain.event_dim, 0)
        cut = len(forward) - events
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    def expand(self: Self, batch_shape: Shape, _instance: Any = None) -> Self:
        new: Self = self._get_checked_instance(TransformedDistribution, _instance)
        new.transforms = self.transforms
        whole = ComposeTransform(self.transforms)
        shape = whole.inverse_shape(Size(batch_shape) + self.event_shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with tinyt.no_grad():
            x: Tensor = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        x: Tensor = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        events = len(self.event_shape)
        log_prob: Any = 0.0
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(x, y)
            log_prob = log_prob - sum_rightmost(slope, events - transform.domain.event_dim)
            y = x
        found: Tensor = self.base_dist.log_prob(y)
        total: Tensor = log_prob + sum_rightmost(found, events - len(self.base_dist.event_shape))
        return total

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """A probability of the base as one of the result: 1 - p where the transforms decrease."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        turned: Tensor = sign * (value - 0.5) + 0.5
        return turned

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._monotonize_cdf(value))
        for transform in self.transforms:
            value = transform(value)
        return value
