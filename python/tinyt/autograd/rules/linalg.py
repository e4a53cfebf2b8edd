"""Gradient rules of factors of matrices and of draws with parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tinyt.autograd.rules.common import OUT, rule, wide_rule
from tinyt.tensor import prim

if TYPE_CHECKING:
    from tinyt._autograd import Node
    from tinyt.tensor import Tensor


def _transposed(x: Tensor) -> Tensor:
    rank = x.dim()
    return prim.permute(x, (*range(rank - 2), rank - 1, rank - 2))


def _triangle(x: Tensor, upper: bool, diagonal: float) -> Tensor:
    """One triangle of matrices, and the diagonal times a factor."""
    n = x.shape[-1]
    column = prim.iota(n, 5, 0.0, 0.0, 0, 1)
    row = prim.reshape(column, (n, 1))
    inside = prim.gt(column, row) if upper else prim.lt(column, row)
    on = prim.where(prim.eq(column, row), x * diagonal, 0.0)
    return prim.where(inside, x, on)


def cholesky_grad(g: Tensor, n: Node) -> Tensor:
    """L^-T P L^-1, made symmetric, P the lower triangle of Lᵀ G with half its diagonal (Murray,
    "Differentiation of the Cholesky decomposition", 2016)."""
    factor = n.output()
    upper = _transposed(factor)
    inner = _triangle(prim.matmul(upper, g), False, 0.5)
    left = prim.solve_triangular(upper, inner, True, False)
    found = _transposed(prim.solve_triangular(upper, _transposed(left), True, False))
    return (found + _transposed(found)) * 0.5


def _right_side(g: Tensor, n: Node) -> Tensor:
    """A^-T G."""
    upper, unit = n.attrs
    return prim.solve_triangular(_transposed(n.input(0)), g, not upper, unit)


def _matrix(g: Tensor, n: Node) -> Tensor:
    """The triangle of -A^-T G Xᵀ."""
    upper, unit = n.attrs
    product = prim.matmul(-_right_side(g, n), _transposed(n.output()))
    return _triangle(product, bool(upper), 0.0 if unit else 1.0)


def dirichlet_grad(g: Tensor, n: Node) -> Tensor:
    """Each entry's concentration moves it against all others, which shrink alike."""
    concentration, x = n.input(0), n.output()
    total = prim.expand(prim.sum(concentration, (-1,), True), tuple(x.shape))
    slope = prim.dirichlet_grad(x, concentration, total)
    return slope * (g - prim.sum(g * x, (-1,), True))


rule("cholesky", (cholesky_grad, OUT))
rule("solve_triangular", (_matrix, 0, OUT), (_right_side, 0))
wide_rule(
    "standard_gamma",
    (lambda g, n: g * prim.standard_gamma_grad(n.input(0), n.output()), 0, OUT),
)
wide_rule("dirichlet", (dirichlet_grad, 0, OUT))
