"""Softmax and normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._autograd import GradMode
from tinyt._core import DimError, DTypeError, ShapeError
from tinyt._tensor import dtype as DType
from tinyt.dtypes import float32
from tinyt.ops.common import to_dtype, wide
from tinyt.ops.reduce.reductions import mean
from tinyt.tensor import Tensor, method, prim


@method
def softmax(
    input: Tensor, dim: int, dtype: DType | None = None, *, out: Tensor | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.softmax(to_dtype(input, dtype), dim, out=out)


@method
def log_softmax(
    input: Tensor, dim: int, dtype: DType | None = None, *, out: Tensor | None = None
) -> Tensor:
    """x - log(sum(exp(x))) along ``dim``, shifted by the largest value. Float dtypes."""
    return prim.log_softmax(to_dtype(input, dtype), dim, out=out)


# ---- normalisation over the last dimensions


def _need_float(op: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: needs a float dtype, got {x.dtype.name}")


def _or_none(first: Tensor | None, second: Tensor | None) -> tuple[Tensor, Tensor]:
    """Two parts as the fused rows take them: a 0-d tensor stands for none."""
    if first is None or second is None:
        none = prim.fill((), float32, 1.0, 1)
        return none if first is None else first, none if second is None else second
    return first, second


def _normalise(
    x: Tensor,
    dims: int,
    eps: float,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    center: bool = True,
) -> Tensor:
    """The last ``dims`` dimensions divided by their standard deviation; then weight and bias."""
    weight, bias = _or_none(weight, bias)
    return prim.layer_norm(x, weight, bias, dims, center, eps)[0]


def _common_dtype(x: Tensor, *parts: Tensor | None) -> DType:
    """float32 for a half with float32 parameters, else the input's dtype."""
    mixed = any(part is not None and part.dtype is float32 for part in parts)
    return float32 if mixed and x.dtype.itemsize == 2 else x.dtype


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
    x = to_dtype(input, _common_dtype(input, weight, bias))
    return to_dtype(_normalise(x, len(shape), eps, weight, bias), input.dtype)


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
    if eps is None:
        eps = 2.0**-52 if input.dtype.itemsize == 8 else 2.0**-23
    x = to_dtype(input, _common_dtype(input, weight))
    return to_dtype(_normalise(x, len(shape), eps, weight, center=False), input.dtype)


# ---- normalisation of channels


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
    return prim.group_norm(input, *_or_none(weight, bias), num_groups, eps)[0]


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
    if running_mean is not None or running_var is not None:
        with GradMode(False):
            rows = prim.reshape(wide(input), (batch, channels, size))
            center = mean(rows, -1, True)
            spread = prim.sum(prim.square(rows - center), (-1,), False) / (size - 1)
            _track(running_mean, mean(prim.reshape(center, (batch, channels)), 0), momentum)
            _track(running_var, mean(spread, 0), momentum)
    return prim.group_norm(input, *_or_none(weight, bias), channels, eps)[0]


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float | Tensor = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises every channel over batch and space (Ioffe & Szegedy, 2015): [N, C, ...].

    Training uses the batch's mean and variance and moves the running ones by ``momentum``, a number
    or a tensor of one (the running variance is the unbiased one); otherwise the running ones are
    used.
    """
    rank = input.dim()
    if rank < 2:
        raise DimError(f"batch_norm: needs at least 2 dimensions, got {tuple(input.shape)}")
    _need_float("batch_norm", input)
    _check_channels(
        "batch_norm", input.shape[1],
        running_mean=running_mean, running_var=running_var, weight=weight, bias=bias,
    )  # fmt: skip
    if training:
        count = math.prod(n for d, n in enumerate(input.shape) if d != 1)
        if count == 1:
            raise ValueError(
                "batch_norm: expected more than 1 value per channel when training, got shape "
                f"{tuple(input.shape)}"
            )
        batch = _or_none(None, None)
        out, average, _, variance = prim.batch_norm(input, *_or_none(weight, bias), *batch, eps)
        if count:
            _track(running_mean, average, momentum)
            _track(running_var, variance * (count / (count - 1)), momentum)
        return out
    if running_mean is None or running_var is None:
        raise RuntimeError("batch_norm: running statistics are needed when not training")
    return prim.batch_norm(input, *_or_none(weight, bias), running_mean, running_var, eps)[0]


def _track(running: Tensor | None, now: Tensor, momentum: float | Tensor) -> None:
    """running = (1 - momentum) * running + momentum * now."""
    if running is not None:
        value = prim.reshape(now.detach(), tuple(running.shape))
        running._assign(prim.lerp(running, value, momentum))


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (softmax, log_softmax, layer_norm, rms_norm, group_norm)
}
# PyTorch's functions of the package by these names have another order of arguments.
FUNCTIONAL: dict[str, Any] = {f.__name__: f for f in (instance_norm, batch_norm)}
