"""Running values along a dimension, and what differences and integrals are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import dtype as DType
from tinyt.ops.common import (
    Number,
    dims_of,
    float_or_default,
    in_dtype,
    in_float32,
    need_tensor,
    overwrite,
    to_dtype,
    wrap_dim,
    write_out,
)
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.ops.results import returned
from tinyt.return_types import ValuesIndices
from tinyt.tensor import Tensor, method, prim


@method
def cumsum(
    input: Tensor, dim: int, *, dtype: DType | None = None, out: Tensor | None = None
) -> Tensor:
    """Running sum along ``dim``, from the first element on; bool and integers give int64."""
    return in_dtype(prim.cumsum, need_tensor("cumsum", input), dim, dtype, out)


@method
def cumprod(
    input: Tensor, dim: int, *, dtype: DType | None = None, out: Tensor | None = None
) -> Tensor:
    """Running product along ``dim``; bool and integers give int64."""
    return in_dtype(prim.cumprod, need_tensor("cumprod", input), dim, dtype, out)


@method
def cumsum_(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """:func:`cumsum` in place, in the dtype of the tensor."""
    return self._assign(cumsum(self, dim, dtype=dtype))


@method
def cumprod_(self: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """:func:`cumprod` in place, in the dtype of the tensor."""
    return overwrite(self, lambda x: to_dtype(cumprod(x, dim, dtype=dtype), self.dtype))


@method
def cummax(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> ValuesIndices:
    """Largest value so far along ``dim`` and its position, the last one of equal values.

    A NaN wins and stays.
    """
    return returned(ValuesIndices, "cummax", out, prim.cummax(input, dim))


@method
def cummin(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> ValuesIndices:
    """Smallest value so far along ``dim`` and its position, the last one of equal values.

    A NaN wins and stays.
    """
    return returned(ValuesIndices, "cummin", out, prim.cummin(input, dim))


@method
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """log of the running sum of exp(x) along ``dim``, without overflow. Float dtypes only."""
    return prim.logcumsumexp(input, dim, out=out)


# ---- differences


def taken(x: Tensor, dim: int, start: int, stop: int) -> Tensor:
    """Elements [start, stop) along one dimension; a negative bound counts from the end."""
    n = x.shape[dim]
    return prim.slice(x, dim, start + n if start < 0 else start, stop + n if stop < 0 else stop)


def _difference(x: Tensor, dim: int) -> Tensor:
    n = x.shape[dim]
    after, before = prim.slice(x, dim, min(1, n), n), prim.slice(x, dim, 0, max(n - 1, 0))
    return prim.logical_xor(after, before) if x.dtype.name == "bool" else prim.sub(after, before)


@method
@in_float32
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The ``n``-th difference of neighbours along ``dim``; bool gives whether they differ.

    ``prepend`` and ``append`` are put before and behind the input first.
    """
    if input.dim() == 0:
        raise RuntimeError("diff: the input must have at least one dimension, got shape ()")
    if n < 0:
        raise RuntimeError(f"diff: n must not be negative, got {n}")
    d = wrap_dim("diff", dim, input.dim())
    parts = [x for x in (prepend, input, append) if x is not None]
    x = prim.cat(parts, d) if len(parts) > 1 else input
    for _ in range(min(n, x.shape[d])):
        x = _difference(x, d)
    return write_out(out, prim.copy(x) if n == 0 or x is input else x)


# ---- integrals by the trapezoid rule


def _widths(op: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """Distances of the points ``x``, in a shape that broadcasts with y's intervals."""
    rank = y.dim()
    if x.dim() == 1:
        if x.shape[0] != y.shape[dim]:
            raise ShapeError(
                f"{op}: there must be one x value for each sample point, got {x.shape[0]} for "
                f"{y.shape[dim]}"
            )
        shape = [1] * rank
        shape[dim] = x.shape[0]
        x = prim.reshape(x, shape)
    elif x.dim() < rank:
        x = prim.reshape(x, (1,) * (rank - x.dim()) + tuple(x.shape))
    along = dim + x.dim() - rank
    return prim.sub(taken(x, along, 1, x.shape[along]), taken(x, along, 0, -1))


def _areas(op: str, y: Tensor, x: Tensor | None, dx: Number, dim: int) -> Tensor:
    """Twice the area of every interval."""
    if y.dtype.name == "bool" or (x is not None and x.dtype.name == "bool"):
        raise DTypeError(f"{op}: not defined for dtype bool")
    pairs = prim.add(taken(y, dim, 0, -1), taken(y, dim, 1, y.shape[dim]))
    if x is not None:
        widths = _widths(op, y, x, dim)
        broadcast_shapes(tuple(pairs.shape), tuple(widths.shape))
        return prim.mul(pairs, widths)
    return pairs if dx == 1 else prim.mul(pairs, dx)


@in_float32
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """Integral of samples ``y`` along ``dim`` at points ``x``, or ``dx`` (1) apart."""
    _need_one(x, dx, "trapezoid")
    d = wrap_dim("trapezoid", dim, y.dim())
    if y.shape[d] == 0:
        return prim.fill(tuple(n for i, n in enumerate(y.shape) if i != d), y.dtype, 0.0, 0)
    if x is not None:
        return prim.div(prim.sum(_areas("trapezoid", y, x, 1, d), (d - y.dim(),), False), 2.0)
    if y.dtype.name == "bool":
        raise DTypeError("trapezoid: not defined for dtype bool")
    # Evenly spaced: the sum without half of the first and the last; narrow integers do not wrap.
    ends = prim.add(taken(y, d, 0, 1), taken(y, d, -1, y.shape[d]))
    inside = prim.sub(prim.sum(y, (d,), True), prim.mul(ends, 0.5))
    return prim.sum(inside if dx is None else prim.mul(inside, dx), (d,), False)


@in_float32
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1
) -> Tensor:
    """Running integral of ``y`` along ``dim``; one element less than ``y``."""
    _need_one(x, dx, "cumulative_trapezoid")
    d = wrap_dim("cumulative_trapezoid", dim, y.dim())
    areas = _areas("cumulative_trapezoid", y, x, 1 if dx is None else dx, d)
    return prim.div(prim.cumsum(areas, d - y.dim()), 2.0)


