"""Activation functions: any shape in, the same shape out (``glu`` halves one dimension).

Gradients where a function bends are PyTorch's. float16 and bfloat16 are computed in float32 and
rounded once. The frequent functions are one kernel each, forward and backward. ``inplace=True`` and
the forms named ``name_`` write the result over the input; its old values are kept for backward
where a gradient needs them.
"""

from __future__ import annotations

import warnings
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt._tensor import dtype as DType
from tinyt._tensor import require_held
from tinyt.ops.common import (
    Number,
    is_half,
    is_recorded,
    overwrite,
    power_series,
    renamed,
    to_dtype,
    wide,
    with_gradient_of,
    wrap_dim,
    write_out,
)
from tinyt.ops.creation.filled import empty_like, ones_like, zeros_like
from tinyt.ops.random.draws import draw_uniform
from tinyt.random import Generator
from tinyt.tensor import Tensor, method, prim

# Klambauer et al., "Self-Normalizing Neural Networks" (2017), for mean 0 and variance 1.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _floats(op: str, input: Tensor) -> Tensor:
    """The input, halves as float32; DTypeError for integers and bool."""
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {input.dtype.name}")
    return wide(input)


def _number(op: str, like: Tensor, value: Number) -> Number:
    """A bound in the kind of the tensor's dtype, so that integers stay integers; RuntimeError
    where it cannot hold the bound."""
    if like.dtype.is_floating_point:
        return value
    require_held(op, value, like.dtype)
    return int(value)


# ---- rectifiers


@renamed  # nn.functional has its own, beside the primitive
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0); a NaN stays."""
    return input.relu_() if inplace else prim.relu(input)


def relu_(input: Tensor) -> Tensor:
    """:func:`relu` in place."""
    return input.relu_()


def threshold(
    input: Tensor,
    threshold: float,
    value: float,
    inplace: bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """x above ``threshold``, else ``value``."""
    if inplace:
        return threshold_(input, threshold, value)
    below = prim.le(input, _number("threshold", input, threshold))
    return prim.where(below, _number("threshold", input, value), input, out=out)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """:func:`threshold` in place."""
    return overwrite(input, _threshold, threshold, value)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """x limited to [min_val, max_val]; no gradient at the limits themselves."""
    if inplace:
        return hardtanh_(input, min_val, max_val)
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val must not exceed max_val, got {min_val} > {max_val}")
    if input.dtype.name == "bool":
        raise DTypeError("hardtanh: not defined for dtype bool")
    if input.dtype.name == "uint8" and min_val < 0:
        raise RuntimeError(f"hardtanh: uint8 has no negative limits, got min_val {min_val}")
    low, high = (_number("hardtanh", input, v) for v in (min_val, max_val))
    return prim.where(prim.le(input, low), low, prim.where(prim.ge(input, high), high, input))


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """:func:`hardtanh` in place."""
    return overwrite(input, hardtanh, min_val, max_val)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh_(input, 0.0, 6.0) if inplace else hardtanh(input, 0.0, 6.0)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else ``negative_slope * x`` (Maas et al., 2013)."""
    return prim.leaky_relu(input, negative_slope, out=input if inplace else None)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """:func:`leaky_relu` in place."""
    return prim.leaky_relu(input, negative_slope, out=input)


