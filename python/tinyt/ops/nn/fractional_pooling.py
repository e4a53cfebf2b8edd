"""Fractional max pooling: windows that begin at steps of random sizes.

Source: Graham 2014, "Fractional max-pooling", the pseudo-random sequences of its section 2; loaded
when it is first asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinyt._core import DTypeError, ShapeError
from tinyt.dtypes import int64
from tinyt.ops.common import named, need_tensor, tuple_of
from tinyt.ops.creation.filled import full
from tinyt.ops.creation.ranges import arange
from tinyt.ops.random.draws import rand
from tinyt.tensor import Tensor, prim

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]

Sizes = int | Sequence[int]
Ratios = float | Sequence[float]


def _output_sizes(
    op: str, spatial: int, sizes: Sequence[int], output_size: Sizes | None, ratio: Ratios | None
) -> tuple[int, ...]:
    if output_size is not None:
        return tuple_of(op, "output_size", output_size, spatial)
    if ratio is None:
        raise ValueError(f"{op} requires specifying either an output_size or an output_ratio")
    ratios = [ratio] * spatial if isinstance(ratio, (int, float)) else list(ratio)
    if len(ratios) != spatial:
        raise ValueError(f"{op} requires output_ratio to either be a single Int or tuple of Ints.")
    return tuple(int(size * r) for size, r in zip(sizes, ratios, strict=True))


def _begins(samples: Tensor, size: int, count: int, window: int) -> Tensor:
    """Where ``count`` windows begin, (N, C, count), by one draw for each channel."""
    last = full((*samples.shape, 1), size - window, dtype=int64)
    if count == 1:
        return last
    step = full((), size - window, dtype=samples.dtype) / (count - 1)
    draws = samples.unsqueeze(-1)
    steps = arange(count - 1, dtype=samples.dtype)
    found = ((steps + draws) * step).trunc() - (draws * step).trunc()
    return prim.cat([found.to(int64), last], 2)


def _with_indices(
    op: str,
    spatial: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Ratios | None,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor]:
    if need_tensor(op, input).dim() not in (spatial + 1, spatial + 2):
        raise ShapeError(
            f"{op}: expects an input of rank {spatial + 1} or {spatial + 2}, got "
            f"{tuple(input.shape)}"
        )
    if not input.dtype.is_floating_point:
        raise DTypeError(f"{op}: not defined for dtype {input.dtype}")
    x = input if input.dim() == spatial + 2 else input.unsqueeze(0)
    sizes = tuple(x.shape[2:])
    kernel = tuple_of(op, "kernel_size", kernel_size, spatial)
    counts = _output_sizes(op, spatial, sizes, output_size, output_ratio)
    if any(n < 1 or n + k - 1 > s for s, n, k in zip(sizes, counts, kernel, strict=True)):
        raise ShapeError(
            f"{op}: kernel_size + output_size - 1 must be at most the input's sizes, and "
            f"output_size positive, got {kernel}, {counts} and {sizes}"
        )
    if samples is None:
        samples = rand(x.shape[0], x.shape[1], spatial, dtype=x.dtype)
    if tuple(samples.shape) != (x.shape[0], x.shape[1], spatial) or samples.dtype is not x.dtype:
        raise ShapeError(
            f"{op}: _random_samples must be {x.dtype} of shape "
            f"{(x.shape[0], x.shape[1], spatial)}, got {samples.dtype} {tuple(samples.shape)}"
        )
    # In two dimensions the first draw is that of the last axis, in three that of the first.
    drawn = (1, 0) if spatial == 2 else (0, 1, 2)
    where: Any = 0
    for d in range(spatial):
        begins = _begins(samples[..., drawn[d]], sizes[d], counts[d], kernel[d])
        along = begins.unsqueeze(-1) + arange(kernel[d])
        shape = [x.shape[0], x.shape[1], *[1] * (2 * spatial)]
        shape[2 + d], shape[2 + spatial + d] = counts[d], kernel[d]
        where = where * sizes[d] + along.reshape(shape)
    windows = where.reshape(x.shape[0], x.shape[1], math.prod(counts), math.prod(kernel))
    flat = x.flatten(2)
    with_all = flat.gather(2, windows.flatten(2)).reshape(windows.shape)
    best = with_all.detach().max(3, keepdim=True)[1]
    indices = windows.gather(3, best).squeeze(3)
    out = flat.gather(2, indices)
    lead = input.shape[:-spatial]
    return out.reshape(*lead, *counts), indices.reshape(*lead, *counts)


@named
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool2d` with the positions of the maxima in each plane."""
    return _with_indices(
        "fractional_max_pool2d", 2, input, kernel_size, output_size, output_ratio, _random_samples
    )


@named
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`fractional_max_pool3d` with the positions of the maxima in each volume."""
    return _with_indices(
        "fractional_max_pool3d", 3, input, kernel_size, output_size, output_ratio, _random_samples
    )


@named
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest values of windows of (N, C, H, W) or (C, H, W) that begin at random steps.

    Args:
        input: of a floating dtype.
        kernel_size: size of the window, one for both axes or one each.
        output_size: how many windows there are; by default `output_ratio` times the input's sizes.
        output_ratio: see `output_size`.
        return_indices: whether the positions of the maxima are returned too.
        _random_samples: draws from [0, 1), (N, C, 2), in place of new ones.

    >>> import tinyt
    >>> fractional_max_pool2d(tinyt.rand(1, 1, 8, 8), 2, output_ratio=0.5).shape
    tinyt.Size([1, 1, 4, 4])
    """
    found = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
    return found if return_indices else found[0]


@named
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Ratios | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest values of windows of (N, C, T, H, W) or (C, T, H, W) that begin at random steps.

    Arguments as in `fractional_max_pool2d`; `_random_samples` are (N, C, 3).
    """
    found = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )
    return found if return_indices else found[0]