def _need_one(x: Tensor | None, dx: Number | None, op: str) -> None:
    if x is not None and dx is not None:
        raise TypeError(f"{op}: x and dx cannot both be given")


def trapz(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """:func:`trapezoid` under its older name."""
    return trapezoid(y, x, dx=dx, dim=dim)


# ---- gradient by finite differences

Spacing: TypeAlias = Number | Tensor | Sequence[Number | Tensor]


def _steps(spacing: Number | Tensor, x: Tensor, dim: int) -> Tensor:
    """Distances between neighbours: 0-d for all, or a tensor that broadcasts along ``dim``."""
    if not isinstance(spacing, Tensor):
        return prim.fill((), float_or_default(x), float(spacing), 0)
    if spacing.dim() != 1 or spacing.shape[0] != x.shape[dim]:
        raise RuntimeError(
            f"gradient: expected {x.shape[dim]} coordinates for dimension {dim}, got shape "
            f"{tuple(spacing.shape)}"
        )
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim] - 1
    return prim.reshape(_difference(spacing, 0), shape)


@in_float32
def _gradient_along(x: Tensor, spacing: Number | Tensor, dim: int, edge_order: int) -> Tensor:
    """Central differences of second order inside, one-sided ones of ``edge_order`` at both ends.

    Three-point weights for uneven steps: A. Quarteroni et al., Numerical Mathematics, 10.10.
    """
    n = x.shape[dim]
    steps = _steps(spacing, x, dim)

    def at(i: int) -> Tensor:
        return prim.slice(x, dim, i % n, i % n + 1)

    def step(i: int) -> Tensor:
        if steps.dim() == 0:
            return steps
        return taken(steps, dim, i % (n - 1), i % (n - 1) + 1)

    a = b = steps
    if steps.dim():
        a, b = taken(steps, dim, 0, -1), taken(steps, dim, 1, n - 1)
    inside = (
        taken(x, dim, 2, n) * (a / (b * (a + b)))
        + taken(x, dim, 1, -1) * ((b - a) / (a * b))
        - taken(x, dim, 0, -2) * (b / (a * (a + b)))
    )
    ends = []
    for first, second, third, sign in ((0, 1, 2, 1), (-1, -2, -3, -1)):
        h, k = step(0 if sign > 0 else -1), step(1 if sign > 0 else -2)
        if edge_order == 1:
            slope = (at(second) - at(first)) / h
        else:
            slope = (
                at(second) * ((h + k) / (h * k))
                - at(first) * ((2 * h + k) / (h * (h + k)))
                - at(third) * (h / (k * (h + k)))
            )
        ends.append(slope if sign > 0 else -slope)
    return prim.cat([ends[0], inside, ends[1]], dim)


def gradient(
    input: Tensor,
    *,
    spacing: Spacing = 1,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Estimates the derivative of samples along each of ``dim`` (all by default).

    ``spacing``: the distance of samples, one for all or one each, or 1-d tensors of coordinates.
    ``edge_order``: 1 or 2, the order of the one-sided differences at the ends.
    """
    rank = input.dim()
    dims = (
        [wrap_dim("gradient", d, rank) for d in dims_of(dim)] if dim is not None else [*range(rank)]
    )
    if len(set(dims)) < len(dims):
        raise RuntimeError(f"gradient: a dim appears more than once in {tuple(dims_of(dim))}")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient: edge_order must be 1 or 2, got {edge_order}")
    steps: Any = spacing
    each: list[Any] = list(steps) if isinstance(steps, (list, tuple)) else [steps] * len(dims)
    if len(each) != len(dims):
        raise RuntimeError(
            f"gradient: expected one spacing for each of {len(dims)} dims, got {len(each)}"
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"gradient: each dimension needs at least edge_order + 1 = {edge_order + 1} "
                f"elements, got shape {tuple(input.shape)}"
            )
    return tuple(
        _gradient_along(input, step, d, edge_order) for d, step in zip(dims, each, strict=True)
    )


EXPORTS = {
    f.__name__: f
    for f in (
        cumsum, cumprod, cummax, cummin, logcumsumexp, diff, trapezoid, cumulative_trapezoid,
        trapz, gradient,
    )
}  # fmt: skip
