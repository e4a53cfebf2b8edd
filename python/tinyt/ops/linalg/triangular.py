"""Cholesky factors and systems of triangular matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinyt._core import is_recording
from tinyt.ops.common import named, need_tensor, write_out
from tinyt.ops.results import returned
from tinyt.return_types import FactorInfo
from tinyt.tensor import Tensor, method, prim


class LinAlgError(RuntimeError):
    """A matrix for which a function of linear algebra has no result."""


def _transposed(x: Tensor) -> Tensor:
    rank = x.dim()
    return prim.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def _factor(op: str, A: Tensor, upper: bool, check: bool) -> tuple[Tensor, Tensor]:
    """The factor of either triangle, and how far each factorisation came."""
    x = need_tensor(op, A)
    factor, info = prim.cholesky(_transposed(x) if upper else x)
    if check and not is_recording():
        _check(op, info)
    return _transposed(factor) if upper else factor, info


def _check(op: str, info: Tensor) -> None:
    """LinAlgError with the first matrix that has no factor."""
    orders = info.reshape((-1,)).tolist()
    for batch, order in enumerate(orders):
        if order:
            where = f"(Batch element {batch}): " if info.dim() else ""
            raise LinAlgError(
                f"{op}: {where}The factorization could not be completed because the input is not "
                f"positive-definite (the leading minor of order {order} is not positive-definite)."
            )


@named
def linalg_cholesky(input: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The factor L, lower-triangular with a positive diagonal, of ``input = L Lᵀ``; with ``upper``
    its transpose.

    input: [..., n, n], float32 or float64, symmetric: one triangle is read, the lower one unless
    ``upper``. LinAlgError where a matrix is not positive-definite; in a program there is no look
    at the values, and its factor is NaN.

    >>> tinyt.linalg.cholesky(tinyt.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return write_out(out, _factor("linalg.cholesky", input, upper, True)[0])


@named
def linalg_cholesky_ex(
    input: Tensor,
    *,
    upper: bool = False,
    check_errors: bool = False,
    out: Sequence[Tensor] | None = None,
) -> FactorInfo:
    """:func:`linalg_cholesky`, and in the place of its error ``info``, int32 [...]: 0, or the order
    of the first leading minor that is not positive (the factor is NaN then)."""
    found = _factor("linalg.cholesky_ex", input, upper, check_errors)
    return returned(FactorInfo, "linalg_cholesky_ex", out, found)


@method
def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The old name of ``linalg.cholesky``."""
    return write_out(out, _factor("cholesky", input, upper, True)[0])


def _batched(op: str, A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both as batches of one shape."""
    for x in (A, B):
        if need_tensor(op, x).dim() < 2:
            raise RuntimeError(f"{op}: needs matrices, got shape {tuple(x.shape)}")
    a, b = tuple(A.shape[:-2]), tuple(B.shape[:-2])
    if a == b:
        return A, B
    batch = tuple(prim.add(prim.fill(a, 1, 0.0, 0), prim.fill(b, 1, 0.0, 0)).shape)
    return (
        prim.expand(A, (*batch, *A.shape[-2:])),
        prim.expand(B, (*batch, *B.shape[-2:])),
    )


@named
def linalg_solve_triangular(
    input: Tensor,
    B: Tensor,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """X of ``A X = B`` (``X A = B`` without ``left``) of a triangular A, ``input``, by
    substitution.

    input: [..., n, n], B: [..., n, k] ([..., k, n]), batches broadcast; float32 or float64. The
    other triangle is not read, nor is the diagonal where ``unitriangular`` says it is ones.

    >>> A = tinyt.tensor([[2.0, 0.0], [1.0, 1.0]])
    >>> tinyt.linalg.solve_triangular(A, tinyt.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    A, B = _batched("linalg.solve_triangular", input, B)
    if left:
        return write_out(out, prim.solve_triangular(A, B, upper, unitriangular))
    solved = prim.solve_triangular(_transposed(A), _transposed(B), not upper, unitriangular)
    return write_out(out, _transposed(solved))


@method
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """X of ``A X = input`` from the Cholesky factor ``input2`` of A; batches broadcast."""
    factor, b = _batched("cholesky_solve", input2, input)
    lower = _transposed(factor) if upper else factor
    half = prim.solve_triangular(lower, b, False, False)
    return write_out(out, prim.solve_triangular(_transposed(lower), half, True, False))


@method
def cholesky_inverse(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A from its Cholesky factor, [..., n, n]."""
    x = need_tensor("cholesky_inverse", input)
    n = x.shape[-1]
    column = prim.iota(n, 5, 0.0, 0.0, 0, 1)
    eye = prim.cast(prim.eq(column, prim.reshape(column, (n, 1))), x.dtype)
    return write_out(out, cholesky_solve(prim.expand(eye, tuple(x.shape)), x, upper))


EXPORTS: dict[str, Any] = {f.__name__: f for f in (cholesky, cholesky_solve, cholesky_inverse)}
