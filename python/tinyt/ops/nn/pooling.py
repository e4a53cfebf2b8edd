"""Pooling: one value for each window of the last dimensions.

A shape is [N, C, *S] or, without a batch, [C, *S]. Sums are one primitive, ``resample``, whose
gradient is itself, transposed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt import _tensor
from tinyt._core import DTypeError
from tinyt.dtypes import float32, int64
from tinyt.ops.autocast import in_full
from tinyt.ops.common import in_float32, need_tensor, to_dtype, tuple_of, wide, write_out
from tinyt.ops.nn.windows import (
    OutputSizes,
    Sizes,
    Windows,
    as_matrix,
    evenly,
    like_input,
    regular,
    weight_dtype,
    with_batch,
)
from tinyt.tensor import Tensor, prim

# ---- maxima


def _largest(
    input: Tensor, x: Tensor, windows: Windows, step: tuple[int, ...], return_indices: bool
) -> Any:
    values, indices = prim.max_pool(x, windows.size, windows.begin, windows.end, step)
    values = like_input(input, values)
    return (values, like_input(input, indices)) if return_indices else values


def _max_pool(
    op: str,
    spatial: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    x = with_batch(op, spatial, input)
    windows = regular(op, x, kernel_size, stride, padding, dilation, ceil_mode)
    return _largest(input, x, windows, tuple_of(op, "dilation", dilation, spatial), return_indices)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last dimension; stride defaults to the window."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode,
                     return_indices)  # fmt: skip


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last two dimensions; stride defaults to the window."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode,
                     return_indices)  # fmt: skip


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value of every window of the last three dimensions; stride defaults to the window."""
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode,
                     return_indices)  # fmt: skip


def _adaptive_max(
    op: str, spatial: int, input: Tensor, output_size: OutputSizes, return_indices: bool
) -> Any:
    x = with_batch(op, spatial, input)
    return _largest(input, x, evenly(op, x, output_size), (1,) * spatial, return_indices)


def adaptive_max_pool1d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Any:
    """Largest value of each of ``output_size`` even windows of the last dimension."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size, return_indices)


def adaptive_max_pool2d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Any:
    """Largest value of even windows of two dimensions; a size of None keeps the input's."""
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size, return_indices)


def adaptive_max_pool3d(
    input: Tensor, output_size: OutputSizes, return_indices: bool = False
) -> Any:
    """Largest value of even windows of three dimensions; a size of None keeps the input's."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size, return_indices)


# ---- averages


def _average(op: str, x: Tensor, windows: Windows, divisors: Any) -> Tensor:
    """The sums of the windows over the product of ``divisors``, a list for each dimension."""
    if not (x.dtype.is_floating_point or x.dtype is int64):
        raise DTypeError(f"{op}: not defined for dtype {x.dtype}")
    # A half-precision sum could overflow where the average does not.
    narrow = x.dtype.is_floating_point and x.dtype.itemsize < 4
    sums = _sums(prim.cast(x, float32) if narrow else x, windows)
    if x.dtype is int64:
        size = sums.abs()  # rounded towards zero
        return prim.sign(sums) * prim.floor_divide(size, _outer(divisors))
    average = prim.div(sums, _outer(divisors))
    return prim.cast(average, x.dtype) if narrow else average


def _sums(x: Tensor, windows: Windows) -> Tensor:
    if windows.begin == (0,) * len(windows.size) and windows.end == tuple(x.shape[2:]):
        return prim.sum(x, tuple(range(2, x.dim())), True)  # one window: the whole plane
    taps, index = as_matrix(windows)
    ones = prim.fill((len(index),), weight_dtype(x), 1.0, 1)
    return prim.resample(x, ones, windows.size, taps, index)


def _outer(divisors: Sequence[tuple[int, ...]]) -> Any:
    """The product of one number for each dimension: itself, or a tensor where they differ."""
    if all(len(set(d)) <= 1 for d in divisors):
        return math.prod(d[0] for d in divisors if d)
    product: Any = None
    for i, d in enumerate(divisors):
        shape = [1] * len(divisors)
        shape[i] = len(d)
        factor = prim.reshape(_tensor.from_data(d, int64), tuple(shape))
        product = factor if product is None else product * factor
    return product


def _avg_pool(
    op: str,
    spatial: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    x = with_batch(op, spatial, input)
    windows = regular(op, x, kernel_size, stride, padding, 1, ceil_mode)
    divisors = windows.divisors
    if divisor_override is not None:
        if divisor_override == 0:
            raise RuntimeError(f"{op}: divisor_override must not be zero")
        divisors = ((divisor_override,),) + ((1,),) * (spatial - 1)
    elif not count_include_pad:
        divisors, at = (), 0
        for n in windows.size:
            pairs = zip(windows.begin[at : at + n], windows.end[at : at + n], strict=True)
            divisors = (*divisors, tuple(b - a for a, b in pairs))
            at += n
    return write_out(out, like_input(input, _average(op, x, windows, divisors)))


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Average of every window of the last dimension; stride defaults to the window.

    Padding counts as zeros, or with ``count_include_pad=False`` not at all.
    """
    return _avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad)  # fmt: skip


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Average of every window of two dimensions: sum / size, or sum / ``divisor_override``."""
    return _avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, divisor_override, out)  # fmt: skip


def avg_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Average of every window of three dimensions: sum / size, or sum / ``divisor_override``."""
    return _avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode,
                     count_include_pad, divisor_override, out)  # fmt: skip


