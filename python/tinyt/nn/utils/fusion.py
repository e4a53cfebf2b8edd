"""Batch normalisation in evaluation mode folded into the layer before it.

With running mean m and variance s, ``bn(W x + b) = W' x + b'`` where ``W' = k W``,
``b' = (b - m) k + bias`` and ``k = weight / sqrt(s + eps)``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, TypeVar

from tinyt.nn.linear import Linear
from tinyt.nn.module import Module
from tinyt.nn.parameter import Parameter
from tinyt.ops import ones_like, rsqrt, zeros_like
from tinyt.tensor import Tensor

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

M = TypeVar("M", bound=Module)


def _require_eval(layer: Module, bn: Module) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _folded(
    weight: Tensor, bias: Tensor | None, bn: tuple[Any, ...], shape: tuple[int, ...]
) -> tuple[Parameter, Parameter]:
    """The layer's new weight and bias; `shape` spreads a value per output over the weight."""
    mean, variance, eps, scale, shift = bn
    before = zeros_like(mean) if bias is None else bias
    factor = rsqrt(variance + eps) * (ones_like(mean) if scale is None else scale)
    after = (before - mean) * factor + (zeros_like(mean) if shift is None else shift)
    return (
        Parameter((weight * factor.reshape(shape)).to(weight.dtype), weight.requires_grad),
        Parameter(after.to(weight.dtype if bias is None else bias.dtype), before.requires_grad),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution with the batch normalisation after it folded in; outputs
    are dimension 0 of the weight, or 1 with `transpose`."""
    ones = (1,) * (conv_w.dim() - 2)
    shape = (1, -1, *ones) if transpose else (-1, 1, *ones)
    return _folded(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer with the batch normalisation after it folded in."""
    return _folded(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), (-1, 1))


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """A copy of a convolution that does what it and the batch normalisation after it do, both in
    evaluation mode; AssertionError where one is not, or where there are no running statistics."""
    _require_eval(conv, bn)
    fused = deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_linear_bn_eval(linear: Linear, bn: Module) -> Linear:
    """A copy of a linear layer that does what it and the batch normalisation after it do, both in
    evaluation mode; AssertionError where that cannot be."""
    _require_eval(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused
