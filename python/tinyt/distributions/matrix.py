"""Distributions of matrices: Wishart, and LKJ for the Cholesky factors of correlations."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt._core import is_recording
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, ExponentialFamily, Shape
from tinyt.distributions.gamma import Beta, Chi2
from tinyt.distributions.multivariate_normal import (
    half_log_det,
    precision_to_scale_tril,
    solve_lower,
)
from tinyt.distributions.utils import all_numbers, broadcast_all, lazy_property, standard_normal


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the multivariate log-gamma function."""
    steps = tinyt.arange(p, dtype=x.dtype, device=x.device) / 2
    return (x.unsqueeze(-1) - steps).digamma().sum(-1)


class Wishart(ExponentialFamily):
    """The sum of ``df`` products ``x xᵀ`` of normal vectors x with a covariance, which is given as
    for :class:`MultivariateNormal`; ``df`` may be a fraction above n - 1.

    Draws by Bartlett's decomposition: ``L A Aᵀ Lᵀ``, A lower-triangular with normal values, and
    roots of chi-squared ones on the diagonal.
    """

    support = constraints.positive_definite
    has_rsample = True
    batched = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}
    _mean_carrier_measure = 0.0

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            name: matrix
            for name, matrix in (
                ("covariance_matrix", covariance_matrix),
                ("precision_matrix", precision_matrix),
                ("scale_tril", scale_tril),
            )
            if matrix is not None
        }
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        whole = (
            df
            if isinstance(df, Tensor)
            else tinyt.full((), df, dtype=matrix.dtype, device=matrix.device)
        )
        batch = Size(tinyt.broadcast_shapes(matrix.shape[:-2], whole.shape))
        event = matrix.shape[-2:]
        self.df = whole.expand(batch)
        if not is_recording() and (self.df <= event[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}."
            )
        setattr(self, name, matrix.expand((*batch, *event)))
        super().__init__(batch, event, validate_args=validate_args)
        self._factor = {
            "scale_tril": lambda m: m,
            "covariance_matrix": tinyt.linalg.cholesky,
            "precision_matrix": precision_to_scale_tril,
        }[name](matrix)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Wishart:
        new = self._expanded(batch_shape, _instance)
        new._factor = self._factor
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._whole(self._factor)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        return self._whole(self._factor @ self._factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._whole(tinyt.cholesky_inverse(self._factor))

    @property
    def mean(self) -> Tensor:
        return self.df.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN where the density falls from the border on."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = tinyt.where(factor > 0, factor, math.nan)
        return factor.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.reshape((*self._batch_shape, 1, 1)) * (covariance.square() + products)

    def rsample(self, sample_shape: Shape = (), max_try_correction: int | None = None) -> Tensor:
        """Draws with gradients. ``max_try_correction`` is there for PyTorch's sake: A has a
        positive diagonal, so there is no singular draw to repeat."""
        shape = self._extended_shape(sample_shape)
        steps = tinyt.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        chi2 = Chi2(self.df.unsqueeze(-1) - steps, validate_args=False)
        diagonal = chi2.rsample(sample_shape).sqrt().diag_embed()
        part = self._factor @ (
            standard_normal(shape, self.df.dtype, self.df.device).tril(-1) + diagonal
        )
        product: Tensor = part @ part.mT
        return product

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        nu, n = self.df, self._event_shape[-1]
        factor = tinyt.linalg.cholesky(value)
        # tr(V^-1 X) = |L^-1 C|^2 of X = C Cᵀ.
        trace = solve_lower(self._factor, factor).square().sum((-2, -1))
        norm = nu * half_log_det(self._factor) + 0.5 * nu * n * math.log(2)
        powers = (nu - n - 1) * half_log_det(factor) - 0.5 * trace
        return powers - norm - tinyt.mvlgamma(nu / 2, n)

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        scale = (n + 1) * (half_log_det(self._factor) + 0.5 * n * math.log(2))
        slope = 0.5 * (nu - n - 1) * _mvdigamma(nu / 2, n)
        entropy = scale + tinyt.mvlgamma(nu / 2, n) - slope + 0.5 * nu * n
        return entropy.expand(self._batch_shape)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        n = self._event_shape[-1]
        return -0.5 * self.precision_matrix, 0.5 * (self.df - n - 1)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[-1]
        order = y + 0.5 * (n + 1)
        log_det = 2 * half_log_det(tinyt.linalg.cholesky(-2 * x))
        return order * (-log_det + n * math.log(2)) + tinyt.mvlgamma(order, n)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size ``dim``, with density proportional to the
    determinant to the power ``concentration - 1``: uniform over correlations for 1.

    Draws by the onion method of Lewandowski, Kurowicka and Joe, "Generating random correlation
    matrices based on vines and extended onion method", 2009, section 3.2.

    >>> LKJCholesky(2, 1.0).log_prob(tinyt.eye(2))
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self,
        dim: int,
        concentration: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        shape = () if all_numbers(concentration) else self.concentration.shape
        super().__init__(shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> LKJCholesky:
        new: LKJCholesky = self._get_checked_instance(LKJCholesky, _instance)
        new.dim = self.dim
        new.concentration = self.concentration.expand(tuple(batch_shape))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _beta(self) -> Beta:
        """Of the squared length of the part of each row below the diagonal, but for the first."""
        steps = tinyt.arange(
            self.dim - 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        marginal = self.concentration.unsqueeze(-1) + 0.5 * (self.dim - 2)
        return Beta(steps / 2 + 0.5, marginal - 0.5 * steps, validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with tinyt.no_grad():
            square = self._beta().sample(sample_shape).unsqueeze(-1)
            normal = standard_normal(
                shape, self.concentration.dtype, self.concentration.device
            ).tril(-1)[..., 1:, :]
            rows = normal / tinyt.linalg.vector_norm(normal, dim=-1, keepdim=True)
            below = tinyt.nn.functional.pad(square.sqrt() * rows, (0, 0, 1, 0))
            left = 1 - below.square().sum(-1)
            diagonal = left.clamp(min=tinyt.finfo(left.dtype).tiny).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Over the factors' entries below the diagonal: the product of L_ii to the power
        ``2 (concentration - 1) + dim - i``, i = 2 .. dim (page 1999 of the paper for its norm)."""
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = tinyt.arange(
            2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device
        )
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        powers = (order * diagonal.log()).sum(-1)
        steps = self.dim - 1
        alpha = self.concentration + 0.5 * steps
        log_pi = 0.5 * steps * math.log(math.pi)
        return powers - (log_pi + tinyt.mvlgamma(alpha - 0.5, steps) - alpha.lgamma() * steps)
