"""Products of vectors and matrices."""

from __future__ import annotations

from typing import Any

from tinyt._core import ShapeError
from tinyt.ops.common import Number
from tinyt.tensor import Tensor, method, prim


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product of the last two dimensions, batches broadcast; vectors as NumPy does."""
    return prim.matmul(input, other, out=out)


def _need(op: str, name: str, x: Tensor, rank: int) -> None:
    if x.dim() != rank:
        raise ShapeError(f"{op}: {name} must be {rank}-d, got shape {tuple(x.shape)}")


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices."""
    _need("mm", "input", input, 2)
    _need("mm", "mat2", mat2, 2)
    return prim.matmul(input, mat2, out=out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of two batches of matrices."""
    _need("bmm", "input", input, 3)
    _need("bmm", "mat2", mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(
            f"bmm: batch sizes must agree, got {tuple(input.shape)} and {tuple(mat2.shape)}"
        )
    return prim.matmul(input, mat2, out=out)


@method
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector."""
    _need("mv", "input", input, 2)
    _need("mv", "vec", vec, 1)
    return prim.matmul(input, vec)


@method
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors."""
    _need("dot", "input", input, 1)
    _need("dot", "tensor", tensor, 1)
    return prim.matmul(input, tensor)


@method
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of the elements of two vectors."""
    _need("outer", "input", input, 1)
    _need("outer", "vec2", vec2, 1)
    return prim.mul(prim.reshape(input, (input.numel(), 1)), vec2)


@method
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``."""
    product = mm(mat1, mat2)
    scaled = product if alpha == 1 else product * alpha
    return scaled if beta == 0 else scaled + (input if beta == 1 else input * beta)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: [..., in] with weight [out, in] gives [..., out]."""
    if weight.dim() != 2:
        raise ShapeError(f"linear: weight must be 2-d, got shape {tuple(weight.shape)}")
    if input.dim() == 0 or input.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear: the last dimension must match weight's, got input {tuple(input.shape)} and "
            f"weight {tuple(weight.shape)}"
        )
    out = prim.matmul(input, prim.permute(weight, (1, 0)))
    return out if bias is None else out + bias


EXPORTS: dict[str, Any] = {f.__name__: f for f in (matmul, mm, bmm, mv, dot, outer, addmm, linear)}