@method
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x where positive, else ``weight * x`` (He et al., 2015).

    ``weight`` has one element, or one for each channel (dimension 1).
    """
    x = _floats("prelu", input)
    if weight.dim() > 1:
        raise ShapeError(f"prelu: weight must be 0-d or 1-d, got shape {tuple(weight.shape)}")
    if weight.dtype is not input.dtype:
        raise DTypeError(
            f"prelu: input and weight must have one dtype, got {input.dtype.name} and "
            f"{weight.dtype.name}"
        )
    slope = wide(weight)
    if weight.numel() != 1:
        channels = input.shape[1] if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise ShapeError(
                f"prelu: weight must have 1 element or one for each of the {channels} channels "
                f"of an input of shape {tuple(input.shape)}, got {weight.numel()}"
            )
        slope = prim.reshape(slope, (channels,) + (1,) * (input.dim() - 2))
    elif weight.dim() == 1:
        slope = prim.reshape(slope, ())
    return to_dtype(prim.leaky_relu(x, slope), input.dtype)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Leaky ReLU with a slope drawn for each element in training, else with the mean slope.

    Xu et al., "Empirical Evaluation of Rectified Activations" (2015).
    """
    if inplace:
        return rrelu_(input, lower, upper, training, generator)
    x = _floats("rrelu", input)
    if lower > upper:
        raise RuntimeError(f"rrelu: lower must not exceed upper, got {lower} > {upper}")
    slope: Any = (lower + upper) / 2
    if training:
        slope = draw_uniform(tuple(x.shape), x.dtype, lower, upper, generator)
    return to_dtype(prim.leaky_relu(x, slope), input.dtype)


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """:func:`rrelu` in place."""
    return overwrite(input, rrelu, lower, upper, training, False, generator)


# ---- exponential units


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else ``alpha * (exp(x) - 1)`` (Clevert et al., 2016)."""
    return prim.elu(input, alpha, out=input if inplace else None)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`elu` in place."""
    return prim.elu(input, alpha, out=input)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else ``alpha * (exp(x / alpha) - 1)`` (Barron, 2017)."""
    if inplace:
        return celu_(input, alpha)
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0")
    x = _floats("celu", input)
    positive = prim.gt(x, 0.0)
    below = prim.where(positive, 0.0, x)  # expm1 never sees a large argument
    return to_dtype(prim.where(positive, x, prim.expm1(below / alpha) * alpha), input.dtype)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """:func:`celu` in place."""
    return overwrite(input, celu, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled ``elu`` that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""
    if inplace:
        return selu_(input)
    x = _floats("selu", input)
    return to_dtype(prim.elu(x, SELU_ALPHA) * SELU_SCALE, input.dtype)


def selu_(input: Tensor) -> Tensor:
    """:func:`selu` in place."""
    return overwrite(input, selu)


# ---- smooth units


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """x * Phi(x), Phi the normal distribution function (Hendrycks & Gimpel, 2016).

    ``approximate="tanh"`` uses 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
    """
    if approximate == "none":
        return prim.gelu(input, out=out)
    if approximate == "tanh":
        return prim.gelu_tanh(input, out=out)
    raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x) (Elfwing et al., 2018)."""
    return prim.silu(input, out=input if inplace else None)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x)) (Misra, 2019)."""
    return prim.mish(input, out=input if inplace else None)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > ``threshold``."""
    return prim.softplus(input, beta, threshold, out=out)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 / (1 + exp(-x))), without overflow or cancellation."""
    return prim.logsigmoid(input, out=out)


def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    x = wide(input)
    value = _ratio(x)
    if is_recorded(x):
        # Far out the quotient's derivative is a difference of nearly equal numbers.
        far = prim.ge(prim.abs(x), 0.5)
        size = prim.abs(prim.where(far, x, 1.0))
        smooth = (1 - 1 / (size + 1)) * prim.copysign(1.0, x.detach())
        value = prim.where(far, with_gradient_of(smooth, value), _ratio(prim.where(far, 0.0, x)))
    return to_dtype(value, input.dtype) if is_half(input) else value


def _ratio(x: Tensor) -> Tensor:
    return x / (prim.abs(x) + 1)


def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x)."""
    x = wide(input)
    value = x - prim.tanh(x)
    if is_recorded(x):
        # Near 0 the difference's derivative cancels; that of its series does not.
        near = prim.le(prim.abs(x), 0.25)
        inner = prim.where(near, x, 0.0)
        square = prim.square(inner)
        smooth = square * inner * power_series(TANHSHRINK, square)
        outer = prim.where(near, 1.0, x)
        value = prim.where(near, with_gradient_of(smooth, value), outer - prim.tanh(outer))
    return to_dtype(value, input.dtype) if is_half(input) else value


# Of (x - tanh(x)) / x^3 in powers of x^2 (DLMF 4.33.3).
TANHSHRINK = (
    1 / 3, -2 / 15, 17 / 315, -62 / 2835, 1382 / 155925, -21844 / 6081075, 929569 / 638512875,
    -6404582 / 10854718875, 443861162 / 1856156927625, -18888466084 / 194896477400625,
)  # fmt: skip


