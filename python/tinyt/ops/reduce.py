"""Reductions and scans."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

from tinyt._core import DTypeError
from tinyt._tensor import dtype as DType
from tinyt.ops.common import dims_of, float_or_default, need_tensor, to_dtype, wrap_dim, write_out
from tinyt.tensor import Tensor, method, prim

Dim = int | Sequence[int] | None


class ValuesIndices(NamedTuple):
    """Values and where they were found."""

    values: Tensor
    indices: Tensor


@method
def sum(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Sum over ``dim`` (all by default); bool and integers give int64."""
    return prim.sum(to_dtype(need_tensor("sum", input), dtype), dims_of(dim), keepdim, out=out)


@method
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Product over ``dim`` (all by default); bool and integers give int64."""
    return prim.prod(to_dtype(need_tensor("prod", input), dtype), dims_of(dim), keepdim)


def _count(input: Tensor, dims: tuple[int, ...]) -> int:
    """Elements that one result is made from."""
    if not dims:
        return input.numel()
    return math.prod(
        input.shape[wrap_dim("mean", d, input.dim())] if input.dim() else 1 for d in dims
    )


@method
def mean(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Mean over ``dim`` (all by default); NaN over no elements. Float and complex only."""
    x = to_dtype(need_tensor("mean", input), dtype)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise DTypeError(
            f"mean: the input must be of a float or complex dtype, got {x.dtype.name}; pass dtype="
        )
    dims = dims_of(dim)
    return prim.div(prim.sum(x, dims, keepdim), float(_count(x, dims)), out=out)


def _moments(
    input: Tensor, dim: Dim, correction: float, keepdim: bool, name: str
) -> tuple[Tensor, Tensor]:
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{name}: the input must be of a float dtype, got {input.dtype.name}")
    dims = dims_of(dim)
    count = _count(input, dims)
    center = mean(input, dims or None, True)
    square = prim.sum(prim.square(input - center), dims, keepdim)
    # No degrees of freedom: 0/0 and x/0 as PyTorch has them (NaN and inf).
    variance = square / builtins.max(count - correction, 0.0)
    return variance, center if keepdim else mean(input, dims or None)


def _correction(unbiased: bool | None, correction: float | None) -> float:
    if unbiased is not None:
        return 1.0 if unbiased else 0.0
    return 1.0 if correction is None else float(correction)


def _split_unbiased(dim: Dim, unbiased: bool | None) -> tuple[Dim, bool | None]:
    """PyTorch's overload var(input, unbiased): a bool in the place of dim."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


@method
def var(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Variance over ``dim``: squared distance from the mean over (n - correction), two passes."""
    dim, unbiased = _split_unbiased(dim, unbiased)
    return _moments(input, dim, _correction(unbiased, correction), keepdim, "var")[0]


