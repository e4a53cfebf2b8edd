"""Functions of matrices and vectors beyond plain products: powers, chains, norms, distances."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from tinyt._autograd import zero_gradient
from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32, int64
from tinyt.ops.common import (
    Number,
    dims_of,
    in_float32,
    is_half,
    named,
    to_dtype,
    wide,
    wrap_dim,
    write_out,
)
from tinyt.ops.creation.ranges import eye
from tinyt.ops.elementwise.functions import broadcast_shapes
from tinyt.ops.linalg.products import public_matmul
from tinyt.ops.shape.reshape import transpose
from tinyt.ops.shape.strides import diagonal
from tinyt.tensor import Tensor, method, prim

Dim = int | Sequence[int] | None
_HALVES = ("float16", "bfloat16")
_USE_PRODUCT = 25  # rows from which cdist goes through a matrix product, as in PyTorch


def _need_float(op: str, x: Tensor) -> None:
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise DTypeError(f"{op}: expected a float dtype, got {x.dtype.name}")


# ---- products


@method
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker product: every element of input times the whole of other."""
    rank = max(input.dim(), other.dim())
    left = (1,) * (rank - input.dim()) + tuple(input.shape)
    right = (1,) * (rank - other.dim()) + tuple(other.shape)
    wide_left = tuple(n for size in left for n in (size, 1))
    wide_right = tuple(n for size in right for n in (1, size))
    product = prim.mul(prim.reshape(input, wide_left), prim.reshape(other, wide_right))
    shape = tuple(n * m for n, m in zip(left, right, strict=True))
    return write_out(out, prim.reshape(product, shape))


def _taken(x: Tensor, dim: int, first: int) -> Tensor:
    """Components first, first + 1 and first + 2 modulo 3 of a dimension of size 3."""
    if first == 0:
        return x
    return prim.cat((prim.slice(x, dim, first, 3), prim.slice(x, dim, 0, first)), dim)


def _cross(op: str, input: Tensor, other: Tensor, dim: int, out: Tensor | None) -> Tensor:
    if input.dim() != other.dim():
        raise ShapeError(
            f"{op}: inputs must have the same number of dimensions, got {tuple(input.shape)} and "
            f"{tuple(other.shape)}"
        )
    dim = wrap_dim(op, dim, input.dim())
    if input.dim() == 0 or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise ShapeError(
            f"{op}: dimension {dim} must have size 3, got {tuple(input.shape)} and "
            f"{tuple(other.shape)}"
        )
    first = prim.mul(_taken(input, dim, 1), _taken(other, dim, 2))
    second = prim.mul(_taken(input, dim, 2), _taken(other, dim, 1))
    return prim.sub(first, second, out=out)


@method
@in_float32
def cross(
    input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Vector product along ``dim``: by default the first dimension of size 3."""
    if dim is None:
        threes = [d for d, n in enumerate(input.shape) if n == 3]
        if not threes:
            raise ShapeError(f"cross: no dimension of size 3 in input {tuple(input.shape)}")
        dim = threes[0]
    return _cross("cross", input, other, dim, out)


@named
@in_float32
def linalg_cross(
    input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None
) -> Tensor:
    """Vector product along ``dim``, which has size 3; the other dimensions broadcast."""
    return _cross("linalg.cross", input, other, dim, out)


@named
@in_float32
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Sum of the products of conj(x) and y along ``dim``; the operands broadcast. No integers."""
    _need_float("linalg.vecdot", x)
    left = prim.conj_physical(x) if x.dtype.is_complex else x
    return prim.sum(prim.mul(left, y), (dim,), False, out=out)


@method
def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """Power of (batches of) square matrices with an exponent >= 0, by repeated squaring."""
    shape = tuple(input.shape)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"matrix_power: needs (batches of) square matrices, got shape {shape}")
    if n < 0:
        raise RuntimeError(f"matrix_power: the exponent must not be negative, got {n}")
    if n == 0:
        one = eye(shape[-1], dtype=input.dtype)
        return write_out(out, zero_gradient(prim.copy(prim.expand(one, shape)), input))
    result: Tensor | None = None
    square = input
    while True:
        if n & 1:
            result = square if result is None else public_matmul(result, square)
        n >>= 1
        if n == 0:
            break
        square = public_matmul(square, square)
    assert result is not None
    return write_out(out, prim.copy(result) if result is input else result)


