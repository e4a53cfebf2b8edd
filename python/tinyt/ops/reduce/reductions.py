"""Reductions: sums, products, extremes, truth, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import overload

from tinyt._core import DimError, DTypeError, ShapeError
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float16
from tinyt.ops.common import (
    INTEGER,
    Number,
    dims_of,
    float_or_default,
    in_dtype,
    need_tensor,
    overwrite,
    to_dtype,
    wide,
    wrap_dim,
    write_out,
)
from tinyt.ops.linalg.matrix import norm_over, p_norm
from tinyt.ops.results import returned
from tinyt.return_types import MinMax, ValuesIndices
from tinyt.tensor import Tensor, attach, method, prim

Dim = int | Sequence[int] | None


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
    return in_dtype(prim.sum, need_tensor("sum", input), dims_of(dim), dtype, out, keepdim)


@method
def nansum(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:func:`sum` with every NaN taken as zero."""
    x = need_tensor("nansum", input)
    primitive = prim.nansum if x.dtype.is_floating_point else prim.sum
    return in_dtype(primitive, x, dims_of(dim), dtype, out, keepdim)


@method
def prod(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Product over ``dim`` (all by default); bool and integers give int64."""
    if dim is not None and not isinstance(dim, INTEGER):
        raise TypeError(f"prod: dim must be one integer, got {dim!r}")
    return in_dtype(prim.prod, need_tensor("prod", input), dims_of(dim), dtype, out, keepdim)


def element_count(op: str, input: Tensor, dims: tuple[int, ...]) -> int:
    """Elements that one result of a reduction is made from."""
    if not dims:
        return input.numel()
    return math.prod(input.shape[wrap_dim(op, d, input.dim())] if input.dim() else 1 for d in dims)


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
    count = float(element_count("mean", x, dims))
    if x.dtype is not float16:
        return prim.div(prim.sum(x, dims, keepdim), count, out=out)
    # The sum may leave the range of float16.
    return write_out(out, to_dtype(prim.div(prim.sum(wide(x), dims, keepdim), count), float16))


@method
def nanmean(
    input: Tensor,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """:func:`mean` of the elements that are not NaN. Float dtypes only."""
    x = need_tensor("nanmean", input)
    if not x.dtype.is_floating_point:
        raise DTypeError(f"nanmean: the input must be of a float dtype, got {x.dtype.name}")
    dims = dims_of(dim)
    count = prim.sum(prim.logical_not(prim.isnan(x)), dims, keepdim)
    x = to_dtype(x, dtype)
    if x.dtype.itemsize != 2:
        return prim.div(nansum(x, dims, keepdim), count, out=out)
    return write_out(out, to_dtype(nansum(wide(x), dims, keepdim) / count, x.dtype))


@method
def amax(
    input: Tensor, dim: Dim = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Largest value over ``dim``; NaN wins; the gradient is shared evenly between ties."""
    try:
        return prim.amax(input, dims_of(dim), keepdim, out=out)
    except DimError:
        _require_dim("amax", input, dim)
        raise


@method
def amin(
    input: Tensor, dim: Dim = (), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Smallest value over ``dim``; NaN wins; the gradient is shared evenly between ties."""
    try:
        return prim.amin(input, dims_of(dim), keepdim, out=out)
    except DimError:
        _require_dim("amin", input, dim)
        raise


@method
def aminmax(
    input: Tensor,
    *,
    dim: int | None = None,
    keepdim: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> MinMax:
    """(min, max) over ``dim`` (all by default); NaN wins; ties share the gradient evenly."""
    if dim is None and input.numel() == 0:
        raise RuntimeError(
            "aminmax: cannot reduce over zero elements, which have no extremes, got shape "
            f"{tuple(input.shape)}"
        )
    dims = dims_of(dim)
    found = prim.amin(input, dims, keepdim), prim.amax(input, dims, keepdim)
    return returned(MinMax, "aminmax", out, found)


@method
def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Index of the first largest value; over the flattened tensor without ``dim``."""
    return write_out(out, _arg(prim.argmax, input, dim, keepdim))


@method
def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Index of the first smallest value; over the flattened tensor without ``dim``."""
    return write_out(out, _arg(prim.argmin, input, dim, keepdim))


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
    out: Tensor | tuple[Tensor, Tensor] | None,
) -> Tensor | ValuesIndices:
    if dim is None or isinstance(dim, Tensor):
        if out is not None and not isinstance(out, Tensor):
            raise TypeError(f"{name}: out must be a Tensor, got {type(out).__name__}")
        return _whole_or_pair(input, dim, whole, pair, name, out)
    if isinstance(out, Tensor):
        raise TypeError(f"{name}: out must be a tuple of two tensors for a dim, got a Tensor")
    return returned(ValuesIndices, name, out, _along(input, dim, keepdim, arg, name))


def _whole_or_pair(
    input: Tensor,
    other: Tensor | None,
    whole: Callable[..., Tensor],
    pair: Callable[..., Tensor],
    name: str,
    out: Tensor | None,
) -> Tensor:
    if other is None:
        _require_dim(name, input, ())
        return whole(input, (), False, out=out)
    return pair(input, other, out=out)


def _require_dim(name: str, input: Tensor, dim: Dim) -> None:
    """RuntimeError without a dim where there is nothing: with one the error names an index."""
    if input.numel() == 0 and (dim is None or dim == () or dim == []):
        raise RuntimeError(
            f"{name}: expected dim to be given for a tensor without elements, "
            f"got shape {tuple(input.shape)}"
        )


def _along(
    input: Tensor, dim: int, keepdim: bool, arg: Callable[..., Tensor], name: str
) -> tuple[Tensor, Tensor]:
    if input.dim() == 0:
        wrap_dim(name, dim, 0)
        return prim.copy(input), prim.fill((), 5, 0.0, 0)
    index = arg(prim.cast(input, 1) if input.dtype.name == "bool" else input, dim, True)
    values = prim.gather(input, index, dim)
    if keepdim:
        return values, index
    d = wrap_dim(name, dim, input.dim())
    shape = tuple(n for i, n in enumerate(values.shape) if i != d)
    return prim.reshape(values, shape), prim.reshape(index, shape)


@overload
def max(
    input: Tensor,
    dim: None = None,
    keepdim: bool = False,
    *,
    other: None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> ValuesIndices: ...
@overload
def max(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@method
def max(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Tensor | ValuesIndices:
    """Largest value of all; (values, indices) over ``dim``; or the larger of two tensors.

    Of equal values the first one's index is given; a NaN wins.
    """
    by = dim if other is None else other
    return _extremum(input, by, keepdim, prim.amax, prim.maximum, prim.argmax, "max", out)


@overload
def min(
    input: Tensor,
    dim: None = None,
    keepdim: bool = False,
    *,
    other: None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def min(
    input: Tensor, dim: int, keepdim: bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> ValuesIndices: ...
@overload
def min(input: Tensor, dim: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor, out: Tensor | None = None) -> Tensor: ...
@method
def min(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    out: Tensor | tuple[Tensor, Tensor] | None = None,
) -> Tensor | ValuesIndices:
    """Smallest value of all; (values, indices) over ``dim``; or the smaller of two tensors.

    Of equal values the first one's index is given; a NaN wins.
    """
    by = dim if other is None else other
    return _extremum(input, by, keepdim, prim.amin, prim.minimum, prim.argmin, "min", out)


def _truth(input: Tensor) -> Tensor:
    return input if input.dtype.name == "bool" else prim.ne(input, 0)


def _quantified(
    name: str, input: Tensor, dim: Dim, keepdim: bool, reduce: Callable[..., Tensor]
) -> Tensor:
    """all and any as the smallest and the largest of bools; uint8 stays uint8, as in PyTorch."""
    truth = _truth(need_tensor(name, input))
    if dim is not None and not isinstance(dim, INTEGER) and not len(dim):
        found = prim.copy(truth)  # over no dimension at all, as in PyTorch
    elif input.numel():
        found = reduce(truth, dims_of(dim), keepdim)
    else:  # nothing is missing, and nothing is there
        shape = tuple(prim.sum(truth, dims_of(dim), keepdim).shape)
        found = prim.fill(shape, truth.dtype, 0.0, int(name == "all"))
    return prim.cast(found, input.dtype) if input.dtype.name == "uint8" else found


@method
def all(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether all elements over ``dim`` are true (not zero); bool, of uint8 uint8."""
    return write_out(out, _quantified("all", input, dim, keepdim, prim.amin))


@method
def any(
    input: Tensor, dim: Dim = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Whether any element over ``dim`` is true (not zero); bool, of uint8 uint8."""
    return write_out(out, _quantified("any", input, dim, keepdim, prim.amax))


@method
def count_nonzero(input: Tensor, dim: Dim = None) -> Tensor:
    """Number of elements over ``dim`` that are not zero."""
    return prim.sum(_truth(input), dims_of(dim), False)


@method
def logsumexp(
    input: Tensor, dim: Dim, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """log(sum(exp(x))) over ``dim``, shifted by the largest value so that nothing overflows.

    An empty ``dim`` means all, with ``keepdim`` only: PyTorch refuses it otherwise. None is a
    TypeError.
    """
    if dim is None:
        raise TypeError("logsumexp: dim must be an int or ints, got None")
    dims = dims_of(dim)
    if not dims and not keepdim and input.dim():
        raise ShapeError(f"logsumexp: dim must not be empty, the shape is {tuple(input.shape)}")
    return prim.logsumexp(to_dtype(input, float_or_default(input)), dims, keepdim, out=out)


# ---- norms


def norm(
    input: Tensor,
    p: Number | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """Vector norm of order ``p`` over ``dim`` (all by default); "fro" means 2."""
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f'norm: p must be a number or "fro", got {p!r}')
    order = 2.0 if p is None or isinstance(p, str) else float(p)
    return write_out(out, norm_over("norm", input, order, dim, keepdim, dtype))


def _norm_method(
    self: Tensor,
    p: Number | str | None = "fro",
    dim: Dim = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """Vector norm of order ``p`` over ``dim`` (all by default); "fro" means 2."""
    return norm(self, p, dim, keepdim, dtype=dtype)


_norm_method.__name__ = "norm"  # in errors
attach(norm=_norm_method)


@method
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor:
    """The ``p``-norm of ``input - other`` (broadcast)."""
    return norm_over("dist", prim.sub(input, other), p, None, False, None)


@method
def renorm(
    input: Tensor, p: Number, dim: int, maxnorm: Number, *, out: Tensor | None = None
) -> Tensor:
    """Scales every slice ``input.select(dim, i)`` whose p-norm is above ``maxnorm`` down to it."""
    if input.dim() < 2:
        raise RuntimeError(
            f"renorm: the input needs at least 2 dimensions, got shape {tuple(input.shape)}"
        )
    if p <= 0 or maxnorm < 0:
        raise RuntimeError(
            f"renorm: p must be positive and maxnorm not negative, got {p} and {maxnorm}"
        )
    if not input.dtype.is_floating_point:
        raise DTypeError(f"renorm: expected a float dtype, got {input.dtype.name}")
    d = wrap_dim("renorm", dim, input.dim())
    x = wide(input)
    size = p_norm(x, float(p), tuple(i for i in range(x.dim()) if i != d), True)
    # The small number in the divisor is PyTorch's.
    factor = prim.where(prim.gt(size, maxnorm), maxnorm / (size + 1e-7), 1.0)
    return write_out(out, to_dtype(x * factor, input.dtype))


@method
def renorm_(self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """:func:`renorm` in place."""
    return overwrite(self, renorm, p, dim, maxnorm)


@method
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix; integers give int64."""
    if input.dim() != 2:
        raise ShapeError(f"trace: expected a matrix, got shape {tuple(input.shape)}")
    if input.dtype.name == "bool":
        raise DTypeError("trace: not defined for dtype bool")
    rows, columns = input.shape
    index = prim.reshape(prim.iota(rows if rows < columns else columns, 5, 0.0, 0.0, 0, 1), (-1, 1))
    return prim.sum(prim.gather(input, index, 1), (), False)


EXPORTS = {
    f.__name__: f
    for f in (
        sum, nansum, prod, mean, nanmean, amax, amin, aminmax, argmax, argmin, max, min, all, any,
        count_nonzero, logsumexp, norm, dist, renorm, trace,
    )
}  # fmt: skip
