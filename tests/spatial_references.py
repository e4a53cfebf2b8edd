"""What convolutions, pools and resampling mean, in NumPy and float64: straight formulas, written
independently of the library, like references.py."""

from __future__ import annotations

import itertools
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


def max_pool2d(
    x: Array,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    kernel, padding, dilation = (tuple_of(v, 2) for v in (kernel_size, padding, dilation))
    stride = kernel if stride is None else tuple_of(stride, 2)
    size = []
    for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, padding, dilation, strict=True):
        free = n + 2 * p - d * (k - 1) - 1
        m = (-(-free // s) if ceil_mode else free // s) + 1
        # The last window must start inside the input or its left padding.
        size.append(m - 1 if ceil_mode and (m - 1) * s >= n + p else m)
    out = np.empty((*x.shape[:-2], *size), x.dtype)
    index = np.empty(out.shape, np.int64)
    for at in np.ndindex(out.shape):
        *front, i, j = at
        rows = [i * stride[0] - padding[0] + k * dilation[0] for k in range(kernel[0])]
        columns = [j * stride[1] - padding[1] + k * dilation[1] for k in range(kernel[1])]
        inside = [
            (r, c)
            for r, c in itertools.product(rows, columns)
            if 0 <= r < x.shape[-2] and 0 <= c < x.shape[-1]
        ]
        best = max(inside, key=lambda rc: x[(*front, *rc)])
        out[at], index[at] = x[(*front, *best)], best[0] * x.shape[-1] + best[1]
    return (out, index) if return_indices else out


def max_pool1d(x: Array, kernel_size: int, stride: int | None = None, padding: int = 0) -> Array:
    kernel, stride = (1, kernel_size), (1, kernel_size if stride is None else stride)
    return max_pool2d(x[..., None, :], kernel, stride, (0, padding))[..., 0, :]
