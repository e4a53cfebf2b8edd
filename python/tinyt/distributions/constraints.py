"""Constraints: the sets in which parameters and values of distributions lie.

``constraint.check(value)`` is a bool tensor of the batch shape: true where the entry (of
``event_dim`` dimensions) lies in the set. The names are those of ``torch.distributions``.

>>> positive.check(tinyt.tensor([-1.0, 2.0]))
tensor([False,  True])
"""

# ruff: noqa: D102
# (check is described by the class.)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tinyt
from tinyt import Tensor

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval",
    "independent", "integer_interval", "interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer",
    "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A set; ``is_discrete`` tells whether it is one of integers, ``event_dim`` how many of the
    last dimensions one entry takes."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__.lstrip('_')}()"


class _Dependent(Constraint):
    """A set that depends on other parameters; what is not given is not known."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return int(self._event_dim)

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Any:
        """The same with facts that are now known."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: object) -> bool:
    """Whether a constraint is a :data:`dependent` one."""
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property whose value is a constraint that depends on other attributes of the instance.

    ``@dependent_property`` or ``@dependent_property(is_discrete=..., event_dim=...)``.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[..., Any]) -> Any:  # type: ignore[override]
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Independent(Constraint):
    """Of ``reinterpreted_batch_ndims`` more dimensions all entries lie in the base."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be non-negative, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        found = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if found.dim() < count:
            expected = self.base_constraint.event_dim + count
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return found.all(tuple(range(-count, 0))) if count else found

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture: a value lies in that of the components."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """True where every component, in the last batch dimension, takes the value."""
        event = self.event_dim
        if value.dim() < event:
            raise ValueError(f"Expected value.dim() >= {event} but got {value.dim()}")
        return self.base_constraint.check(value.unsqueeze(-1 - event)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


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
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerGreaterThan(_From):
    """Integers from lower_bound on."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_UpTo):
    """Integers up to upper_bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value <= self.upper_bound)


class _Real(Constraint):
    """All numbers but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class _GreaterThan(_From):
    """Numbers above lower_bound."""

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_From):
    """Numbers from lower_bound on."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_UpTo):
    """Numbers below upper_bound."""

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers in [lower_bound, upper_bound]."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers in [lower_bound, upper_bound)."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


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
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


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
        return tinyt.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=tinyt.bool)


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


# ---- several sets side by side


class _Several(Constraint):
    """Sets along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(int(c.event_dim) for c in self.cseq)


class _Cat(_Several):
    """Parts of these lengths along ``dim``, each in its own set."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"{len(self.cseq)} constraints need as many lengths, {lengths}")

    def check(self, value: Tensor) -> Tensor:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dims")
        found, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths, strict=True):
            found.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return tinyt.cat(found, self.dim)


class _Stack(_Several):
    """The entries along ``dim``, each in its own set."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dim = max(int(c.event_dim) for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value: Tensor) -> Tensor:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dims")
        parts = zip(self.cseq, value.unbind(self.dim), strict=True)
        return tinyt.stack([constraint.check(part) for constraint, part in parts], self.dim)


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
