"""Products of vectors and matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinyt._autograd import zero_gradient
from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import require_held
from tinyt.dtypes import bfloat16, float16, float32
from tinyt.ops.common import Number, in_float32, renamed, write_out
from tinyt.tensor import Tensor, method, prim


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product of the last two dimensions, batches broadcast; vectors as NumPy does."""
    return prim.matmul(input, other, out=out)


# As users call it: `autocast` lowers the products inside other operations, too.
public_matmul = renamed(matmul)


def _need(op: str, name: str, x: Tensor, rank: int) -> None:
    if x.dim() != rank:
        raise ShapeError(f"{op}: {name} must be {rank}-d, got shape {tuple(x.shape)}")


def _need_batches(op: str, x: Tensor, y: Tensor) -> None:
    _need(op, "batch1", x, 3)
    _need(op, "batch2", y, 3)
    if x.shape[0] != y.shape[0]:
        raise ShapeError(f"{op}: batch sizes must agree, got {tuple(x.shape)} and {tuple(y.shape)}")


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two matrices."""
    _need("mm", "input", input, 2)
    _need("mm", "mat2", mat2, 2)
    return prim.matmul(input, mat2, out=out)


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of two int8 matrices in int32, which wraps."""
    return prim.int_mm(input, mat2, out=out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of two batches of matrices."""
    _need_batches("bmm", input, mat2)
    return prim.matmul(input, mat2, out=out)


@method
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product of a matrix and a vector."""
    _need("mv", "input", input, 2)
    _need("mv", "vec", vec, 1)
    return prim.matmul(input, vec, out=out)


@method
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inner product of two vectors."""
    _need("dot", "input", input, 1)
    _need("dot", "tensor", tensor, 1)
    return prim.matmul(input, tensor, out=out)


@method
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inner product of two vectors, the first one conjugated."""
    _need("vdot", "input", input, 1)
    _need("vdot", "other", other, 1)
    left = prim.conj_physical(input) if input.dtype.is_complex else input
    return prim.matmul(left, other, out=out)


@method
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """All products of the elements of two vectors."""
    _need("outer", "input", input, 1)
    _need("outer", "vec2", vec2, 1)
    return prim.mul(prim.reshape(input, (input.numel(), 1)), vec2, out=out)


@method
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Alias of :func:`outer`."""
    return outer(input, vec2, out=out)


@method
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions: [..., k] and [*, k] give [..., *]."""
    if input.dim() == 0 or other.dim() == 0:
        return prim.mul(input, other, out=out)
    left, right = tuple(input.shape), tuple(other.shape)
    if left[-1] != right[-1]:
        raise ShapeError(f"inner: the last dimensions must agree, got {left} and {right}")
    if len(left) == len(right) == 1:
        return prim.matmul(input, other, out=out)
    rows = prim.reshape(input, (math.prod(left[:-1]), left[-1]))
    columns = prim.reshape(other, (math.prod(right[:-1]), right[-1]))
    product = public_matmul(rows, prim.permute(columns, (1, 0)))
    return write_out(out, prim.reshape(product, left[:-1] + right[:-1]))


# ---- beta * input + alpha * product


def _check_scale(op: str, input: Tensor, beta: Number, alpha: Number) -> None:
    if input.dtype.is_floating_point or input.dtype.is_complex:
        return
    for name, value in (("beta", beta), ("alpha", alpha)):
        if isinstance(value, float):
            raise RuntimeError(
                f"{op}: for integral inputs {name} must not be a floating point number, got {value}"
            )
        require_held(op, value, input.dtype)


def _scaled_sum(
    op: str, input: Tensor, product: Tensor, beta: Number, alpha: Number, out: Tensor | None
) -> Tensor:
    """``beta * input + alpha * product``; with ``beta == 0`` input's values are not looked at."""
    shape, have = tuple(product.shape), tuple(input.shape)
    fits = len(have) <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(have), reversed(shape), strict=False)
    )
    if not fits:
        raise ShapeError(f"{op}: input {have} does not expand to the product's shape {shape}")
    scaled = product if alpha == 1 else prim.mul(product, alpha)
    if beta == 0:
        return write_out(out, zero_gradient(scaled, input))
    return prim.add(scaled, input if beta == 1 else prim.mul(input, beta), out=out)


