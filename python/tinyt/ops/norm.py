"""Softmax and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt._core import DimError, DTypeError, ShapeError
from tinyt._tensor import GradMode
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32
from tinyt.ops.common import to_dtype
from tinyt.ops.reduce import mean
from tinyt.tensor import Tensor, method, prim


@method
def softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.softmax(to_dtype(input, dtype), dim)


@method
def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """x - log(sum(exp(x))) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.log_softmax(to_dtype(input, dtype), dim)


def decompose_softmax(input: Tensor, dim: int) -> Tensor:
    """What the fused softmax computes, in primitives."""
    if input.numel() == 0:
        return prim.copy(input)
    e = prim.exp(input - prim.amax(input, (dim,), True))
    return e / prim.sum(e, (dim,), True)


def decompose_log_softmax(input: Tensor, dim: int) -> Tensor:
    """What the fused log_softmax computes, in primitives."""
    if input.numel() == 0:
        return prim.copy(input)
    shifted = input - prim.amax(input, (dim,), True)
    return shifted - prim.log(prim.sum(prim.exp(shifted), (dim,), True))


# The oracle of every fused row of the op table, and its fallback on devices without the kernel.
DECOMPOSE: dict[str, Callable[..., Tensor]] = {
    "softmax": decompose_softmax,
    "log_softmax": decompose_log_softmax,
}


# ---- normalisation over the last dimensions


def _need_float(op: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: needs a float dtype, got {x.dtype.name}")


def _wide(x: Tensor) -> Tensor:
    """Halves as float32, in which statistics are taken."""
    return prim.cast(x, float32) if x.dtype.itemsize == 2 else x


def _standardised(x: Tensor, dims: tuple[int, ...], eps: float) -> Tensor:
    """(x - mean) / sqrt(var + eps) over some dimensions, with the biased variance."""
    center = x - mean(x, dims, True)
    return center * prim.rsqrt(mean(prim.square(center), dims, True) + eps)


def _last_dims(op: str, input: Tensor, normalized_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape normalised over, checked to be the input's last dimensions."""
    _need_float(op, input)
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise ShapeError(
            f"{op}: normalized_shape {shape} must be the last dimensions of the input, got shape "
            f"{tuple(input.shape)}"
        )
    return shape


def _check_part(op: str, name: str, part: Tensor | None, shape: tuple[int, ...]) -> None:
    if part is not None and tuple(part.shape) != shape:
        raise ShapeError(f"{op}: {name} must have shape {shape}, got {tuple(part.shape)}")


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: DType) -> Tensor:
    """``x * weight + bias`` in another dtype."""
    if weight is not None:
        x = x * weight
    return to_dtype(x if bias is None else x + bias, dtype)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions (Ba et al., 2016)."""
    shape = _last_dims("layer_norm", input, normalized_shape)
    _check_part("layer_norm", "weight", weight, shape)
    _check_part("layer_norm", "bias", bias, shape)
    dims = tuple(range(-len(shape), 0))
    return _affine(_standardised(_wide(input), dims, eps), weight, bias, input.dtype)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimensions (Zhang & Sennrich, 2019).

    ``eps`` defaults to the spacing of 1 in the dtype that the mean is taken in.
    """
    shape = _last_dims("rms_norm", input, normalized_shape)
    _check_part("rms_norm", "weight", weight, shape)
    x = _wide(input)
    if eps is None:
        eps = 2.0**-23 if x.dtype is float32 else 2.0**-52
    dims = tuple(range(-len(shape), 0))
    scale = prim.rsqrt(mean(prim.square(x), dims, True) + eps)
    return _affine(x * scale, weight, None, input.dtype)


# ---- normalisation of channels


def _per_channel(part: Tensor, rank: int) -> Tensor:
    """A vector with one value per channel, to be broadcast against [N, C, ...]."""
    return prim.reshape(part, (part.numel(),) + (1,) * (rank - 2))


def _affine_channels(x: Tensor, weight: Tensor | None, bias: Tensor | None, dtype: DType) -> Tensor:
    """``x * weight + bias`` per channel in another dtype."""
    wide = [None if part is None else _per_channel(part, x.dim()) for part in (weight, bias)]
    return _affine(x, wide[0], wide[1], dtype)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises groups of channels of each sample (Wu & He, 2018): [N, C, ...]."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(f"group_norm: needs at least 2 dimensions, got shape {shape}")
    _need_float("group_norm", input)
    batch, channels = shape[:2]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            f"group_norm: the number of channels must be divisible by num_groups, got shape "
            f"{shape} and num_groups={num_groups}"
        )
    for name, part in (("weight", weight), ("bias", bias)):
        _check_part("group_norm", name, part, (channels,))
    if batch * (channels // num_groups) * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"group_norm: expected more than 1 value per channel when training, got shape {shape}"
        )
    size = channels // num_groups * math.prod(shape[2:])
    rows = prim.reshape(_wide(input), (batch, num_groups, size))
    out = prim.reshape(_standardised(rows, (-1,), eps), shape)
    return _affine_channels(out, weight, bias, input.dtype)


