"""Multivariate normal distributions, of any covariance or of one of low rank."""

# ruff: noqa: D102, RUF012
# (The methods are described by the base class, whose tables are constants of each class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.distribution import Distribution, Shape
from tinyt.distributions.utils import lazy_property, standard_normal


def solve_lower(factor: Tensor, b: Tensor) -> Tensor:
    """L^-1 b of a lower-triangular L; batches broadcast."""
    return tinyt.linalg.solve_triangular(factor, b, upper=False)


def half_log_det(factor: Tensor) -> Tensor:
    """Half the logarithm of det(L Lᵀ)."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a matrix P: with J the reversal of rows and J P J =
    M Mᵀ it is the inverse of the lower-triangular J Mᵀ J."""
    reversed_factor = tinyt.linalg.cholesky(precision.flip((-2, -1)))
    lower = reversed_factor.flip((-2, -1)).mT
    eye = tinyt.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return solve_lower(lower, eye)


def mahalanobis(factor: Tensor, x: Tensor) -> Tensor:
    """``|L^-1 x|**2`` of vectors [..., n] and factors [..., n, n], whose batches broadcast."""
    n = x.shape[-1]
    if factor.dim() == 2:  # one factor: all vectors are columns of one right side
        columns = x.reshape((-1, n)).mT
        return solve_lower(factor, columns).square().sum(-2).reshape(x.shape[:-1])
    return solve_lower(factor, x.unsqueeze(-1)).square().sum((-2, -1))


def matvec(matrix: Tensor, x: Tensor) -> Tensor:
    """Matrices times vectors; batches broadcast."""
    return (matrix @ x.unsqueeze(-1)).squeeze(-1)


class MultivariateNormal(Distribution):
    """``loc + L z`` of a standard normal vector ``z``: one of ``covariance_matrix`` (L Lᵀ),
    ``precision_matrix`` (its inverse) and ``scale_tril`` (L) is given; [..., n, n].

    >>> MultivariateNormal(tinyt.zeros(2), tinyt.eye(2)).log_prob(tinyt.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    batched = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
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
        batch = Size(tinyt.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        super().__init__(batch, loc.shape[-1:], validate_args=validate_args)
        # As it was given: a batch of vectors with one matrix has one factor.
        self._factor = matrix if name == "scale_tril" else self._factor_of(name, matrix)

    @staticmethod
    def _factor_of(name: str, matrix: Tensor) -> Tensor:
        if name == "covariance_matrix":
            return tinyt.linalg.cholesky(matrix)
        return precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MultivariateNormal:
        new = self._expanded(batch_shape, _instance)
        new._factor = self._factor
        return new

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, [..., n, n]."""
        return self._factor.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance, [..., n, n]."""
        shape = self._batch_shape + self._event_shape + self._event_shape
        return (self._factor @ self._factor.mT).expand(shape)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, [..., n, n]."""
        shape = self._batch_shape + self._event_shape + self._event_shape
        return tinyt.cholesky_inverse(self._factor).expand(shape)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        shape = self._batch_shape + self._event_shape
        return self._factor.square().sum(-1).expand(shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        eps = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + matvec(self._factor, eps)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        distance = mahalanobis(self._factor, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - half_log_det(self._factor)

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + half_log_det(self._factor)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """Normal with the covariance ``W Wᵀ + D`` of ``cov_factor`` W, [..., n, m], and a diagonal
    ``cov_diag`` D, [..., n].

    Its inverse and determinant follow from those of the small matrix ``I + Wᵀ D^-1 W`` (Woodbury's
    identity, the matrix determinant lemma), so that they take n m² operations.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    batched = {
        "loc": 1,
        "cov_factor": 2,
        "cov_diag": 1,
        "covariance_matrix": 2,
        "precision_matrix": 2,
        "scale_tril": 2,
    }

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = tinyt.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as e:
            raise ValueError(
                "Incompatible batch shapes: "
                f"loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from e
        self.loc = loc.expand((*batch, *event))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *event))
        super().__init__(batch, event, validate_args=validate_args)
        self._small = (cov_factor, cov_diag, self._capacitance(cov_factor, cov_diag))

    @staticmethod
    def _capacitance(w: Tensor, d: Tensor) -> Tensor:
        """The Cholesky factor of I + Wᵀ D^-1 W."""
        product = (w.mT / d.unsqueeze(-2)) @ w
        return tinyt.linalg.cholesky(
            product + tinyt.eye(w.shape[-1], dtype=w.dtype, device=w.device)
        )

    def expand(self, batch_shape: Shape, _instance: Any = None) -> LowRankMultivariateNormal:
        new = self._expanded(batch_shape, _instance)
        new._small = self._small
        return new

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance, [..., n, n]."""
        w, d, _ = self._small
        return self._whole(w @ w.mT + d.diag_embed())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, [..., n, n]."""
        w, d, _ = self._small
        return self._whole(tinyt.linalg.cholesky(w @ w.mT + d.diag_embed()))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, [..., n, n]."""
        w, d, capacitance = self._small
        part = solve_lower(capacitance, w.mT / d.unsqueeze(-2))
        return self._whole(d.reciprocal().diag_embed() - part.mT @ part)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        w, d, _ = self._small
        return (w.square().sum(-1) + d).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        w, d, _ = self._small
        shape = self._extended_shape(sample_shape)
        low = standard_normal(shape[:-1] + w.shape[-1:], self.loc.dtype, self.loc.device)
        return (
            self.loc
            + matvec(w, low)
            + d.sqrt() * standard_normal(shape, self.loc.dtype, self.loc.device)
        )

    def _log_det(self) -> Tensor:
        """The logarithm of the covariance's determinant."""
        _, d, capacitance = self._small
        return 2 * half_log_det(capacitance) + d.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        w, d, capacitance = self._small
        away = value - self.loc
        scaled = away / d
        inside = (away * scaled).sum(-1) - mahalanobis(capacitance, matvec(w.mT, scaled))
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + inside)

    def entropy(self) -> Tensor:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(self._batch_shape)