def _product_and(
    op: str, input: Tensor, a: Tensor, b: Tensor, beta: Number, alpha: Number, out: Tensor | None
) -> Tensor:
    """``beta * input + alpha * (a @ b)``, in one pass where nothing is scaled."""
    if beta == 1 and alpha == 1:
        return prim.matmul_add(a, b, input, out=out)
    return _scaled_product(op, prim.matmul, input, a, b, beta, alpha, out)


def _scaled_product(
    op: str,
    multiply: Callable[[Tensor, Tensor], Tensor],
    input: Tensor,
    a: Tensor,
    b: Tensor,
    beta: Number,
    alpha: Number,
    out: Tensor | None,
) -> Tensor:
    """``beta * input + alpha * multiply(a, b)``; of halves in float32, rounded once."""
    half = input.dtype
    if half not in (float16, bfloat16) or not a.dtype is b.dtype is half:
        return _scaled_sum(op, input, multiply(a, b), beta, alpha, out)
    wide, *factors = [prim.cast(x, float32) for x in (input, a, b)]
    total = _scaled_sum(op, wide, multiply(*factors), beta, alpha, None)
    return write_out(out, prim.cast(total, half))


def _need_same_dtype(op: str, input: Tensor, other: Tensor) -> None:
    if input.dtype is not other.dtype:
        raise DTypeError(
            f"{op}: input and the factors must have one dtype, got {input.dtype.name} and "
            f"{other.dtype.name}"
        )


@method
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``; input is broadcast."""
    _check_scale("addmm", input, beta, alpha)
    _need_same_dtype("addmm", input, mat1)
    _need("addmm", "mat1", mat1, 2)
    _need("addmm", "mat2", mat2, 2)
    return _product_and("addmm", input, mat1, mat2, beta, alpha, out)


@method
def addmm_(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """:func:`addmm` in place."""
    return self._assign(addmm(self, mat1, mat2, beta=beta, alpha=alpha))


@method
def addmv(
    input: Tensor,
    mat: Tensor,
    vec: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``; input is broadcast."""
    _check_scale("addmv", input, beta, alpha)
    _need_same_dtype("addmv", input, mat)
    _need("addmv", "mat", mat, 2)
    _need("addmv", "vec", vec, 1)
    return _product_and("addmv", input, mat, vec, beta, alpha, out)


