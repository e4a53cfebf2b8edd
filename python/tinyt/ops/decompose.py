"""Every fused row of the op table in primitives: the oracle of its kernel, and its fallback on
devices without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt.autograd.rules import activation
from tinyt.autograd.rules.common import widen
from tinyt.autograd.rules.fused import class_shares, cross_entropy_slopes
from tinyt.dtypes import int32
from tinyt.ops.linalg.matrix import composed_norm
from tinyt.ops.nn.attention import DECOMPOSE as ATTENTION
from tinyt.ops.nn.norm import DECOMPOSE as NORMS
from tinyt.ops.nn.recurrent import DECOMPOSE as RECURRENT
from tinyt.ops.reduce.statistics import composed_variance, deviation
from tinyt.tensor import Tensor, prim


def gelu(x: Tensor) -> Tensor:
    """x Phi(x)."""
    return x * 0.5 * prim.erfc(x * -math.sqrt(0.5))


def gelu_tanh(x: Tensor) -> Tensor:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    linear, cubic = activation.GELU_TANH
    return x * 0.5 * (prim.tanh(x * (prim.square(x) * cubic + 1.0) * linear) + 1.0)


def silu(x: Tensor) -> Tensor:
    """x sigmoid(x)."""
    return x * prim.sigmoid(x)


def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x))."""
    return x * prim.tanh(softplus(x, 1.0, 20.0))


def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x))."""
    return prim.clamp_max(x, 0.0) - prim.log1p(prim.exp(-prim.abs(x)))


def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return prim.clamp(x + 3.0, 0.0, 6.0) / 6.0


def hardswish(x: Tensor) -> Tensor:
    """x min(max(x + 3, 0), 6) / 6."""
    return x * hardsigmoid(x)


def leaky_relu(x: Tensor, negative_slope: Tensor | float) -> Tensor:
    """x where positive, else ``negative_slope`` x."""
    return prim.where(x > 0.0, x, x * negative_slope)


def elu(x: Tensor, alpha: Tensor | float) -> Tensor:
    """x where positive, else alpha (e^x - 1); the exponential never sees a large argument."""
    positive = x > 0.0
    return prim.where(positive, x, prim.expm1(prim.where(positive, 0.0, x)) * alpha)


def softplus(x: Tensor, beta: Tensor | float, threshold: Tensor | float) -> Tensor:
    """log(1 + e^(beta x)) / beta; x where beta x is above the threshold."""
    scaled = x * beta
    linear = scaled > threshold
    return prim.where(linear, x, prim.log1p(prim.exp(prim.where(linear, 0.0, scaled))) / beta)


def sigmoid_nll(x: Tensor, target: Tensor) -> Tensor:
    """(1 - t) x - log(sigmoid(x)), which is -t x - log(sigmoid(-x)) where x is negative."""
    slope = prim.where(x < 0.0, -target, 1.0 - target)
    return slope * x + prim.log1p(prim.exp(-prim.abs(x)))


def softmax_nll(
    x: Tensor, target: Tensor, weight: Tensor, ignored: int, reduction: int
) -> tuple[Tensor, Tensor]:
    """The loss; then maximum and log-sum of each row that counts, and the sum of the weights."""
    wide, dim = widen(x), 1 if x.dim() > 1 else 0
    part = weight if weight.dim() else None
    index, weights = class_shares(wide, target, part, ignored)
    top = prim.amax(wide, (dim,), True)
    log_sum = prim.log(prim.sum(prim.exp(wide - top), (dim,), True))
    used = prim.reshape(prim.ne(target, ignored), index.shape)
    value = prim.gather(wide, index, dim)
    losses = prim.where(used, log_sum - (value - top), 0.0) * weights
    total = prim.sum(weights, (), False)
    if reduction:
        loss = prim.sum(losses, (), False)
        loss = loss / total if reduction == 1 else loss
    else:
        loss = prim.reshape(losses, target.shape)
    rows = [prim.reshape(prim.where(used, part, 0.0), (-1, 1)) for part in (top, log_sum)]
    flat = prim.reshape(prim.cat(tuple(rows), 1), (-1,))
    stats = prim.cat((flat, prim.cast(prim.reshape(total, (1,)), flat.dtype)), 0)
    return prim.cast(loss, x.dtype), stats


def softmax_nll_input(
    g: Tensor,
    x: Tensor,
    target: Tensor,
    weight: Tensor,
    stats: Tensor,
    ignored: int,
    reduction: int,
) -> Tensor:
    """The gradient of the logits; it needs no statistics."""
    part = weight if weight.dim() else None
    return cross_entropy_slopes(g, x, target, part, ignored, reduction)


def _rounded_once(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Halves are computed in float32."""

    def call(x: Tensor, *parameters: Tensor | float) -> Tensor:
        return prim.cast(function(widen(x), *parameters), x.dtype)

    return call


def nansum(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """The sum of what is a number."""
    return prim.sum(prim.where(prim.isnan(x), 0.0, x), dims, keepdim)


def norm(x: Tensor, dims: tuple[int, ...], keepdim: bool, p: float) -> Tensor:
    """Vector norms."""
    return composed_norm(x, p, dims, keepdim)


def var(
    x: Tensor, dims: tuple[int, ...], keepdim: bool, correction: float, root: bool = False
) -> Tensor:
    """The variance, in two passes, or its root."""
    found = composed_variance(widen(x), dims, keepdim, correction)
    return prim.cast(deviation(found) if root else found, x.dtype)


def logsumexp(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    """log(sum(exp(x))), shifted by the largest value so that nothing overflows."""
    wide = widen(x)
    if x.numel() == 0:
        return prim.cast(prim.log(prim.sum(wide, dims, keepdim)), x.dtype)
    top = prim.amax(wide.detach(), dims, True)
    top = prim.where(prim.isfinite(top), top, 0.0)
    total = prim.log(prim.sum(prim.exp(wide - top), dims, keepdim))
    return prim.cast(total + prim.reshape(top, tuple(total.shape)), x.dtype)


def int_mm(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in int32."""
    return prim.matmul(prim.cast(a, int32), prim.cast(b, int32))


def matmul_add(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """a @ b + c; halves are rounded once."""
    if a.dtype.is_floating_point:
        return prim.cast(prim.matmul(widen(a), widen(b)) + widen(c), a.dtype)
    return prim.matmul(a, b) + c


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A product with the transposed weight; a 0-d bias is none."""
    columns = prim.permute(weight, (1, 0))
    return matmul_add(x, columns, bias) if bias.dim() else prim.matmul(x, columns)


def sum_squares(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of squares of each tensor, side by side."""
    sums = [prim.sum(prim.square(x), tuple(range(x.dim())), False) for x in tensors]
    return prim.cat(tuple(prim.reshape(x, (1,)) for x in sums), 0)


_ACTIVATIONS = (
    gelu, gelu_tanh, silu, mish, logsigmoid, hardsigmoid, hardswish, leaky_relu, elu, softplus,
    sigmoid_nll,
)  # fmt: skip

DECOMPOSE: dict[str, Callable[..., Any]] = {
    **NORMS,
    "matmul_add": matmul_add,
    "int_mm": int_mm,
    **ATTENTION,
    **RECURRENT,
    "linear": linear,
    "nansum": nansum,
    "norm": norm,
    "var": var,
    "logsumexp": logsumexp,
    "sum_squares": sum_squares,
    "softmax_nll": softmax_nll,
    "softmax_nll_input": softmax_nll_input,
    **{f.__name__: _rounded_once(f) for f in _ACTIVATIONS},
    **{f"{name}_backward": activation.backward(name) for name in activation.SLOPES},
}
