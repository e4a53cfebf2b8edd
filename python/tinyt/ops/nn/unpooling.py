"""The inverse of max pooling: every value put back at its index, in zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError, OutOfRangeError, ShapeError
from tinyt.autograd.rules.common import blank
from tinyt.dtypes import int64
from tinyt.ops.common import need_tensor, tuple_of
from tinyt.ops.nn.windows import Sizes, with_batch
from tinyt.tensor import Tensor, prim


def _unpooled_size(
    op: str,
    input: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Sequence[int] | None,
) -> tuple[int, ...]:
    """The size asked for, within a stride of the size that the windows give."""
    n = len(kernel)
    usual = tuple(
        (size - 1) * s + k - 2 * p
        for size, k, s, p in zip(input.shape[-n:], kernel, stride, padding, strict=True)
    )
    if output_size is None:
        return usual
    wanted = tuple(output_size)[2:] if len(output_size) == n + 2 else tuple(output_size)
    if len(wanted) != n:
        raise ValueError(f"{op}: output_size needs {n} or {n + 2} entries, got {wanted}")
    if any(abs(w - u) >= s for w, u, s in zip(wanted, usual, stride, strict=True)):
        raise ValueError(
            f"{op}: output_size must be within {stride} of {usual}, got {tuple(output_size)}"
        )
    return wanted


def _max_unpool(
    op: str,
    spatial: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    x = with_batch(op, spatial, input)
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {x.dtype}")
    if need_tensor(op, indices).dtype is not int64 or indices.shape != input.shape:
        raise ShapeError(
            f"{op}: indices must be int64 and of the input's shape {tuple(input.shape)}, got "
            f"{indices.dtype} and {tuple(indices.shape)}"
        )
    kernel = tuple_of(op, "kernel_size", kernel_size, spatial)
    steps = kernel if stride is None else tuple_of(op, "stride", stride, spatial)
    pads = tuple_of(op, "padding", padding, spatial)
    size = _unpooled_size(op, input, kernel, steps, pads, output_size)
    if min(steps) <= 0 or min(size) < 0:
        raise ShapeError(f"{op}: no output of size {size} with stride {steps}")
    lead = tuple(x.shape[:2])
    flat = (*lead, math.prod(x.shape[2:]))
    planes = blank((*lead, math.prod(size)), x)
    try:
        out = prim.scatter(planes, prim.reshape(indices, flat), prim.reshape(x, flat), 2)
    except IndexError as error:
        raise OutOfRangeError(f"{op}: an index lies outside the output {size}: {error}") from error
    return prim.reshape(out, (*input.shape[: input.dim() - spatial], *size))


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts every value at its index in zeros: undoes `max_pool1d` with indices."""
    return _max_unpool("max_unpool1d", 1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts every value at its index in zeros: undoes `max_pool2d` with indices."""
    return _max_unpool("max_unpool2d", 2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts every value at its index in zeros: undoes `max_pool3d` with indices."""
    return _max_unpool("max_unpool3d", 3, input, indices, kernel_size, stride, padding, output_size)


EXPORTS: dict[str, Any] = {}
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {f.__name__: f for f in (max_unpool1d, max_unpool2d, max_unpool3d)}