@method
def addmv_(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """:func:`addmv` in place."""
    return input._assign(addmv(input, mat, vec, beta=beta, alpha=alpha))


@method
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``; input is broadcast."""
    _check_scale("addr", input, beta, alpha)
    if input.dtype.name == vec1.dtype.name == vec2.dtype.name == "bool":  # stays bool
        beta, alpha = bool(beta), bool(alpha)
    return _scaled_product("addr", outer, input, vec1, vec2, beta, alpha, out)


@method
def addr_(
    self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """:func:`addr` in place."""
    return self._assign(addr(self, vec1, vec2, beta=beta, alpha=alpha))


@method
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``; input is broadcast."""
    _check_scale("baddbmm", input, beta, alpha)
    _need_same_dtype("baddbmm", input, batch1)
    _need_batches("baddbmm", batch1, batch2)
    return _product_and("baddbmm", input, batch1, batch2, beta, alpha, out)


@method
def baddbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """:func:`baddbmm` in place."""
    return self._assign(baddbmm(self, batch1, batch2, beta=beta, alpha=alpha))


def _side_by_side(batch1: Tensor, batch2: Tensor) -> tuple[Tensor, Tensor]:
    """Factors [n, b * k] and [b * k, m] whose product is the sum of the batch's products."""
    _need_batches("addbmm", batch1, batch2)
    b, n, k = batch1.shape
    if batch2.shape[1] != k:
        raise ShapeError(
            f"addbmm: inner dimensions must agree, got {tuple(batch1.shape)} @ "
            f"{tuple(batch2.shape)}"
        )
    wide = prim.reshape(prim.permute(batch1, (1, 0, 2)), (n, b * k))
    return wide, prim.reshape(batch2, (b * k, batch2.shape[2]))


@method
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * sum of batch1[i] @ batch2[i]``; input is broadcast."""
    _check_scale("addbmm", input, beta, alpha)
    _need_same_dtype("addbmm", input, batch1)
    factors = _side_by_side(batch1, batch2)
    return _product_and("addbmm", input, *factors, beta, alpha, out)


@method
def addbmm_(
    self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1
) -> Tensor:
    """:func:`addbmm` in place."""
    return self._assign(addbmm(self, batch1, batch2, beta=beta, alpha=alpha))


# ---- layers


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``input @ weight.T + bias``: [..., in] with weight [out, in] gives [..., out].

    A 1-d weight [in] is one output without a dimension of its own: [...].
    """
    if weight.dim() not in (1, 2):
        raise ShapeError(f"linear: weight must be 1-d or 2-d, got shape {tuple(weight.shape)}")
    if input.dim() == 0 or input.shape[-1] != weight.shape[-1]:
        raise ShapeError(
            f"linear: the last dimension must match weight's, got input {tuple(input.shape)} and "
            f"weight {tuple(weight.shape)}"
        )
    if weight.dim() == 2:
        if bias is None:
            return prim.linear(input, weight, prim.fill((), input.dtype, 0.0, 0), out=out)
        if bias.shape == weight.shape[:1] and bias.dtype is input.dtype:
            return prim.linear(input, weight, bias, out=out)
    columns = weight if weight.dim() == 1 else prim.permute(weight, (1, 0))
    if bias is None:
        return prim.matmul(input, columns, out=out)
    if bias.dtype is not input.dtype:
        raise DTypeError(
            f"linear: input and bias must have one dtype, got {input.dtype.name} and "
            f"{bias.dtype.name}"
        )
    shape = (*input.shape[:-1], *weight.shape[:-1])
    if len(bias.shape) <= len(shape) and all(
        n in (1, m) for n, m in zip(reversed(bias.shape), reversed(shape), strict=False)
    ):
        return prim.matmul_add(input, columns, bias, out=out)
    return prim.add(prim.matmul(input, columns), bias, out=out)


@in_float32
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x1 @ weight[o] @ x2 + bias[o]``: [..., in1] and [..., in2] give [..., out]."""
    _need("bilinear", "weight", weight, 3)
    lead, (outs, ins1, ins2) = tuple(input1.shape[:-1]), weight.shape
    if lead != tuple(input2.shape[:-1]) or (input1.shape[-1], input2.shape[-1]) != (ins1, ins2):
        raise ShapeError(
            f"bilinear: inputs {tuple(input1.shape)} and {tuple(input2.shape)} do not fit each "
            f"other and weight {tuple(weight.shape)}"
        )
    rows = math.prod(lead)
    columns = prim.reshape(prim.permute(weight, (1, 0, 2)), (ins1, outs * ins2))
    left = prim.reshape(
        prim.matmul(prim.reshape(input1, (rows, ins1)), columns), (rows, outs, ins2)
    )
    product = prim.matmul(left, prim.reshape(input2, (rows, ins2, 1)))
    result = prim.reshape(product, (*lead, outs))
    return result if bias is None else result + bias


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        matmul, mm, bmm, mv, dot, vdot, outer, ger, inner,
        addmm, addmv, addr, baddbmm, addbmm, bilinear, _int_mm,
    )
}  # fmt: skip
FUNCTIONAL: dict[str, Any] = {"linear": linear}
