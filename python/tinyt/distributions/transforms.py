"""Transforms: functions with an inverse and a Jacobian, which map distributions and constraints."""

# ruff: noqa: D102
# (The methods are described by the base class.)

from __future__ import annotations

import math
from typing import Any

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.transform_base import (
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    Shape,
    Transform,
    _InverseTransform,
    identity_transform,
)
from tinyt.distributions.transform_parts import CatTransform, StackTransform
from tinyt.distributions.utils import (
    broadcast_all,
    sum_rightmost,
    tril_matrix_to_vec,
    vec_to_tril_matrix,
)
from tinyt.nn.functional import logsigmoid, pad

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform",
    "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
    "_InverseTransform", "identity_transform",
]  # fmt: skip


def _softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), exact to rounding everywhere."""
    return -logsigmoid(-x)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    """The sigmoid, short of 0 and 1, where its inverse is infinite."""
    facts = tinyt.finfo(x.dtype)
    return x.sigmoid().clamp(min=facts.tiny, max=1.0 - facts.eps)


# ---- numbers


class _Elementwise(Transform):
    """A rising function of each number that has no parameters: one is equal to another."""

    domain = constraints.real
    bijective = True
    sign = 1

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


class ExpTransform(_Elementwise):
    """``exp(x)``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(_Elementwise):
    """``1 / (1 + exp(-x))``, kept off 0 and 1."""

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        facts = tinyt.finfo(y.dtype)
        y = y.clamp(min=facts.tiny, max=1.0 - facts.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(_Elementwise):
    """``log(1 + exp(x))``."""

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return _softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(_Elementwise):
    """``tanh(x)``. Its inverse is infinite at 1 and -1: a cache avoids it."""

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the difference that vanishes for large x.
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(Transform):
    """``|x|``, not bijective: the inverse is the identity."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def __hash__(self) -> int:
        return hash(AbsTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """``x ** exponent`` of positive x."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Tensor | float, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> PowerTransform:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    def __hash__(self) -> int:
        return hash(PowerTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        return Size(tinyt.broadcast_shapes(shape, self.exponent.shape))

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """``loc + scale * x``; with ``event_dim`` of vectors or matrices."""

    bijective = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        event_dim: int = 0,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @property
    def domain(self) -> Any:
        events = self._event_dim
        return constraints.independent(constraints.real, events) if events else constraints.real

    codomain = domain

    def with_cache(self, cache_size: int = 1) -> AffineTransform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        pairs = ((self.loc, other.loc), (self.scale, other.scale))
        return all(bool((tinyt.as_tensor(a) == tinyt.as_tensor(b)).all()) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(AffineTransform)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope = self.scale
        if isinstance(slope, Tensor):
            log_slope = slope.abs().log()
        else:
            log_slope = tinyt.full_like(x, math.log(abs(slope)))
        return sum_rightmost(log_slope.expand(x.shape), self._event_dim)

    def forward_shape(self, shape: Shape) -> Size:
        sizes = [getattr(p, "shape", ()) for p in (self.loc, self.scale)]
        return Size(tinyt.broadcast_shapes(shape, *sizes))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """A distribution's ``cdf``: its values become uniform ones."""

    bijective = True
    codomain = constraints.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        y: Tensor = self.distribution.cdf(x)
        return y

    def _inverse(self, y: Tensor) -> Tensor:
        x: Tensor = self.distribution.icdf(y)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope: Tensor = self.distribution.log_prob(x)
        return slope

    def with_cache(self, cache_size: int = 1) -> CumulativeDistributionTransform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)


# ---- the simplex


def _need_vector(shape: Shape) -> Size:
    if len(shape) < 1:
        raise ValueError("Too few dimensions on input")
    return Size(shape)


class SoftmaxTransform(Transform):
    """``exp(x)`` divided by its sum: onto the simplex, not bijective; the inverse is ``log(y)``."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    def __hash__(self) -> int:
        return hash(SoftmaxTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Shape) -> Size:
        return _need_vector(shape)

    inverse_shape = forward_shape


def _sticks(n: int, like: Tensor) -> Tensor:
    """n, n - 1, ..., 1."""
    return tinyt.arange(n, 0, -1, dtype=like.dtype)


class StickBreakingTransform(Transform):
    """n numbers to n + 1 that are positive and add up to 1: entry k takes the part
    ``sigmoid(x_k - log(n - k))`` of what is left (Stan Reference Manual, "Unit simplex")."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    def __hash__(self) -> int:
        return hash(StickBreakingTransform)

    def _call(self, x: Tensor) -> Tensor:
        part = _clipped_sigmoid(x - _sticks(x.shape[-1], x).log())
        left = (1 - part).cumprod(-1)
        return pad(part, (0, 1), value=1.0) * pad(left, (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=tinyt.finfo(y.dtype).tiny)
        return head.log() - left.log() + _sticks(head.shape[-1], y).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - _sticks(x.shape[-1], x).log()
        return (-x + logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        shape = _need_vector(shape)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Shape) -> Size:
        shape = _need_vector(shape)
        return Size((*shape[:-1], shape[-1] - 1))


# ---- matrices


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix.

    The tangents ``tanh(x)`` below the diagonal are canonical partial correlations; each row takes
    its parts of a length of 1 (Lewandowski, Kurowicka, Joe, "Generating random correlation matrices
    based on vines and extended onion method", 2009).
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = tinyt.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r.square()).sqrt().cumprod(-1)
        r = r + tinyt.eye(r.shape[-1], dtype=r.dtype)
        return r * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        before = pad(left[..., :-1], (1, 0), value=1.0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        tangents = 2 * (math.log(2.0) - x - _softplus(-2 * x))
        return 0.5 * left.log().sum(-1) + tangents.sum(-1)

    def forward_shape(self, shape: Shape) -> Size:
        shape = _need_vector(shape)
        count = shape[-1]
        size = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if size * (size - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], size, size))

    def inverse_shape(self, shape: Shape) -> Size:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class LowerCholeskyTransform(Transform):
    """Matrices to lower-triangular ones with a positive diagonal, by exp; what lies above is lost."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    def __hash__(self) -> int:
        return hash(LowerCholeskyTransform)

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices to positive-definite ones: L Lᵀ of :class:`LowerCholeskyTransform`'s L."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    def __hash__(self) -> int:
        return hash(PositiveDefiniteTransform)

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(tinyt.linalg.cholesky(y))
