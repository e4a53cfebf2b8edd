"""Matrices with orthonormal columns as functions of matrices without a rule (Lezcano-Casado 2019,
"Trivializations for gradient-based optimization on manifolds").

Sources of the formulas: Golub & Van Loan, "Matrix computations", 4th ed., 5.1 (reflectors) and 9.3
(the exponential by scaling and squaring); Paterson & Stockmeyer 1973 (polynomials of matrices).
"""

# ruff: noqa: D102
# (forward and right_inverse are described by the class.)

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinyt.autograd import no_grad
from tinyt.dtypes import finfo
from tinyt.nn.module import Module
from tinyt.ops import allclose, as_tensor, cat, eye, randn, where, zeros_like
from tinyt.tensor import Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAPS = ("matrix_exp", "cayley", "householder")
_SQUARINGS = 12  # enough for row sums of 2048; a program cannot decide by values
_TERMS = 16


def exponential(a: Tensor) -> Tensor:
    """exp(A) of square matrices (..., n, n): a polynomial of A over a power of 2 that makes its
    column sums at most 1/2, squared as often."""
    n = a.shape[-1]
    size = a.detach().abs().sum(-2, keepdim=True).amax(-1, keepdim=True)
    halvings = (size.clamp(min=0.5).log2().ceil() + 1).clamp(max=_SQUARINGS)
    x = a * (-halvings).exp2()
    one = eye(n, dtype=a.dtype, device=a.device)
    powers = [one, x, x @ x]
    powers.append(powers[2] @ x)
    fourth = powers[2] @ powers[2]
    result: Tensor | None = None
    for first in range(_TERMS - 4, -1, -4):
        part = sum(
            (powers[k] * (1 / math.factorial(first + k)) for k in range(1, 4)),
            one * (1 / math.factorial(first)),
        )
        result = part if result is None else result @ fourth + part
    assert result is not None
    for k in range(_SQUARINGS):
        result = where(halvings > k, result @ result, result)
    return result


def reflected(below: Tensor) -> Tensor:
    """The first k columns of the product of k reflectors I - tau v vᵀ of n elements: column i of
    `below` (..., n, k) is v beneath its element i, which is 1, and tau = 2 / vᵀv."""
    n, k = below.shape[-2:]
    factors = 2.0 / (1.0 + (below * below).sum(-2))
    vectors = below + eye(n, k, dtype=below.dtype, device=below.device)
    q = eye(n, k, dtype=below.dtype, device=below.device).expand(tuple(below.shape))
    for i in reversed(range(k)):
        v = vectors[..., i : i + 1]
        q = q - factors[..., i, None, None] * (v @ (v.mT @ q))
    return q


def _array(x: Tensor) -> NDArray[Any]:
    return x.detach().contiguous().numpy(force=True)


def orthonormal(a: Tensor) -> Tensor:
    """The Q of A = Q R with a diagonal of R that is not negative."""
    import numpy as np

    q, r = np.linalg.qr(_array(a))
    signs = np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return as_tensor(np.ascontiguousarray(q * signs)).to(a)


def _as_reflectors(q: Tensor) -> Tensor:
    """Reflectors beneath the diagonal, and on it the signs, of a matrix of orthonormal columns."""
    import numpy as np

    packed, factors = np.linalg.qr(_array(q), mode="raw")
    packed = np.ascontiguousarray(np.swapaxes(packed, -1, -2))
    i = np.arange(packed.shape[-1])
    signs = np.sign(packed[..., i, i])
    packed[..., i, i] = np.where(factors == 0, -signs, signs)
    return as_tensor(packed).to(q)


def _is_orthonormal(q: Tensor) -> bool:
    n, k = q.shape[-2:]
    margin = 10.0 * n * finfo(q.dtype).eps
    product = q.mT @ q
    return allclose(
        product, eye(k, dtype=q.dtype, device=q.device).expand(tuple(product.shape)), atol=margin
    )


class Orthogonal(Module):
    """The parametrization: (..., n, k) to orthonormal columns, or rows where n < k."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        self.shape = tuple(weight.shape)
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def _get_name(self) -> str:
        return "_Orthogonal"

    def forward(self, x: Tensor) -> Tensor:
        is_wide = x.shape[-2] < x.shape[-1]
        x = x.mT if is_wide else x
        n, k = x.shape[-2:]
        if self.orthogonal_map == "matrix_exp":
            lower = x.tril()
            if n != k:
                rest = x.new_zeros((*x.shape[:-1], n - k))
                lower = cat([lower, rest], -1)
            q = exponential(lower - lower.mT)[..., :k]
        else:
            signs = x.detach().diagonal(0, -2, -1).trunc()
            q = reflected(x.tril(-1)) * signs[..., None, :]
        if self.use_trivialization:
            assert self.base is not None
            q = self.base @ q
        return q.mT if is_wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        if tuple(q.shape) != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of "
                f"shape {tuple(q.shape)}."
            )
        with no_grad():
            is_wide = q.shape[-2] < q.shape[-1]
            tall = q.mT if is_wide else q
            n, k = tall.shape[-2:]
            if not self.use_trivialization:
                if self.orthogonal_map != "householder":
                    raise NotImplementedError(
                        "It is not possible to assign to the matrix exponential or the Cayley "
                        "parametrizations when use_trivialization=False."
                    )
                packed = _as_reflectors(tall)
                return packed.mT if is_wide else packed
            if n != k:
                drawn = randn((*tall.shape[:-1], n - k), dtype=q.dtype, device=q.device)
                base = orthonormal(cat([tall, drawn], -1))
            else:
                base = tall.clone() if _is_orthonormal(tall) else orthonormal(tall)
            self.base = base
            start = zeros_like(q)
            start.diagonal(0, -2, -1).fill_(-1.0)
            return start