@method
def std(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """Standard deviation over ``dim``: the root of :func:`var`."""
    return prim.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


def var_mean(
    input: Tensor,
    dim: Dim = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Variance and mean over ``dim``."""
    dim, unbiased = _split_unbiased(dim, unbiased)
    return _moments(input, dim, _correction(unbiased, correction), keepdim, "var_mean")


@method
def amax(
    input: Tensor, dim: Dim = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Largest value over ``dim``; NaN wins; the gradient is shared evenly between ties."""
    return prim.amax(input, dims_of(dim), keepdim, out=out)


@method
def amin(
    input: Tensor, dim: Dim = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Smallest value over ``dim``; NaN wins; the gradient is shared evenly between ties."""
    return prim.amin(input, dims_of(dim), keepdim, out=out)


@method
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first largest value; over the flattened tensor without ``dim``."""
    return _arg(prim.argmax, input, dim, keepdim)


@method
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the first smallest value; over the flattened tensor without ``dim``."""
    return _arg(prim.argmin, input, dim, keepdim)


def _arg(primitive: Callable[..., Tensor], input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    if dim is not None:
        return primitive(input, dim, keepdim)
    flat = primitive(prim.reshape(input, (-1,) if input.numel() else (0,)), 0, False)
    return prim.reshape(flat, (1,) * input.dim()) if keepdim else flat


def _extremum(
    input: Tensor,
    dim: int | Tensor | None,
    keepdim: bool,
    whole: Callable[..., Tensor],
    pair: Callable[..., Tensor],
    arg: Callable[..., Tensor],
    name: str,
) -> Tensor | ValuesIndices:
    if dim is None:
        if input.numel() == 0:
            raise RuntimeError(
                f"{name}: expected dim to be given for a tensor without elements, "
                f"got shape {tuple(input.shape)}"
            )
        return whole(input, (), False)
    if isinstance(dim, Tensor):
        return pair(input, dim)
    if input.dim() == 0:
        wrap_dim(name, dim, 0)
        return ValuesIndices(prim.copy(input), arg(input, 0, False))
    if input.dtype.name == "bool":
        index = arg(prim.cast(input, 1), dim, True)
    else:
        index = arg(input, dim, True)
    values = prim.gather(input, index, dim)
    if not keepdim:
        d = wrap_dim(name, dim, input.dim())
        shape = tuple(n for i, n in enumerate(values.shape) if i != d)
        values, index = prim.reshape(values, shape), prim.reshape(index, shape)
    return ValuesIndices(values, index)


@overload
def max(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@method
def max(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Largest value of all; (values, indices) over ``dim``; or the larger of two tensors."""
    return _extremum(input, dim, keepdim, prim.amax, prim.maximum, prim.argmax, "max")


@overload
def min(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False) -> ValuesIndices: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@method
def min(
    input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False
) -> Tensor | ValuesIndices:
    """Smallest value of all; (values, indices) over ``dim``; or the smaller of two tensors."""
    return _extremum(input, dim, keepdim, prim.amin, prim.minimum, prim.argmin, "min")


def _truth(input: Tensor) -> Tensor:
    return input if input.dtype.name == "bool" else prim.ne(input, 0)


@method
def all(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether all elements over ``dim`` are true (not zero)."""
    misses = prim.sum(prim.logical_not(_truth(input)), dims_of(dim), keepdim)
    return prim.eq(misses, 0)


@method
def any(input: Tensor, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Whether any element over ``dim`` is true (not zero)."""
    return prim.ne(prim.sum(_truth(input), dims_of(dim), keepdim), 0)


@method
def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """Number of elements over ``dim`` that are not zero."""
    return prim.sum(_truth(input), dims_of(dim), False)


@method
def logsumexp(input: Tensor, dim: Dim, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over ``dim``, shifted by the largest value so that nothing overflows."""
    dims = dims_of(dim)
    x = to_dtype(input, float_or_default(input))
    if _count(x, dims) == 0:
        return prim.log(prim.sum(x, dims, keepdim))
    top = prim.amax(x.detach(), dims, True)
    top = prim.where(prim.isfinite(top), top, 0.0)
    total = prim.log(prim.sum(prim.exp(x - top), dims, keepdim))
    return total + (top if keepdim else prim.reshape(top, tuple(total.shape)))


@method
def norm(
    input: Tensor, p: float | str | None = 2, dim: Dim = None, keepdim: bool = False
) -> Tensor:
    """Vector norm of order ``p`` over ``dim`` ("fro" means 2)."""
    order = 2.0 if p in (None, "fro") else float(p)
    dims = dims_of(dim)
    size = prim.abs(input)
    if order == math.inf:
        return prim.amax(size, dims, keepdim)
    if order == -math.inf:
        return prim.amin(size, dims, keepdim)
    if order == 0:
        return to_dtype(prim.sum(prim.ne(input, 0), dims, keepdim), size.dtype)
    if order == 1:
        return prim.sum(size, dims, keepdim)
    if order == 2:
        return prim.sqrt(prim.sum(prim.square(size), dims, keepdim))
    return prim.pow(prim.sum(prim.pow(size, order), dims, keepdim), 1 / order)


@method
def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, out: Tensor | None = None
) -> Tensor:
    """Running sum along ``dim``, from the first element on; bool and integers give int64."""
    return write_out(out, prim.cumsum(to_dtype(input, dtype), dim))


@method
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True
) -> ValuesIndices:
    """Sorted values and their indices along ``dim``; always stable, NaN last when ascending."""
    return ValuesIndices(*prim.sort(input, dim, descending))


@method
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices that sort ``input`` along ``dim``."""
    return prim.sort(input, dim, descending)[1]


@method
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> ValuesIndices:
    """The ``k`` largest (smallest) values along ``dim`` and their indices, in order."""
    size = input.shape[wrap_dim("topk", dim, input.dim())] if input.dim() else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: k must be in [0, {size}] for dim {dim}, got {k}")
    values, indices = prim.sort(input, dim, largest)
    if input.dim() == 0:
        return ValuesIndices(values, indices)
    return ValuesIndices(prim.slice(values, dim, 0, k), prim.slice(indices, dim, 0, k))


EXPORTS = {
    f.__name__: f
    for f in (
        sum, prod, mean, var, std, var_mean, amax, amin, argmax, argmin, max, min, all, any,
        count_nonzero, logsumexp, norm, cumsum, sort, argsort, topk,
    )
}  # fmt: skip
