"""Limits on gradients."""

from __future__ import annotations

import math
from collections.abc import Iterable

from tinyt.autograd import no_grad
from tinyt.ops import stack, tensor
from tinyt.tensor import Tensor

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _norm(x: Tensor, order: float) -> Tensor:
    """The vector norm of all elements: (Σ |x|^p)^(1/p), max |x| for p = inf."""
    size = x.abs()
    if order == math.inf:
        return size.amax() if x.numel() else size.sum()
    if order == 2.0:
        return (size * size).sum().sqrt()
    return size.sum() if order == 1.0 else (size**order).sum() ** (1.0 / order)


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
        norm_type: p of the p-norm; may be inf.
        error_if_nonfinite: whether nan or inf raises RuntimeError.
        foreach: PyTorch's hint about its implementation; no effect.
    """
    order = float(norm_type)
    norms = [_norm(x, order) for x in _listed(tensors)]
    if not norms:
        return tensor(0.0)
    total = _norm(stack([n.to(norms[0].dtype) for n in norms]), order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so "
            "it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients by max_norm / total_norm where that is below 1."""
    factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
    for param in _listed(parameters):
        if param.grad is not None:
            param.grad.mul_(factor.to(param.grad.dtype))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients in place so that the norm of all of them together is at most `max_norm`.

    Returns the norm before. Arguments as in `get_total_norm`.
    """
    params = _listed(parameters)
    grads = [param.grad for param in params if param.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(params, max_norm, total)
    return total


clip_grad_norm = clip_grad_norm_


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Limits every element of the gradients to [-clip_value, clip_value], in place."""
    limit = float(clip_value)
    for param in _listed(parameters):
        if param.grad is not None:
            param.grad.clamp_(-limit, limit)