def _adaptive_average(op: str, spatial: int, input: Tensor, output_size: OutputSizes) -> Tensor:
    x = with_batch(op, spatial, input)
    if not x.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {x.dtype}")
    windows = evenly(op, x, output_size)
    return like_input(input, _average(op, x, windows, windows.divisors))


def adaptive_avg_pool1d(input: Tensor, output_size: Sizes) -> Tensor:
    """Average of each of ``output_size`` even windows of the last dimension."""
    if output_size is None:
        raise TypeError("adaptive_avg_pool1d: output_size must be an integer, got None")
    return _adaptive_average("adaptive_avg_pool1d", 1, input, output_size)


def adaptive_avg_pool2d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Average of even windows of two dimensions; a size of None keeps the input's."""
    return _adaptive_average("adaptive_avg_pool2d", 2, input, output_size)


def adaptive_avg_pool3d(input: Tensor, output_size: OutputSizes) -> Tensor:
    """Average of even windows of three dimensions; a size of None keeps the input's."""
    return _adaptive_average("adaptive_avg_pool3d", 3, input, output_size)


# ---- norms


@in_float32
def _lp_pool(
    op: str,
    spatial: int,
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None,
    ceil_mode: bool,
) -> Tensor:
    """(sum of x^p over the window)^(1/p); for even windows, as there are ones at the edge that
    ``ceil_mode`` lets in, PyTorch takes their average times the size of a whole one."""
    if norm_type in (math.inf, -math.inf):
        sign = 1.0 if norm_type > 0 else -1.0
        largest = _max_pool(op, spatial, input.abs() * sign, kernel_size, stride, 0, 1, ceil_mode,
                            False)  # fmt: skip
        return largest * sign  # type: ignore[no-any-return]
    if norm_type == 0:
        raise ZeroDivisionError(f"{op}: norm_type must not be zero")
    average = _avg_pool(op, spatial, need_tensor(op, input) ** norm_type, kernel_size, stride, 0,
                        ceil_mode, True)  # fmt: skip
    total = average * math.prod(tuple_of(op, "kernel_size", kernel_size, spatial))
    # A negative sum (odd p) has no root: PyTorch keeps its sign out of it.
    return (prim.sign(total) * prim.relu(prim.abs(total))) ** (1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of the last dimension; infinity is the maximum."""
    return _lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of the last two dimensions; infinity is the maximum."""
    return _lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of every window of the last three dimensions; infinity is the maximum."""
    return _lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


# ---- over channels


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha mean(x^2))^beta, the mean over ``size`` neighbouring channels.

    Beyond the first and last channel are zeros, which count. Input [N, C, *S] with at least one S.
    Source: Krizhevsky et al. 2012, "ImageNet classification with deep convolutional networks".
    """
    rank = need_tensor("local_response_norm", input).dim()
    if rank < 3:
        raise ValueError(
            f"local_response_norm: needs at least 3 dimensions, got {tuple(input.shape)}"
        )
    if size <= 0:
        raise RuntimeError(f"local_response_norm: size must be positive, got {size}")
    if input.numel() == 0:
        return input
    shape = tuple(input.shape)
    dtype = in_full(input).dtype if rank > 3 else input.dtype  # PyTorch takes avg_pool3d
    x = wide(input)
    lines = prim.reshape(x, (shape[0], 1, shape[1], math.prod(shape[2:])))
    squares = prim.pad(lines * lines, [0, 0, 0, 0, size // 2, (size - 1) // 2, 0, 0])
    mean = prim.reshape(avg_pool2d(squares, (size, 1), 1), shape)
    return to_dtype(x / (mean * alpha + k) ** beta, dtype)


EXPORTS: dict[str, Any] = {
    f.__name__: f for f in (max_pool1d, max_pool2d, max_pool3d, avg_pool1d, adaptive_avg_pool1d)
}
# In PyTorch these are in `nn.functional` alone.
FUNCTIONAL: dict[str, Any] = {
    f.__name__: f
    for f in (
        avg_pool2d, avg_pool3d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
        adaptive_max_pool2d, adaptive_max_pool3d, lp_pool1d, lp_pool2d, lp_pool3d,
        local_response_norm,
    )
}  # fmt: skip
