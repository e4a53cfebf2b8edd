"""Constraints: the sets in which parameters and values of distributions lie.

``constraint.check(value)`` is a bool tensor of the batch shape: true where the entry (of
``event_dim`` dimensions) lies in the set. The names are those of ``torch.distributions``.

>>> positive.check(tinyt.tensor([-1.0, 2.0]))
tensor([False,  True])
"""

# (check is described by the class.)

from __future__ import annotations

from typing import Any

import tinyt
from tinyt import Tensor
from tinyt.distributions.constraint_base import (
    Constraint,
    MixtureSameFamilyConstraint,
    _Cat,
    _Dependent,
    _Independent,
    _Stack,
    dependent_property,
    is_dependent,
)

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval",
    "independent", "integer_interval", "interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer",
    "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


# ---- numbers


class _Boolean(Constraint):
    """{0, 1}."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    """Vectors of one 1 and zeros."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        binary = ((value == 0) | (value == 1)).all(-1)
        return binary & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """A set with bounds, numbers or tensors that broadcast with the values."""

    lower_bound: Any
    upper_bound: Any

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__.lstrip('_')}({bounds})"


class _From(_Bounded):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _UpTo(_Bounded):
    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Between(_Bounded):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _IntegerInterval(_Between):
    """Integers in [lower_bound, upper_bound]."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = (
            (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)
        )
        return inside


class _IntegerGreaterThan(_From):
    """Integers from lower_bound on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = (value % 1 == 0) & (value >= self.lower_bound)
        return inside


class _IntegerLessThan(_UpTo):
    """Integers up to upper_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = (value % 1 == 0) & (value <= self.upper_bound)
        return inside


class _Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(_From):
    """Numbers above lower_bound."""

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = value > self.lower_bound
        return inside


class _GreaterThanEq(_From):
    """Numbers from lower_bound on."""

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = value >= self.lower_bound
        return inside


class _LessThan(_UpTo):
    """Numbers below upper_bound."""

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = value < self.upper_bound
        return inside


class _Interval(_Between):
    """Numbers in [lower_bound, upper_bound]."""

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = (value >= self.lower_bound) & (value <= self.upper_bound)
        return inside


class _HalfOpenInterval(_Between):
    """Numbers in [lower_bound, upper_bound)."""

    def check(self, value: Tensor) -> Tensor:
        inside: Tensor = (value >= self.lower_bound) & (value < self.upper_bound)
        return inside


# ---- vectors and matrices


class _Simplex(Constraint):
    """Vectors of numbers that are not negative and add up to 1 (within 1e-6)."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of integers that are not negative and add up to upper_bound."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        inside: Tensor = (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)
        return inside


class _Matrix(Constraint):
    """Matrices with a property."""

    event_dim = 2


class _LowerTriangular(_Matrix):
    """Lower-triangular matrices."""

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_Matrix):
    """Lower-triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        triangular = (value.tril() == value).flatten(-2).all(-1)
        return triangular & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_Matrix):
    """Lower-triangular matrices with a positive diagonal and rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        # A sum of n rounded squares is off by some n eps.
        tolerance = tinyt.finfo(value.dtype).eps * value.shape[-1] * 10
        length = tinyt.linalg.vector_norm(value.detach(), dim=-1)
        return lower_cholesky.check(value) & ((length - 1).abs() <= tolerance).all(-1)


class _Square(_Matrix):
    """Square matrices."""

    def check(self, value: Tensor) -> Tensor:
        return tinyt.full(
            value.shape[:-2],
            value.shape[-2] == value.shape[-1],
            dtype=tinyt.bool,
            device=value.device,
        )


class _Symmetric(_Square):
    """Matrices equal to their transpose (within 1e-6)."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not square.all():
            return square
        return tinyt.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without a negative eigenvalue."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        import numpy as np  # eigenvalues come from NumPy's LAPACK

        eigenvalues = np.linalg.eigvalsh(value.detach().numpy())
        return tinyt.from_numpy(np.asarray((eigenvalues >= 0).all(-1)))


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices that have a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return tinyt.linalg.cholesky_ex(value)[1] == 0


cat = _Cat
stack = _Stack
independent = _Independent
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
multinomial = _Multinomial
dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
real = _Real()
real_vector = _Independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
unit_interval = _Interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