def _chain_order(sizes: list[int]) -> list[list[int]]:
    """Where to split each part of a chain of matrices for the fewest multiplications.

    Matrix i is sizes[i] by sizes[i + 1]; the dynamic program of Cormen et al., "Introduction to
    Algorithms", chapter 14.2.
    """
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            options = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i][j], split[i][j] = min(options)
    return split


def _chain_product(chain: list[Tensor], split: list[list[int]], i: int, j: int) -> Tensor:
    """The product of matrices i to j in the order that ``split`` gives."""
    if i == j:
        return chain[i]
    k = split[i][j]
    return public_matmul(_chain_product(chain, split, i, k), _chain_product(chain, split, k + 1, j))


@named
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """Product of two or more matrices in the order that needs the fewest multiplications.

    The first and the last may be vectors.
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot: expected at least 2 tensors but got {len(tensors)}")
    chain = list(tensors)
    for i, x in enumerate(chain):
        ends = i in (0, len(chain) - 1)
        if not (x.dim() == 2 or (ends and x.dim() == 1)):
            raise ShapeError(
                f"multi_dot: tensor {i} must be {'1-d or ' if ends else ''}2-d, got shape "
                f"{tuple(x.shape)}"
            )
    vector_first, vector_last = chain[0].dim() == 1, chain[-1].dim() == 1
    if vector_first:
        chain[0] = prim.reshape(chain[0], (1, chain[0].shape[0]))
    if vector_last:
        chain[-1] = prim.reshape(chain[-1], (chain[-1].shape[0], 1))
    for i, (x, y) in enumerate(itertools.pairwise(chain)):
        if x.shape[1] != y.shape[0]:
            raise ShapeError(
                f"multi_dot: tensors {i} and {i + 1} with shapes {tuple(tensors[i].shape)} and "
                f"{tuple(tensors[i + 1].shape)} cannot be multiplied"
            )
    split = _chain_order([chain[0].shape[0], *(x.shape[1] for x in chain)])

    result = _chain_product(chain, split, 0, len(chain) - 1)
    shape = tuple(result.shape)
    kept = shape[vector_first : 1 if vector_last else 2]
    return write_out(out, prim.reshape(result, kept))


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Product of matrices in the cheapest order; see :func:`tinyt.linalg.multi_dot`."""
    return multi_dot(matrices, out=out)


@named
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """A view of the diagonals of the matrices in two dimensions."""
    return diagonal(A, offset, dim1, dim2)


# ---- norms


def _root(total: Tensor, p: float) -> Tensor:
    """``total ** (1 / p)``, whose gradient at zero is zero and not infinite."""
    zero = prim.eq(total, 0.0)
    safe = prim.where(zero, 1.0, total)
    return prim.where(zero, 0.0, prim.sqrt(safe) if p == 2 else prim.pow(safe, 1 / p))


