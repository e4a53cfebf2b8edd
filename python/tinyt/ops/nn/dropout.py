"""Dropout: elements or whole channels are dropped at random in training.

Srivastava et al. (2014); the alpha forms, which keep mean and variance of self-normalising
networks, are Klambauer et al. (2017).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import get_default_dtype
from tinyt.ops.common import to_dtype
from tinyt.ops.random.draws import draw
from tinyt.ops.shape.reshape import squeeze, unsqueeze
from tinyt.tensor import Tensor, prim

# -lambda * alpha of SELU: the value that a dropped element of an alpha dropout gets.
SATURATION = 1.7580993408473766


def _check(op: str, input: Tensor, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{op}: probability must be between 0 and 1, got {p}")
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {input.dtype.name}")


def _noise_shape(op: str, input: Tensor, feature: bool) -> tuple[int, ...]:
    """One draw for each element, or for each channel of each sample."""
    shape = tuple(input.shape)
    if not feature:
        return shape
    if len(shape) < 2:
        raise ShapeError(f"{op}: needs at least 2 dimensions, got shape {shape}")
    return shape[:2] + (1,) * (len(shape) - 2)


def _drop(op: str, input: Tensor, p: float, training: bool, feature: bool, inplace: bool) -> Tensor:
    """Input times noise of 0 (with probability ``p``) and 1 / (1 - p)."""
    _check(op, input, p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0

    def apply(u: Tensor) -> Tensor:
        noise = to_dtype(prim.where(prim.ge(u, p), scale, 0.0), input.dtype)
        return input.mul_(noise) if inplace else input * noise

    return draw(prim.uniform, _noise_shape(op, input, feature), get_default_dtype(), None, apply)


def _alpha_drop(
    op: str, input: Tensor, p: float, training: bool, feature: bool, inplace: bool
) -> Tensor:
    """Dropped elements become -alpha'; then a x + b restores mean and variance."""
    _check(op, input, p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        return _drop(op, input, p, training, feature, inplace)
    p = float(p)  # a recording sees that its value is used, which math.sqrt does not show
    a = 1.0 / math.sqrt((SATURATION**2 * p + 1.0) * (1.0 - p))
    b = a * SATURATION * p

    def apply(u: Tensor) -> Tensor:
        keep = prim.ge(u, p)
        factor = to_dtype(prim.where(keep, a, 0.0), input.dtype)
        shift = to_dtype(prim.where(keep, b, b - a * SATURATION), input.dtype)
        return input.mul_(factor).add_(shift) if inplace else input * factor + shift

    return draw(prim.uniform, _noise_shape(op, input, feature), get_default_dtype(), None, apply)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros elements with probability ``p`` and scales the rest by 1 / (1 - p), when training."""
    return _drop("dropout", input, p, training, False, inplace)


def dropout_(input: Tensor, p: float, training: bool) -> Tensor:
    """:func:`dropout` in place."""
    return _drop("dropout_", input, p, training, False, True)


def feature_dropout(input: Tensor, p: float, training: bool) -> Tensor:
    """:func:`dropout` of whole channels: [N, C, ...]."""
    return _drop("feature_dropout", input, p, training, True, False)


def feature_dropout_(input: Tensor, p: float, training: bool) -> Tensor:
    """:func:`feature_dropout` in place."""
    return _drop("feature_dropout_", input, p, training, True, True)


def alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout to SELU's saturation value that keeps mean 0 and variance 1."""
    return _alpha_drop("alpha_dropout", input, p, training, False, inplace)


def alpha_dropout_(input: Tensor, p: float, training: bool) -> Tensor:
    """:func:`alpha_dropout` in place."""
    return _alpha_drop("alpha_dropout_", input, p, training, False, True)


def feature_alpha_dropout(
    input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """:func:`alpha_dropout` of whole channels: [N, C, ...]."""
    return _alpha_drop("feature_alpha_dropout", input, p, training, True, inplace)


def feature_alpha_dropout_(input: Tensor, p: float, training: bool) -> Tensor:
    """:func:`feature_alpha_dropout` in place."""
    return _alpha_drop("feature_alpha_dropout_", input, p, training, True, True)


# ---- channels of signals, images and volumes


def _drop_channels(
    op: str, input: Tensor, p: float, training: bool, inplace: bool, batched: bool
) -> Tensor:
    """Whole channels of [N, C, ...]; of [C, ...] where not ``batched``."""
    _check(op, input, p)
    if batched:
        return _drop(op, input, p, training, True, inplace)
    out = _drop(op, unsqueeze(input, 0), p, training, True, inplace)
    return input if inplace else squeeze(out, 0)


def dropout1d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of signals [N, C, L] or [C, L]."""
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: expected a 2D or 3D input, got {tuple(input.shape)}")
    return _drop_channels("dropout1d", input, p, training, inplace, input.dim() == 3)


def dropout2d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of images [N, C, H, W].

    As in PyTorch, a 3D input counts as [N, C, L], with a warning.
    """
    if input.dim() != 4:
        _warn("dropout2d", "expected a 4D input, dimension 1 counts as the channels", input)
    return _drop_channels("dropout2d", input, p, training, inplace, True)


def dropout3d(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drops whole channels of volumes [N, C, D, H, W] or [C, D, H, W]."""
    if input.dim() not in (4, 5):
        _warn("dropout3d", "expected a 4D or 5D input", input)
    return _drop_channels("dropout3d", input, p, training, inplace, input.dim() == 5)


def _warn(op: str, text: str, input: Tensor) -> None:
    warnings.warn(f"{op}: {text}, got shape {tuple(input.shape)}", stacklevel=3)


EXPORTS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        dropout, dropout_, feature_dropout, feature_dropout_, alpha_dropout, alpha_dropout_,
        feature_alpha_dropout, feature_alpha_dropout_,
    )
}  # fmt: skip
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (dropout1d, dropout2d, dropout3d)
}