def _check_channels(op: str, channels: int, **parts: Tensor | None) -> None:
    for name, part in parts.items():
        if part is not None and part.numel() != channels:
            raise ShapeError(f"{op}: {name} must have {channels} elements, got {part.numel()}")


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel of every sample (Ulyanov et al., 2016): [N, C, ...].

    The running statistics, where given, move towards the mean of the samples' by ``momentum``;
    without ``use_input_stats`` they are what normalises.
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise ShapeError(f"instance_norm: needs at least 2 dimensions, got shape {shape}")
    _need_float("instance_norm", input)
    batch, channels = shape[:2]
    _check_channels(
        "instance_norm", channels,
        running_mean=running_mean, running_var=running_var, weight=weight, bias=bias,
    )  # fmt: skip
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "instance_norm: running_mean and running_var are needed without use_input_stats"
            )
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    size = math.prod(shape[2:])
    if size == 1:
        raise ValueError(
            f"instance_norm: expected more than 1 spatial element when training, got shape {shape}"
        )
    rows = prim.reshape(_wide(input), (batch, channels, size))
    if running_mean is not None or running_var is not None:
        with GradMode(False):
            center = mean(rows, -1, True)
            spread = prim.sum(prim.square(rows - center), (-1,), False) / (size - 1)
            _track(running_mean, mean(prim.reshape(center, (batch, channels)), 0), momentum)
            _track(running_var, mean(spread, 0), momentum)
    out = prim.reshape(_standardised(rows, (-1,), eps), shape)
    return _affine_channels(out, weight, bias, input.dtype)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel over batch and space (Ioffe & Szegedy, 2015): [N, C, ...].

    Training uses the batch's mean and variance and moves the running ones by ``momentum`` (the
    running variance is the unbiased one); otherwise the running ones are used.
    """
    rank = input.dim()
    if rank < 2:
        raise DimError(f"batch_norm: needs at least 2 dimensions, got {tuple(input.shape)}")
    _need_float("batch_norm", input)
    _check_channels(
        "batch_norm", input.shape[1],
        running_mean=running_mean, running_var=running_var, weight=weight, bias=bias,
    )  # fmt: skip
    x = _wide(input)
    if training:
        dims = tuple(d for d in range(rank) if d != 1)
        count = math.prod(input.shape[d] for d in dims)
        if count == 1:
            raise ValueError(
                "batch_norm: expected more than 1 value per channel when training, got shape "
                f"{tuple(input.shape)}"
            )
        center = mean(x, dims, True)
        shifted = x - center
        variance = mean(prim.square(shifted), dims, True)
        if count:
            _track(running_mean, center, momentum)
            _track(running_var, variance.detach() * (count / (count - 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError("batch_norm: running statistics are needed when not training")
        shifted = x - _per_channel(running_mean, rank)
        variance = _per_channel(running_var, rank)
    out = shifted * prim.rsqrt(variance + eps)
    return _affine_channels(out, weight, bias, input.dtype)


def _track(running: Tensor | None, now: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * now."""
    if running is not None:
        value = prim.reshape(now.detach(), tuple(running.shape))
        running._assign(running * (1 - momentum) + value * momentum)


EXPORTS: dict[str, Any] = {
    f.__name__: f
    for f in (
        softmax, log_softmax, layer_norm, rms_norm, group_norm, instance_norm, batch_norm,
    )
}  # fmt: skip
