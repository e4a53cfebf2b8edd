"""Transforms onto the simplex, correlations and positive-definite matrices."""

# ruff: noqa: D102
# (The methods are described by the base class.)

from __future__ import annotations

import math

import tinyt
from tinyt import Size, Tensor
from tinyt.distributions import constraints
from tinyt.distributions.transform_base import Shape, Transform, clipped_sigmoid, softplus
from tinyt.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from tinyt.nn.functional import logsigmoid, pad

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
    return tinyt.arange(n, 0, -1, dtype=like.dtype, device=like.device)


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
        part = clipped_sigmoid(x - _sticks(x.shape[-1], x).log())
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
        r = r + tinyt.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - y.square().cumsum(-1)
        before = pad(left[..., :-1], (1, 0), value=1.0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(before, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = tril_matrix_to_vec(1 - y.square().cumsum(-1), diag=-2)
        tangents = 2 * (math.log(2.0) - x - softplus(-2 * x))
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
    """Matrices to lower-triangular ones with a positive diagonal, its exp; the rest is lost."""

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
