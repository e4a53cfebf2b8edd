"""Spread: variances, standard deviations, covariances."""

from __future__ import annotations

import warnings

from tinyt._autograd import is_grad_enabled
from tinyt._core import DTypeError
from tinyt.decompositions.reduce import variance
from tinyt.ops.common import Number, dims_of, in_float32, wrap_dim, write_out
from tinyt.ops.linalg.products import public_matmul
from tinyt.ops.reduce.reductions import Dim, mean
from tinyt.tensor import Tensor, method, prim


def _variance(
    input: Tensor, dim: Dim, correction: float, keepdim: bool, name: str, root: bool = False
) -> Tensor:
    """Variance or its root; of complex numbers that of both parts together, real."""
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise DTypeError(f"{name}: the input must be of a float dtype, got {input.dtype.name}")
    dims = dims_of(dim)
    if not input.dtype.is_complex:
        return prim.var(input, dims, keepdim, correction, root)
    axes = tuple(wrap_dim(name, d, input.dim()) for d in dims) if input.dim() else ()
    found = variance(input, axes, keepdim, correction)
    return deviation(found) if root else found


def _arguments(dim: Dim, unbiased: bool | None, correction: float | None) -> tuple[Dim, float]:
    """dim and correction; in PyTorch's overload var(input, unbiased) a bool stands for dim."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None:
        return dim, 1.0 if unbiased else 0.0
    return dim, 1.0 if correction is None else float(correction)


def deviation(variance: Tensor) -> Tensor:
    """The square root; its gradient at zero is zero, as in PyTorch, where that of sqrt is
    infinite."""
    if not (variance.requires_grad and is_grad_enabled()):
        return prim.sqrt(variance)
    zero = prim.eq(variance, 0.0)
    return prim.where(zero, 0.0, prim.sqrt(prim.where(zero, 1.0, variance)))


@method
def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Variance over ``dim``: squared distance from the mean over (n - correction), two passes."""
    dim, by = _arguments(dim, unbiased, correction)
    return write_out(out, _variance(input, dim, by, keepdim, "var"))


@method
def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Standard deviation over ``dim``: the root of :func:`var` before that is rounded."""
    dim, by = _arguments(dim, unbiased, correction)
    return write_out(out, _variance(input, dim, by, keepdim, "std", True))


def var_mean(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over ``dim``."""
    dim, by = _arguments(dim, unbiased, correction)
    variance = _variance(input, dim, by, keepdim, "var_mean")
    return variance, mean(input, dims_of(dim) or None, keepdim)


def std_mean(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean over ``dim``."""
    dim, by = _arguments(dim, unbiased, correction)
    deviation = _variance(input, dim, by, keepdim, "std_mean", True)
    return deviation, mean(input, dims_of(dim) or None, keepdim)


# ---- covariance


def _check_weights(name: str, weights: Tensor, count: int, integral: bool) -> None:
    if weights.dim() > 1 or weights.numel() != count:
        raise RuntimeError(
            f"cov: {name} must have one entry for each of {count} observations, got shape "
            f"{tuple(weights.shape)}"
        )
    is_integer = not weights.dtype.is_floating_point and weights.dtype.name != "bool"
    if is_integer is not integral:
        raise RuntimeError(
            f"cov: {name} must be {'integers' if integral else 'of a float dtype'}, "
            f"got {weights.dtype.name}"
        )
    if weights.numel() and prim.amin(weights, (), False).item() < 0:
        raise RuntimeError(f"cov: {name} must not be negative")


@method
@in_float32
def cov(
    input: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Covariance matrix of the variables in the rows of ``input``, observations in its columns.

    ``fweights``: how often each observation counts; ``aweights``: how reliable it is. The formula
    is that of numpy.cov.
    """
    if input.dim() > 2:
        raise RuntimeError(f"cov: expected at most two dimensions, got shape {tuple(input.shape)}")
    if input.dtype.name == "bool":
        raise DTypeError("cov: not defined for dtype bool")
    x = input if input.dim() == 2 else prim.reshape(input, (1, input.numel()))
    count = x.shape[1]
    weights: Tensor | None = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None:
            _check_weights(name, given, count, name == "fweights")
            flat = prim.reshape(given, (count,))
            weights = flat if weights is None else weights * flat
    total: Tensor | Number = count if weights is None else prim.sum(weights, (), False)
    if isinstance(total, Tensor) and total.item() == 0:
        raise RuntimeError("cov: the weights sum to zero and cannot be normalised")
    center = prim.div(prim.sum(x if weights is None else x * weights, (1,), True), total)
    freedom = total - correction
    if aweights is not None and correction != 0:
        assert weights is not None
        freedom = total - correction * prim.sum(weights * aweights, (), False) / total
    if freedom <= 0:
        warnings.warn("cov: degrees of freedom is <= 0", UserWarning, stacklevel=2)
        freedom = 0.0
    x = x - center
    weighted = x if weights is None else prim.cast(x * weights, x.dtype)
    weighted = prim.conj_physical(weighted) if weighted.dtype.is_complex else weighted
    matrix = prim.div(public_matmul(x, prim.permute(weighted, (1, 0))), freedom)
    return prim.reshape(matrix, tuple(n for n in matrix.shape if n != 1))


@method
@in_float32
def corrcoef(input: Tensor) -> Tensor:
    """Correlation coefficients of the variables in the rows of ``input``, within [-1, 1]."""
    if input.dim() > 2:
        raise RuntimeError(
            f"corrcoef: expected at most two dimensions, got shape {tuple(input.shape)}"
        )
    matrix = cov(input)
    if matrix.dim() == 0:
        return matrix / matrix
    n = matrix.shape[0]
    index = prim.reshape(prim.iota(n, 5, 0.0, 0.0, 0, n + 1), (n,))
    deviation = prim.sqrt(prim.gather(prim.reshape(matrix, (n * n,)), index, 0))
    scaled = matrix / prim.reshape(deviation, (n, 1)) / deviation
    return prim.maximum(prim.minimum(scaled, 1.0), -1.0)


EXPORTS = {f.__name__: f for f in (var, std, var_mean, std_mean, cov, corrcoef)}
