"""The von Mises distribution: angles."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math

import tinyt
from tinyt import Tensor
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, Shape
from tinyt.distributions.utils import broadcast_all


class VonMises(Distribution):
    """Density ``exp(concentration cos(x - loc)) / (2 pi I0(concentration))`` of angles in
    [-pi, pi); draws by the rejection of Best and Fisher, "Efficient simulation of the von Mises
    distribution", 1979.

    >>> VonMises(tinyt.tensor(0.0), tinyt.tensor(1.0)).log_prob(tinyt.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    batched = {"loc": 0, "concentration": 0}

    def __init__(
        self,
        loc: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, ``1 - I1 / I0``."""
        k = self.concentration
        return 1 - tinyt.special.i1e(k) / tinyt.special.i0e(k)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tinyt.no_grad():
            angle = tinyt._sample_von_mises(self.concentration.expand(shape))
            return (angle + math.pi + self.loc) % (2 * math.pi) - math.pi

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        # cos(x) - 1, without the difference that vanishes near 0.
        away = -2 * ((value - self.loc) / 2).sin().square()
        return k * away - math.log(2 * math.pi) - tinyt.special.i0e(k).log()
