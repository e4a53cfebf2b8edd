"""What convolutions, pools and resampling mean, in NumPy and float64: straight formulas, written
independently of the library, like references.py."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Sizes = int | Sequence[int]


def tuple_of(value: int | Sequence[int], n: int) -> tuple[int, ...]:
    return (value,) * n if isinstance(value, int) else tuple(value)


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | str | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation, as a sum over kernel positions of a matrix product over channels."""
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return conv(x[None], weight, bias, stride, padding, dilation, groups)[0]
    kernel, stride, dilation = weight.shape[2:], tuple_of(stride, n), tuple_of(dilation, n)
    if padding == "same":  # the odd element goes to the right
        total = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        sides = [(t // 2, t - t // 2) for t in total]
    else:
        sides = [(p, p) for p in tuple_of(0 if padding == "valid" else padding, n)]
    x = np.pad(x, [(0, 0), (0, 0), *sides])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    size = [(a - b) // s + 1 for a, b, s in zip(x.shape[2:], spans, stride, strict=True)]
    out_channels, per_group = weight.shape[0] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], weight.shape[0], *size))
    for at in np.ndindex(*kernel):
        window = tuple(
            slice(d * k, d * k + s * (m - 1) + 1, s)
            for d, k, s, m in zip(dilation, at, stride, size, strict=True)
        )
        for g in range(groups):
            ins = slice(g * per_group, (g + 1) * per_group)
            outs = slice(g * out_channels, (g + 1) * out_channels)
            taken = x[(slice(None), ins, *window)]
            out[:, outs] += np.einsum("nc...,oc->no...", taken, weight[(outs, slice(None), *at)])
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Array:
    """Every element adds its multiple of the kernel to the output, which is then cropped."""
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return conv_transpose(
            x[None], weight, bias, stride, padding, output_padding, groups, dilation
        )[0]
    kernel = weight.shape[2:]
    stride, dilation, padding, more = (
        tuple_of(v, n) for v in (stride, dilation, padding, output_padding)
    )
    whole = [
        (a - 1) * s + d * (k - 1) + 1 + m
        for a, s, d, k, m in zip(x.shape[2:], stride, dilation, kernel, more, strict=True)
    ]
    ins, outs = weight.shape[0] // groups, weight.shape[1]
    out = np.zeros((x.shape[0], outs * groups, *whole))
    for at in np.ndindex(*kernel):
        window = tuple(
            slice(d * k, d * k + s * (a - 1) + 1, s)
            for d, k, s, a in zip(dilation, at, stride, x.shape[2:], strict=True)
        )
        for g in range(groups):
            taken = x[:, g * ins : (g + 1) * ins]
            w = weight[(slice(g * ins, (g + 1) * ins), slice(None), *at)]
            out[(slice(None), slice(g * outs, (g + 1) * outs), *window)] += np.einsum(
                "nc...,co->no...", taken, w
            )
    cropped = tuple(slice(p, size - p) for p, size in zip(padding, whole, strict=True))
    out = out[(slice(None), slice(None), *cropped)]
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def window_positions(
    sizes: Sequence[int],
    kernel: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
) -> list[list[list[int]]]:
    """For each dimension, for each window: the positions it covers, in the padding too."""
    n = len(sizes)
    kernel, padding, dilation = (tuple_of(v, n) for v in (kernel, padding, dilation))
    stride = kernel if stride is None else tuple_of(stride, n)
    found = []
    for size, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        free = size + 2 * p - d * (k - 1) - 1
        m = (-(-free // s) if ceil_mode else free // s) + 1
        # The last window must start inside the input or its left padding.
        if ceil_mode and (m - 1) * s >= size + p:
            m -= 1
        found.append([[i * s - p + j * d for j in range(k)] for i in range(m)])
    return found


def even_positions(sizes: Sequence[int], output_size: Any) -> list[list[list[int]]]:
    """The windows of adaptive pools."""
    wanted = (output_size,) * len(sizes) if not isinstance(output_size, tuple) else output_size
    found = []
    for n, asked in zip(sizes, wanted, strict=True):
        m = n if asked is None else asked
        found.append(
            [list(range(math.floor(i * n / m), math.ceil((i + 1) * n / m))) for i in range(m)]
        )
    return found


def inside(window: Sequence[Sequence[int]], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return [
        at
        for at in itertools.product(*window)
        if all(0 <= i < n for i, n in zip(at, sizes, strict=True))
    ]


def over_windows(x: Array, positions: list[list[list[int]]], value: Any) -> Array:
    """value(plane, window) for every plane and window; a window is one list for each dimension."""
    n = len(positions)
    out = np.empty((*x.shape[: x.ndim - n], *(len(p) for p in positions)), object)
    for at in np.ndindex(out.shape):
        window = [p[i] for p, i in zip(positions, at[-n:], strict=True)]
        out[at] = value(x[at[:-n]], window)
    return out


def largest(x: Array, positions: list[list[list[int]]], return_indices: bool) -> Any:
    sizes = x.shape[-len(positions) :]

    def best(plane: Array, window: Any) -> tuple[int, ...]:
        return max(inside(window, sizes), key=lambda at: plane[at])

    values = over_windows(x, positions, lambda p, w: p[best(p, w)]).astype(x.dtype)
    if not return_indices:
        return values
    index = over_windows(x, positions, lambda p, w: np.ravel_multi_index(best(p, w), sizes))
    return values, index.astype(np.int64)


def max_pool(n: int) -> Any:
    def reference(
        x: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        positions = window_positions(
            x.shape[-n:], kernel_size, stride, padding, dilation, ceil_mode
        )
        return largest(x, positions, return_indices)

    return reference


def adaptive_max_pool(n: int) -> Any:
    def reference(x: Array, output_size: Any, return_indices: bool = False) -> Any:
        return largest(x, even_positions(x.shape[-n:], output_size), return_indices)

    return reference


def avg_pool(n: int) -> Any:
    def reference(
        x: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        sizes, pads = x.shape[-n:], tuple_of(padding, n)

        def average(plane: Array, window: Any) -> Any:
            covered = inside(window, sizes)
            padded = math.prod(
                sum(i < size + p for i in w) for w, size, p in zip(window, sizes, pads, strict=True)
            )
            size = divisor_override or (padded if count_include_pad else len(covered))
            return sum(plane[at] for at in covered) / size

        positions = window_positions(sizes, kernel_size, stride, padding, 1, ceil_mode)
        return over_windows(x, positions, average).astype(np.float64)

    return reference


def adaptive_avg_pool(n: int) -> Any:
    def reference(x: Array, output_size: Any) -> Array:
        positions = even_positions(x.shape[-n:], output_size)
        return over_windows(
            x, positions, lambda plane, window: plane[np.ix_(*window)].mean()
        ).astype(np.float64)

    return reference


def lp_pool(n: int) -> Any:
    def reference(
        x: Array, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None
    ) -> Array:
        positions = window_positions(x.shape[-n:], kernel_size, stride, 0, 1, False)

        def norm(plane: Array, window: Any) -> Any:
            values = plane[np.ix_(*window)].ravel()
            return np.linalg.norm(values, norm_type)

        return over_windows(x, positions, norm).astype(np.float64)

    return reference


def max_unpool(n: int) -> Any:
    def reference(
        x: Array,
        indices: Array,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        output_size: Any = None,
    ) -> Array:
        kernel, pads = tuple_of(kernel_size, n), tuple_of(padding, n)
        steps = kernel if stride is None else tuple_of(stride, n)
        size = output_size or tuple(
            (m - 1) * s + k - 2 * p
            for m, s, k, p in zip(x.shape[-n:], steps, kernel, pads, strict=True)
        )
        out = np.zeros((*x.shape[:-n], *size[-n:]))
        for at in np.ndindex(x.shape):
            out[at[:-n]].flat[indices[at]] = x[at]
        return out

    return reference


def keys(x: float, a: float) -> float:
    """Keys' cubic kernel."""
    x = abs(x)
    if x <= 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def resampling_matrix(
    mode: str, n: int, m: int, align: bool, factor: float | None, antialias: bool
) -> Array:
    """[m, n]: what each input position adds to each output position."""
    matrix = np.zeros((m, n))
    step = n / m if factor is None else 1 / factor
    if align:
        step = (n - 1) / (m - 1) if m > 1 else 0.0
    cubic = mode == "bicubic"

    def kernel(x: float) -> float:
        if cubic:
            return keys(x, -0.5 if antialias else -0.75)
        return max(0.0, 1 - abs(x))

    for i in range(m):
        if mode.startswith("nearest"):
            at = math.floor((i + (0.5 if mode == "nearest-exact" else 0)) * step)
            matrix[i, min(at, n - 1)] = 1
        elif mode == "area":
            window = list(range(math.floor(i * n / m), math.ceil((i + 1) * n / m)))
            matrix[i, window] = 1 / len(window)
        elif antialias:
            centre, wide = step * (i + 0.5), max(step, 1.0)
            reach = (2 if cubic else 1) * wide
            for j in range(max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)):
                matrix[i, j] = kernel((j + 0.5 - centre) / wide)
            matrix[i] /= matrix[i].sum()
        else:  # the edge elements repeat beyond the edges
            at = step * i if align else step * (i + 0.5) - 0.5
            for j in range(math.floor(at) - 2, math.floor(at) + 4):
                matrix[i, min(max(j, 0), n - 1)] += kernel(at - j)
    return matrix


def interpolate(
    x: Array,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    n = x.ndim - 2
    factors: Any = (None,) * n
    if size is None:
        factors = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * n
        wanted = [math.floor(a * s) for a, s in zip(x.shape[2:], factors, strict=True)]
        if recompute_scale_factor or mode == "area":
            factors = (None,) * n
    else:
        wanted = list(size) if isinstance(size, tuple) else [size] * n
    for d, m in enumerate(wanted):
        matrix = resampling_matrix(
            mode, x.shape[2 + d], m, bool(align_corners), factors[d], antialias
        )
        x = np.moveaxis(np.tensordot(x, matrix, (2 + d, 1)), -1, 2 + d)
    return x


def local_response_norm(
    x: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Array:
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        low, high = max(c - size // 2, 0), min(c + (size - 1) // 2, x.shape[1] - 1)
        mean = (x[:, low : high + 1] ** 2).sum(1) / size
        out[:, c] = x[:, c] / (k + alpha * mean) ** beta
    return out


def reflected(at: float, n: int, align: bool) -> float:
    """Walks back and forth between the borders."""
    low, high = (0.0, n - 1.0) if align else (-0.5, n - 0.5)
    if low == high:
        return 0.0
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def grid_sample(
    x: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Array:
    """Each point by itself: a kernel over the neighbouring elements, along every dimension."""
    sizes = x.shape[2:]
    out = np.zeros((*x.shape[:2], *grid.shape[1:-1]))

    def bounded(at: float, n: int) -> float:
        if padding_mode == "reflection":
            at = reflected(at, n, align_corners)
        return at if padding_mode == "zeros" else min(max(at, 0.0), n - 1.0)

    for point in np.ndindex(grid.shape[:-1]):
        neighbours: list[list[tuple[int, float]]] = []
        for n, c in zip(sizes, grid[point][::-1], strict=True):
            at = (c + 1) / 2 * (n - 1) if align_corners else ((c + 1) * n - 1) / 2
            if mode == "bicubic":
                near = [math.floor(at) + k for k in (-1, 0, 1, 2)]
                neighbours.append([(int(bounded(j, n)), keys(at - j, -0.75)) for j in near])
                continue
            at = bounded(at, n)
            if mode == "nearest":
                neighbours.append([(round(at), 1.0)])
            else:
                low = math.floor(at)
                neighbours.append([(low, low + 1 - at), (low + 1, at - low)])
        for corner in itertools.product(*neighbours):
            place = tuple(j for j, _ in corner)
            if all(0 <= j < n for j, n in zip(place, sizes, strict=True)):
                weight = math.prod(w for _, w in corner)
                out[(point[0], slice(None), *point[1:])] += (
                    weight * x[(point[0], slice(None), *place)]
                )
    return out


def affine_grid(theta: Array, size: Sequence[int], align_corners: bool = False) -> Array:
    sizes = tuple(size[2:])
    out = np.zeros((size[0], *sizes, len(sizes)))
    for at in np.ndindex(sizes):
        points = [
            (2 * i / (n - 1) - 1 if n > 1 else 0.0) if align_corners else (2 * i + 1) / n - 1
            for i, n in zip(at, sizes, strict=True)
        ]
        out[(slice(None), *at)] = theta @ np.array([*points[::-1], 1.0])
    return out
