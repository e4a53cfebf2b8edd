"""Products of matrices, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinyt.testing.reference.form import Array, Formula, Row, Sized, Sizes, at, each


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    out = x @ weight.T
    return out if bias is None else out + bias


def bilinear(x1: Array, x2: Array, weight: Array, bias: Array | None = None) -> Array:
    out = np.einsum("...i,oij,...j->...o", x1, weight, x2)
    return out if bias is None else out + bias


def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    """Cross-correlation."""
    n = weight.ndim - 2
    if x.ndim == n + 1:
        return conv(x[None], weight, bias, stride, padding, dilation, groups)[0]
    stride, dilation = each(stride, n), each(dilation, n)
    if padding == "same":  # the odd element goes to the right
        more = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        x = np.pad(x, [(0, 0), (0, 0), *((m // 2, m - m // 2) for m in more)])
    sides = each(0 if isinstance(padding, str) else padding, n)
    found = _correlate(x, weight, (stride, sides, dilation, groups))
    return found if bias is None else found + bias.reshape(-1, *[1] * n)


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
    """The gradient of a convolution's input."""
    n = weight.ndim - 2
    if x.ndim == n + 1:
        more = (stride, padding, output_padding, groups, dilation)
        return conv_transpose(x[None], weight, bias, *more)[0]
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    sides = (x.shape[2:], weight.shape[2:], stride, padding, dilation, each(output_padding, n))
    size = [
        (a - 1) * s + d * (k - 1) + 1 + more - 2 * p
        for a, k, s, p, d, more in zip(*sides, strict=True)
    ]
    shape = (x.shape[0], weight.shape[1] * groups, *size)
    found = _correlate_input(x, weight, shape, (stride, padding, dilation, groups))
    return found if bias is None else found + bias.reshape(-1, *[1] * n)


def _windows(kernel: Sequence[int], out: Sequence[int], a: Any) -> Iterator[Any]:
    """For each position in the kernel, what of the padded input the outputs take."""
    for place in np.ndindex(*kernel):
        spans = zip(a[2], place, a[0], out, strict=True)
        yield (
            place,
            tuple(slice(d * k, d * k + s * (m - 1) + 1 if m else 0, s) for d, k, s, m in spans),
        )


_padded: Formula = lambda x, padding: np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])


def _groups(ins: int, outs: int, groups: int) -> list[tuple[slice, slice]]:
    i, o = ins // groups, outs // groups
    return [(slice(g * i, g * i + i), slice(g * o, g * o + o)) for g in range(groups)]


def _correlate(x: Array, weight: Array, a: Any) -> Array:
    """A sum over kernel positions of a matrix product over channels. `a`: stride, padding and
    dilation of each dimension, and groups."""
    x, kernel = _padded(x, a[1]), weight.shape[2:]
    steps = zip(x.shape[2:], kernel, a[0], a[2], strict=True)
    out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in steps]
    found = np.zeros((x.shape[0], weight.shape[0], *out), x.dtype)
    for place, window in _windows(kernel, out, a):
        for ins, outs in _groups(x.shape[1], weight.shape[0], a[3]):
            taken = x[at(slice(None), ins, *window)]
            found[:, outs] += np.einsum("nc...,oc->no...", taken, weight[at(outs, ..., *place)])
    return found


def _correlate_input(g: Array, weight: Array, size: Sequence[int], a: Any) -> Array:
    """Every element adds its multiple of the kernel to the input, which is then cropped."""
    found = _padded(np.zeros(tuple(size), g.dtype), a[1])
    for place, window in _windows(weight.shape[2:], g.shape[2:], a):
        for ins, outs in _groups(size[1], weight.shape[0], a[3]):
            part = np.einsum("no...,oc->nc...", g[:, outs], weight[at(outs, ..., *place)])
            found[at(slice(None), ins, *window)] += part
    inner = zip(a[1], found.shape[2:], strict=True)
    return found[at(slice(None), slice(None), *(slice(p, n - p) for p, n in inner))]


