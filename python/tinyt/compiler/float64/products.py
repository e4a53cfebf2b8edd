"""Products of matrices, and convolutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinyt.compiler.float64.form import Array, Row, Sized, at


def rows() -> dict[str, Row]:
    """Their rows."""
    import numpy as np

    def matmul(a: Array, b: Array) -> Any:
        if a.dtype.kind not in "fc":
            return a @ b
        terms = a.shape[-1]
        return Sized(a @ b, (abs(a) @ abs(b)) * terms, flushed=_flushed(a, b, terms=terms))

    def added(a: Array, b: Array, c: Array) -> Any:
        found = matmul(a, b)
        if not isinstance(found, Sized):
            return found + c
        return found._replace(
            want=found.want + c, scale=found.scale + abs(c), rounded=abs(found.want)
        )

    def linear(x: Array, weight: Array, bias: Array) -> Any:
        return added(x, weight.T, bias if bias.ndim else np.zeros((), bias.dtype))

    def int_mm(a: Array, b: Array) -> Array:
        return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)

    return {
        "matmul": Row(matmul, 1),
        "matmul_add": Row(added, 1),
        "linear": Row(linear, 1),
        "int_mm": Row(int_mm, 0),
        "conv": Row(_conv, 8),
        "conv_backward_input": Row(_conv_backward_input, 8),
        "conv_backward_weight": Row(_conv_backward_weight, 8),
    }


def _flushed(*operands: Array, terms: int) -> float:
    """Of sums of products: at most all terms, times what they are multiplied with."""
    import numpy as np

    return terms * sum((abs(x[np.isfinite(x)]).max(initial=0.0) for x in operands), 1.0)


def _windows(size: Sequence[int], kernel: Sequence[int], out: Sequence[int], a: Any) -> Any:
    """For each position in the kernel, what of the padded input the outputs take."""
    import numpy as np

    for place in np.ndindex(*kernel):
        yield (
            place,
            tuple(
                slice(d * k, d * k + s * (m - 1) + 1 if m else 0, s)
                for d, k, s, m in zip(a[2], place, a[0], out, strict=True)
            ),
        )


def _padded(x: Array, padding: Sequence[int]) -> Array:
    import numpy as np

    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])


def _each_conv(function: Callable[..., Array], *operands: Array, terms: int, a: Any) -> Sized:
    """By groups, and once more with absolute values."""
    scale = function(*map(abs, operands), a) * terms
    return Sized(function(*operands, a), scale, flushed=_flushed(*operands, terms=terms))


def _beside_zeros(
    found: Sized, function: Callable[..., Array], g: Array, other: Array, count: Any, a: Any
) -> Sized:
    """Zeros lie around and between the elements of g. Whether they are terms of a sum is not told,
    so that NaN is right, too, where one meets what is not finite: where fewer than all (their
    ``count``) of these meet an element."""
    import numpy as np

    wild = (~np.isfinite(other)).astype(np.float64)
    if not wild.any():
        return found
    met = function(np.ones(g.shape), wild, a)
    return found._replace(scale=np.where(met < count(wild), np.inf, found.scale))


def _conv(x: Array, weight: Array, *a: Any) -> Sized:
    import numpy as np

    def run(x: Array, weight: Array, a: Any) -> Array:
        stride, padding, dilation, groups = a
        x = _padded(x, padding)
        kernel = weight.shape[2:]
        steps = zip(x.shape[2:], kernel, stride, dilation, strict=True)
        out = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in steps]
        found = np.zeros((x.shape[0], weight.shape[0], *out), x.dtype)
        for place, window in _windows(x.shape[2:], kernel, out, a):
            for ins, outs in _groups(x.shape[1], weight.shape[0], groups):
                taken = x[at(slice(None), ins, *window)]
                found[:, outs] += np.einsum("nc...,oc->no...", taken, weight[at(outs, ..., *place)])
        return found

    return _each_conv(run, x, weight, terms=weight[0].size if len(weight) else 1, a=a)


def _groups(ins: int, outs: int, groups: int) -> list[tuple[slice, slice]]:
    i, o = ins // groups, outs // groups
    return [(slice(g * i, g * i + i), slice(g * o, g * o + o)) for g in range(groups)]


def _conv_backward_input(g: Array, weight: Array, size: Sequence[int], *a: Any) -> Sized:
    import numpy as np

    def run(g: Array, weight: Array, a: Any) -> Array:
        padding, groups = a[1], a[3]
        found = _padded(np.zeros(tuple(size), g.dtype), padding)
        for place, window in _windows(found.shape[2:], weight.shape[2:], g.shape[2:], a):
            for ins, outs in _groups(size[1], weight.shape[0], groups):
                part = np.einsum("no...,oc->nc...", g[:, outs], weight[at(outs, ..., *place)])
                found[at(slice(None), ins, *window)] += part
        inner = zip(padding, found.shape[2:], strict=True)
        return found[at(slice(None), slice(None), *(slice(p, n - p) for p, n in inner))]

    def count(wild: Array) -> Array:
        parts = wild.reshape(a[3], -1, wild.shape[1], math.prod(wild.shape[2:]))
        return parts.sum((1, 3)).reshape(1, -1, *(1,) * (g.ndim - 2))

    found = _each_conv(run, g, weight, terms=weight[:, 0].size if weight.size else 1, a=a)
    return _beside_zeros(found, run, g, weight, count, a)


def _conv_backward_weight(g: Array, x: Array, size: Sequence[int], *a: Any) -> Sized:
    import numpy as np

    def run(g: Array, x: Array, a: Any) -> Array:
        x = _padded(x, a[1])
        found = np.zeros(tuple(size), g.dtype)
        space = "xyz"[: g.ndim - 2]
        for place, window in _windows(x.shape[2:], size[2:], g.shape[2:], a):
            for ins, outs in _groups(x.shape[1], size[0], a[3]):
                taken = x[at(slice(None), ins, *window)]
                form = f"no{space},nc{space}->oc"
                found[at(outs, ..., *place)] += np.einsum(form, g[:, outs], taken, optimize=True)
        return found

    def count(wild: Array) -> Array:
        parts = wild.sum((0, *range(2, wild.ndim))).reshape(a[3], 1, -1)
        return parts.repeat(size[0] // a[3], 1).reshape(*size[:2], *(1,) * (g.ndim - 2))

    found = _each_conv(run, g, x, terms=g.size // max(g.shape[1], 1), a=a)
    return _beside_zeros(found, run, g, x, count, a)