def p_norm(x: Tensor, p: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """(sum |x|^p)^(1/p) over ``dims`` (none: all); halves accumulate in float32."""
    if p in (1, 2, math.inf, -math.inf) and not x.dtype.is_complex:
        return prim.norm(x, dims, keepdim, p)
    return composed_norm(x, p, dims, keepdim)


def composed_norm(x: Tensor, p: float, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """:func:`p_norm` of any order in other operations."""
    if x.dtype.name in _HALVES:
        return to_dtype(composed_norm(prim.cast(x, float32), p, dims, keepdim), x.dtype)
    if x.dtype.is_complex:
        x = prim.abs(x)
    if p == 2:
        return _root(prim.sum(prim.square(x), dims, keepdim), p)
    size = prim.abs(x)
    if p == math.inf:
        return prim.amax(size, dims, keepdim)
    if p == -math.inf:
        return prim.amin(size, dims, keepdim)
    if p == 0:
        return zero_gradient(to_dtype(prim.sum(prim.ne(x, 0.0), dims, keepdim), x.dtype), x)
    if p == 1:
        return prim.sum(size, dims, keepdim)
    if 0 < p < 1:  # the slope of |x|^p at 0 is infinite: 0 as in PyTorch
        zero = prim.eq(size, 0.0)
        powers = prim.where(zero, 0.0, prim.pow(prim.where(zero, 1.0, size), p))
    else:
        powers = prim.pow(size, p)
    return _root(prim.sum(powers, dims, keepdim), p)


def norm_over(
    op: str, x: Tensor, ord: Number, dim: Dim, keepdim: bool, dtype: DType | None
) -> Tensor:
    """:func:`p_norm` with the checks of the public functions; ``op`` is named in errors."""
    _need_float(op, x)
    dims = tuple(wrap_dim(op, d, x.dim()) for d in dims_of(dim))
    over = [x.shape[d] for d in dims] if dims and x.dim() else list(x.shape)
    if 0 in over and (ord < 0 or ord == math.inf):
        raise RuntimeError(
            f"{op}: cannot compute the {ord} norm on an empty tensor because the "
            f"operation does not have an identity, got shape {tuple(x.shape)}"
        )
    return p_norm(to_dtype(x, dtype), float(ord), dims, keepdim)


@named
def vector_norm(
    input: Tensor,
    ord: Number = 2,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Norm of order ``ord`` (any number, inf and -inf) over ``dim``: all by default."""
    return write_out(out, norm_over("linalg.vector_norm", input, ord, dim, keepdim, dtype))


@named
def matrix_norm(
    input: Tensor,
    ord: Number | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Norm of the matrices in two dimensions: "fro", 1, -1 (columns), inf, -inf (rows)."""
    _need_float("linalg.matrix_norm", input)
    if input.dim() < 2:
        raise ShapeError(
            f"linalg.matrix_norm: needs at least 2 dimensions, got shape {tuple(input.shape)}"
        )
    rows, columns = (wrap_dim("linalg.matrix_norm", d, input.dim()) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different, got {tuple(dim)}")
    x = to_dtype(input, dtype)
    if ord == "fro":
        return write_out(out, p_norm(x, 2.0, (rows, columns), keepdim))
    if ord not in (1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.matrix_norm: order {ord!r} is not supported")
    summed, best = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = prim.sum(prim.abs(wide(x)), (summed,), True)
    pick = prim.amax if ord > 0 else prim.amin
    kept = pick(sums, (best,), True)
    kept = to_dtype(kept, x.dtype) if is_half(x) else kept
    if not keepdim:
        left = tuple(n for d, n in enumerate(kept.shape) if d not in (rows, columns))
        kept = prim.reshape(kept, left)
    return write_out(out, kept)


@named
def linalg_norm(
    input: Tensor,
    ord: Number | str | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    dtype: DType | None = None,
) -> Tensor:
    """A vector norm over one dimension, a matrix norm over two; alone: of all elements.

    ``ord`` without ``dim`` takes a vector or a matrix.
    """
    dims = dims_of(dim)
    if len(dims) > 2 and ord is not None:
        raise RuntimeError(f"linalg.norm: dim must be of length 1 or 2, got {dims}")
    if ord is None:
        return vector_norm(input, 2, dim, keepdim, dtype=dtype, out=out)
    if not dims and input.dim() not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: with ord and without dim the input must be 1-d or 2-d, got shape "
            f"{tuple(input.shape)}"
        )
    if len(dims) == 2 or (not dims and input.dim() == 2):
        return matrix_norm(input, ord, dims or (0, 1), keepdim, dtype=dtype, out=out)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: order {ord!r} needs a matrix, got {tuple(input.shape)}")
    return vector_norm(input, ord, dim, keepdim, dtype=dtype, out=out)


# ---- distances


def _check_points(op: str, x: Tensor, p: float) -> None:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: only float dtypes, got {x.dtype.name}")
    if p < 0:
        raise RuntimeError(f"{op}: only non-negative p values, got {p}")


def _euclidean(x: Tensor, y: Tensor) -> Tensor:
    """Distances of rows as sqrt(|x|^2 + |y|^2 - 2 x y), through one product."""
    given, (x, y) = x.dtype, (wide(x), wide(y))
    squares_x = prim.sum(prim.square(x), (-1,), True)
    squares_y = transpose(prim.sum(prim.square(y), (-1,), True), -2, -1)
    total = squares_x + squares_y - 2.0 * prim.matmul(x, transpose(y, -2, -1))
    return to_dtype(_root(prim.where(prim.lt(total, 0.0), 0.0, total), 2), given)


_MODES = (
    "use_mm_for_euclid_dist_if_necessary",
    "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)


def cdist(
    x1: Tensor,
    x2: Tensor,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
) -> Tensor:
    """Distances of order ``p`` of all rows: [..., P, M] and [..., R, M] give [..., P, R].

    Batches broadcast. With p = 2 more than 25 rows go through a matrix product, which is faster
    and less exact for rows that are close; ``compute_mode`` asks for either.
    """
    _check_points("cdist", x1, p)
    if compute_mode not in _MODES:
        raise ValueError(f"cdist: {compute_mode!r} is not a valid value for compute_mode")
    if min(x1.dim(), x2.dim()) < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError(
            f"cdist: needs matrices with the same number of columns, got {tuple(x1.shape)} and "
            f"{tuple(x2.shape)}"
        )
    if x1.dtype is not x2.dtype:
        raise DTypeError(f"cdist: one dtype for both, got {x1.dtype.name} and {x2.dtype.name}")
    rows, others = x1.shape[-2], x2.shape[-2]
    product = compute_mode == _MODES[1] or (
        compute_mode == _MODES[0] and max(rows, others) > _USE_PRODUCT
    )
    if p == 2 and product:
        return _euclidean(x1, x2)
    lead = broadcast_shapes(tuple(x1.shape[:-2]), tuple(x2.shape[:-2]))
    if x1.shape[-1] == 0:
        none = prim.fill((*lead, rows, others), x1.dtype, 0.0, 0)
        return zero_gradient(zero_gradient(none, x1), x2)
    left = prim.reshape(wide(x1), (*x1.shape[:-1], 1, x1.shape[-1]))
    right = prim.reshape(wide(x2), (*x2.shape[:-2], 1, *x2.shape[-2:]))
    return to_dtype(p_norm(prim.sub(left, right), float(p), (-1,), False), x1.dtype)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances of order ``p`` of every pair of rows i < j, in that order: n (n - 1) / 2."""
    _check_points("pdist", input, p)
    if input.dim() != 2:
        raise ShapeError(f"pdist: needs a matrix, got shape {tuple(input.shape)}")
    n, columns = input.shape
    if n < 2 or columns == 0:
        return zero_gradient(prim.fill((n * (n - 1) // 2,), input.dtype, 0.0, 0), input)
    x = wide(input)
    differences = [
        prim.sub(prim.slice(x, 0, i, i + 1), prim.slice(x, 0, i + 1, n)) for i in range(n - 1)
    ]
    return to_dtype(p_norm(prim.cat(tuple(differences), 0), float(p), (1,), False), input.dtype)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Rows of powers ``x^(N-1), ..., x, 1`` of the elements of a vector, or from 1 upwards; N is
    the number of elements by default."""
    if x.dim() != 1:
        raise RuntimeError(f"vander: x must be a vector, got shape {tuple(x.shape)}")
    columns = x.numel() if N is None else N
    if columns < 0:
        raise RuntimeError(f"vander: N must not be negative, got {columns}")
    powers = _powers(x, columns)
    return powers if increasing else prim.flip(powers, (1,))


def _powers(x: Tensor, columns: int) -> Tensor:
    """A new last dimension of the powers ``1, x, x^2, ...``."""
    kind = x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else int64
    last, shape = x.dim(), tuple(x.shape)
    powers = prim.fill((*shape, min(columns, 1)), kind, 1.0, 1, 0.0, x.device)
    if columns > 1:
        base = prim.reshape(to_dtype(x, kind), (*shape, 1))
        factors = prim.expand(base, (*shape, columns - 1))
        powers = prim.cat((powers, prim.cumprod(factors, last)), last)
    return powers


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows of powers ``1, x, ..., x^(N-1)`` of the elements of vectors [..., n]; N is n by
    default, and at least 2."""
    if x.dtype.name == "bool":
        raise DTypeError("linalg.vander: x must be numbers, got bool")
    if x.dim() == 0:
        x = prim.reshape(x, (1,))
    columns = x.shape[-1] if N is None else N
    if columns < 2:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {columns}")
    return _powers(x, columns)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (kron, cross, matrix_power, chain_matmul, cdist, pdist, vander)
}