def _correlate_weight(g: Array, x: Array, size: Sequence[int], a: Any) -> Array:
    x, found, space = _padded(x, a[1]), np.zeros(tuple(size), g.dtype), "xyz"[: g.ndim - 2]
    for place, window in _windows(size[2:], g.shape[2:], a):
        for ins, outs in _groups(x.shape[1], size[0], a[3]):
            taken, form = x[at(slice(None), ins, *window)], f"no{space},nc{space}->oc"
            found[at(outs, ..., *place)] += np.einsum(form, g[:, outs], taken, optimize=True)
    return found


def _flushed(*operands: Array, terms: int) -> float:
    """Of sums of products: at most all terms, times what they are multiplied with."""
    return terms * sum((abs(x[np.isfinite(x)]).max(initial=0) for x in operands), 1.0)


def _matmul(a: Array, b: Array) -> Sized:
    terms = a.shape[-1]
    return Sized(a @ b, (abs(a) @ abs(b)) * terms, flushed=_flushed(a, b, terms=terms))


def _matmul_add(a: Array, b: Array, c: Array) -> Sized:
    found = _matmul(a, b)
    return found._replace(want=found.want + c, scale=found.scale + abs(c), rounded=abs(found.want))


def _each_conv(function: Callable[..., Array], *operands: Array, terms: int) -> Sized:
    """A sum of products, and its size by absolute values."""
    scale = function(*map(abs, operands)) * terms
    return Sized(function(*operands), scale, flushed=_flushed(*operands, terms=terms))


def _beside_zeros(
    found: Sized, function: Callable[..., Array], g: Array, other: Array, count: Any
) -> Sized:
    """Zeros lie around and between the elements of g. Whether they are terms of a sum is not told,
    so that NaN is right, too, where one meets what is not finite: where fewer than all (their
    ``count``) of these meet an element."""
    wild = (~np.isfinite(other)).astype(np.float64)
    if not wild.any():
        return found
    met = function(np.ones(g.shape), wild)
    return found._replace(scale=np.where(met < count(wild), np.inf, found.scale))


def _conv(x: Array, weight: Array, *a: Any) -> Sized:
    terms = weight[0].size if len(weight) else 1
    return _each_conv(partial(_correlate, a=a), x, weight, terms=terms)


def _conv_backward_input(g: Array, weight: Array, size: Sequence[int], *a: Any) -> Sized:
    def count(wild: Array) -> Array:
        parts = wild.reshape(a[3], -1, wild.shape[1], math.prod(wild.shape[2:]))
        return parts.sum((1, 3)).reshape(1, -1, *(1,) * (g.ndim - 2))

    run = partial(_correlate_input, size=size, a=a)
    found = _each_conv(run, g, weight, terms=weight[:, 0].size if weight.size else 1)
    return _beside_zeros(found, run, g, weight, count)


def _conv_backward_weight(g: Array, x: Array, size: Sequence[int], *a: Any) -> Sized:
    def count(wild: Array) -> Array:
        parts = wild.sum((0, *range(2, wild.ndim))).reshape(a[3], 1, -1)
        return parts.repeat(size[0] // a[3], 1).reshape(*size[:2], *(1,) * (g.ndim - 2))

    run = partial(_correlate_weight, size=size, a=a)
    found = _each_conv(run, g, x, terms=g.size // max(g.shape[1], 1))
    return _beside_zeros(found, run, g, x, count)


ROWS = {
    "matmul": Row(_matmul, 1),
    "matmul_add": Row(_matmul_add, 1),
    "linear": Row(lambda x, weight, bias: _matmul_add(x, weight.T, bias if bias.ndim else 0), 1),
    "int_mm": Row(lambda a, b: (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32), 0),
    "conv": Row(_conv, 8),
    "conv_backward_input": Row(_conv_backward_input, 8),
    "conv_backward_weight": Row(_conv_backward_weight, 8),
}