# ---- piecewise linear units


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x + 3, 0), 6) / 6."""
    return prim.hardsigmoid(input, out=input if inplace else None)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * min(max(x + 3, 0), 6) / 6 (Howard et al., 2019)."""
    return prim.hardswish(input, out=input if inplace else None)


@method
def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x outside [-lambd, lambd], else 0."""
    x = _floats("hardshrink", input)
    small = prim.le(prim.abs(x), lambd)
    return write_out(out, to_dtype(prim.where(small, 0.0, x), input.dtype))


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """x moved towards 0 by ``lambd``; 0 inside [-lambd, lambd]."""
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}")
    x = _floats("softshrink", input)
    # What is not beyond the limits is multiplied by zero, so that a NaN stays, with its gradient.
    inner = prim.where(prim.lt(x, -lambd), x + lambd, prim.where(prim.isnan(x), x, x * 0.0))
    result = prim.where(prim.gt(x, lambd), x - lambd, inner)
    return write_out(out, to_dtype(result, input.dtype))


# ---- along a dimension


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a * sigmoid(b), a and b the halves of the input along ``dim`` (Dauphin et al., 2017)."""
    if input.dim() == 0:
        raise ShapeError("glu: needs at least 1 dimension, got shape ()")
    x = _floats("glu", input)
    at = wrap_dim("glu", dim, input.dim())
    size = input.shape[at]
    if size % 2:
        raise ShapeError(f"glu: dimension {at} must be even, got shape {tuple(input.shape)}")
    first, second = prim.slice(x, at, 0, size // 2), prim.slice(x, at, size // 2, size)
    return to_dtype(first * prim.sigmoid(second), input.dtype)


@renamed
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``; converted to ``dtype`` first."""
    return prim.softmax(to_dtype(input, dtype), implicit_dim("softmax", dim, input))


@renamed
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """x - log(sum(exp(x))) along ``dim``; converted to ``dtype`` first."""
    return prim.log_softmax(to_dtype(input, dtype), implicit_dim("log_softmax", dim, input))


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """softmax(-x) along ``dim``; converted to ``dtype`` first."""
    return prim.softmax(to_dtype(-input, dtype), implicit_dim("softmin", dim, input))


def implicit_dim(op: str, dim: int | None, input: Tensor) -> int:
    """PyTorch's choice without ``dim``: the first dimension of 0, 1 or 3, else the second."""
    if dim is not None:
        return dim
    chosen = 0 if input.dim() in (0, 1, 3) else 1
    warnings.warn(f"{op}: implicit dimension choice is deprecated, pass dim={chosen}", stacklevel=3)
    return chosen


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples of the Gumbel-softmax distribution (Jang et al., 2017; Maddison et al., 2017).

    ``hard`` returns one-hot samples that differentiate as the soft ones; ``eps`` has no effect.
    """
    _floats("gumbel_softmax", logits)
    # Minus the logarithm of an exponential variate has Gumbel's distribution.
    gumbel = -prim.log(empty_like(logits).exponential_())
    soft = prim.softmax((logits + gumbel) / tau, dim)
    if not hard:
        return soft
    chosen = prim.argmax(soft.detach(), dim, True)
    one_hot = prim.scatter(
        zeros_like(logits), chosen, ones_like(prim.cast(chosen, soft.dtype)), dim
    )
    return one_hot - soft.detach() + soft


_threshold = threshold

EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        relu_, threshold_, celu, celu_, selu, selu_, hardshrink, prelu, rrelu, rrelu_,
    )
}  # fmt: skip
EXPORTS["threshold"] = threshold
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f
    for f in (
        hardtanh, hardtanh_, relu6, leaky_relu, leaky_relu_, elu, elu_, gelu, silu, mish, softplus,
        logsigmoid, softsign, tanhshrink, hardsigmoid, hardswish, softshrink, glu, softmin,
        gumbel_softmax,
    )
}  # fmt: skip
