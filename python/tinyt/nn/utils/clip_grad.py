"""Limits on gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

from tinyt._core import is_recording, scale_all
from tinyt.autograd import no_grad
from tinyt.dtypes import float32, float64, promote_types
from tinyt.ops import stack, tensor
from tinyt.ops.common import wide
from tinyt.tensor import Tensor, prim

if TYPE_CHECKING:
    from tinyt._tensor import dtype

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _norm(x: Tensor, order: float) -> Tensor:
    """The vector norm of all elements: (Σ |x|^p)^(1/p), max |x| for p = inf, min |x| for -inf, and
    how many are not zero for p = 0."""
    size = wide(x).abs()
    if order == math.inf:
        return size.amax() if x.numel() else size.sum()
    if order == 2.0:
        return (size * size).sum().sqrt()
    if order == -math.inf:
        return size.amin()
    if order == 0.0:
        return (size != 0.0).sum().to(x.dtype)
    return size.sum() if order == 1.0 else (size**order).sum() ** (1.0 / order)


def _common_dtype(tensors: list[Tensor]) -> dtype:
    """What their dtypes promote to."""
    return reduce(promote_types, {x.dtype: None for x in tensors})


def _norms(tensors: list[Tensor], order: float) -> Tensor:
    """The norm of each tensor, side by side in the dtype that theirs promote to; of a half
    float32."""
    dtype, place = _common_dtype(tensors), tensors[0].device
    alike = all(x.dtype is dtype and x.device is place for x in tensors)
    if order == 2.0 and dtype in (float32, float64) and alike:
        return prim.sum_squares(tensors).sqrt()
    wider = float32 if dtype.itemsize == 2 else dtype
    return stack([_norm(x, order).to(place, wider) for x in tensors])


@no_grad()
def get_total_norm(
    tensors: Tensors,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all elements of all tensors, as one number.

    Args:
        tensors: one or several; 0 for none.
        norm_type: p of the p-norm; may be inf, -inf and 0, as in `linalg.vector_norm`.
        error_if_nonfinite: whether nan or inf raises RuntimeError.
        foreach: PyTorch's hint about its implementation; no effect.
    """
    order = float(norm_type)
    parts = _listed(tensors)
    total = _wide_total(parts, order, error_if_nonfinite)
    return total.to(_common_dtype(parts)) if parts else total


def _wide_total(parts: list[Tensor], order: float, error_if_nonfinite: bool) -> Tensor:
    """:func:`get_total_norm`, of halves in float32."""
    if not parts:
        return tensor(0.0)
    total = _norm(_norms(parts, order), order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so "
            "it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def _scale(grad: Tensor, factor: Tensor) -> None:
    """Multiplies in place, halves by a factor that is not rounded to their dtype."""
    if grad.dtype.itemsize == 2:
        grad.copy_(wide(grad) * factor.to(grad.device))
    else:
        grad.mul_(factor.to(grad))


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients by max_norm / total_norm where that is below 1."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    grads = [param.grad for param in _listed(parameters) if param.grad is not None]
    if is_recording() or factor.is_meta:  # the factor is not known
        for grad in grads:
            _scale(grad, factor)
        return
    if factor.item() == 1:
        return
    for grad in grads:
        if grad.dtype.itemsize == 2:
            _scale(grad, factor)
    kinds = [(grad.dtype, grad.device) for grad in grads]
    for kind in dict.fromkeys(kind for kind in kinds if kind[0].itemsize != 2):
        group = [grad for grad, own in zip(grads, kinds, strict=True) if own == kind]
        rounded = factor.to(kind[0]).item()
        for i in scale_all(group, rounded):
            group[i].mul_(rounded)


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients in place so that the norm of all of them together is at most `max_norm`.

    Returns the norm before, in the dtype that those of the gradients promote to; that of halves is
    found in float32, and by that they are scaled. Arguments as in `get_total_norm`.
    """
    params = _listed(parameters)
    grads = [param.grad for param in params if param.grad is not None]
    with no_grad():
        total = _wide_total(grads, float(norm_type), error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total.to(_common_dtype(grads)) if grads else total


clip_grad_norm = clip_grad_norm_


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value], in place."""
    limit = float(clip_value)
    for param in _listed(parameters):
        if param.grad is not None:
            param.grad.clamp_(-limit, limit)
