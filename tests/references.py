"""What each operation means, in NumPy and float64: straight formulas, written independently of
the library. Arguments are named and ordered as in the public API; floats arrive as float64."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray
Dims = int | Sequence[int] | None


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Without NumPy's floating-point warnings: NaN and infinity are wanted results here."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args, **kwargs)

    return wrapped


def in_float64(function: Callable[..., Any]) -> Callable[..., Any]:
    """For integers and bools too; NumPy would take a bool to float16."""
    return lambda x, **kwargs: function(np.asarray(x, np.float64), **kwargs)


# ------------------------------------------------------------------ elementwise

erf = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    return np.where(
        x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))
    )


def relu(x: Array) -> Array:
    return np.where(x < 0, np.zeros((), x.dtype), x)


def nan_to_num(x: Array, nan: float = 0.0, **infinities: float) -> Array:
    """With infinities only where a value for them is given: the default depends on the dtype."""
    if np.asarray(x).dtype.kind != "f":
        return x
    x = np.where(np.isnan(x), nan, x)
    for name, sign in (("posinf", 1), ("neginf", -1)):
        if name in infinities:
            x = np.where(x == sign * np.inf, infinities[name], x)
    return x


def heaviside(x: Array, values: Array) -> Array:
    return np.where(x == 0, values, (x > 0).astype(np.asarray(x).dtype))


def clamp(x: Array, min: Any = None, max: Any = None) -> Array:
    if min is not None:
        x = np.maximum(x, min)
    return x if max is None else np.minimum(x, max)


def add(a: Any, b: Any, *, alpha: float = 1) -> Array:
    if np.asarray(a).dtype == bool and np.asarray(b).dtype == bool:
        return np.logical_or(a, b)
    return np.asarray(a) + alpha * np.asarray(b)


def sub(a: Any, b: Any, *, alpha: float = 1) -> Array:
    return np.asarray(a) - alpha * np.asarray(b)


def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Array:
    if rounding_mode == "floor":
        return np.floor_divide(a, b)
    quotient = np.true_divide(a, b)
    if rounding_mode is None:
        return quotient
    integer = np.result_type(a, b).kind in "iu"
    return np.trunc(quotient).astype(np.int64) if integer else np.trunc(quotient)


def where(condition: Array, a: Any, b: Any) -> Array:
    return np.where(condition, a, b)


# ------------------------------------------------------------------ reductions


def axes(dim: Dims) -> int | tuple[int, ...] | None:
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    """A NumPy reduction under PyTorch's argument names."""

    def wrapped(
        x: Array, dim: Dims = None, keepdim: bool = False, dtype: str | None = None
    ) -> Array:
        x = np.asarray(x)
        if x.ndim == 0:
            return np.asarray(function(x, axis=None))
        return np.asarray(function(x, axis=axes(dim), keepdims=keepdim))

    return quiet(wrapped)


def extreme(value: Callable[..., Array], index: Callable[..., Array]) -> Callable[..., Any]:
    """max and min: one value, or along a dimension (values, indices)."""

    def wrapped(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return value(x)
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        return value(x, axis=dim, keepdims=keepdim), index(x, axis=dim, keepdims=keepdim)

    return wrapped


def index_of(function: Callable[..., Array]) -> Callable[..., Array]:
    """argmax and argmin: without a dimension, an index into the flattened tensor."""

    def wrapped(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        if x.ndim == 0:
            return np.zeros((), np.int64)
        found = np.asarray(function(x, axis=dim))
        if keepdim:
            found = found.reshape([1] * x.ndim) if dim is None else np.expand_dims(found, dim)
        return found

    return wrapped


def var(x: Array, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Array:
    axis = axes(dim)
    count = x.size if axis is None else np.prod([x.shape[a] for a in np.atleast_1d(axis)])
    centred = x - np.mean(x, axis=axis, keepdims=True)
    total = np.sum(centred**2, axis=axis, keepdims=keepdim)
    return np.asarray(total / np.maximum(float(count) - correction, 0.0))


def std(x: Array, dim: Dims = None, *, correction: float = 1, keepdim: bool = False) -> Array:
    return np.sqrt(var(x, dim, correction=correction, keepdim=keepdim))


def norm(x: Array, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Array:
    p, kwargs = 2 if p == "fro" else p, {"axis": axes(dim), "keepdims": keepdim}
    if p == 0:
        return np.asarray(np.sum(x != 0, **kwargs)).astype(x.real.dtype)
    if p == np.inf:
        return np.asarray(np.max(np.abs(x), **kwargs))
    return np.asarray(np.sum(np.abs(x) ** p, **kwargs) ** (1 / p))


def renorm(x: Array, p: float, dim: int, maxnorm: float) -> Array:
    others = tuple(d for d in range(x.ndim) if d != dim % x.ndim)
    size = norm(x, p, others, True)
    return np.where(size > maxnorm, x * (maxnorm / (size + 1e-7)), x)


def smallest_and_largest(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    return tuple(reduction(f)(x, dim, keepdim) for f in (np.min, np.max))


def cov(x: Array, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Array:
    return np.cov(x, ddof=correction, fweights=fweights, aweights=aweights)


# ------------------------------------------------------------------ shape


def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    return np.take(x, range(start, start + length), axis=dim)


def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def squeeze(x: Array, dim: Dims = None) -> Array:
    if dim is None:
        return np.squeeze(x)
    dims = [dim] if isinstance(dim, int) else list(dim)
    return np.squeeze(x, axis=tuple(d % x.ndim for d in dims if x.shape[d] == 1))


def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    start, end = start_dim % x.ndim, end_dim % x.ndim
    middle = int(np.prod(x.shape[start : end + 1]))
    return x.reshape(*x.shape[:start], middle, *x.shape[end + 1 :])


def split(x: Array, size: int | Sequence[int], dim: int = 0) -> list[Array]:
    n = x.shape[dim]
    if isinstance(size, int):
        sizes = [size] * (n // size) + ([n % size] if n % size else [])
        sizes = sizes or [0]
    else:
        sizes = list(size)
    ends = np.cumsum(sizes)
    return [np.take(x, range(e - s, e), axis=dim) for s, e in zip(sizes, ends, strict=True)]


def chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    return split(x, max(1, -(-x.shape[dim] // chunks)), dim)


def pad(x: Array, pad: Sequence[int], mode: str = "constant", value: float = 0) -> Array:
    """Pairs from the last dimension on; a negative amount crops."""
    widths = [(0, 0)] * x.ndim
    for k in range(len(pad) // 2):
        widths[x.ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    crop = tuple(
        slice(max(0, -low), n - max(0, -high))
        for n, (low, high) in zip(x.shape, widths, strict=True)
    )
    grow = [(max(0, low), max(0, high)) for low, high in widths]
    return np.pad(x[crop], grow, constant_values=value)


def getitem(x: Array, key: Any) -> Array:
    """Integers select first, as in PyTorch; NumPy counts them among the index arrays."""
    key = key if isinstance(key, tuple) else (key,)
    key = tuple(np.asarray(k) if isinstance(k, list) else k for k in key)
    first: list[Any] = []
    second: list[Any] = []
    for k in key:
        if isinstance(k, Array):
            first += [slice(None)] * (k.ndim if k.dtype == bool else 1)
            second.append(k)
        elif isinstance(k, int):
            first.append(k)
        else:
            first.append(k)
            second.append(k if k is Ellipsis else slice(None))
    return np.asarray(x[tuple(first)])[tuple(second)]


# ------------------------------------------------------------------ gather and scatter


def positions(index: Array, dim: int) -> Any:
    """Every position p of `index` with the target position index[p] put in dimension `dim`."""
    for p in np.ndindex(index.shape):
        yield p, (*p[: dim % index.ndim], int(index[p]), *p[dim % index.ndim + 1 :])


def gather(x: Array, dim: int, index: Array) -> Array:
    if index.ndim == 0:
        return x.reshape(-1)[0].reshape(())
    out = np.empty(index.shape, x.dtype)
    for p, q in positions(index, dim):
        out[p] = x[q]
    return out


def scatter(x: Array, dim: int, index: Array, src: Any) -> Array:
    out = x.copy()
    for p, q in positions(index, dim):
        out[q] = src[p] if isinstance(src, Array) else src
    return out


def scatter_add(x: Array, dim: int, index: Array, src: Array) -> Array:
    out = x.copy()
    for p, q in positions(index, dim):
        out[q] += src[p]
    return out


def index_select(x: Array, dim: int, index: Array) -> Array:
    return np.take(x, index, axis=dim)


def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return np.where(mask, np.asarray(value).astype(x.dtype), x)


def index_add(x: Array, dim: int, index: Array, source: Array) -> Array:
    out = x.copy()
    np.add.at(np.moveaxis(out, dim, 0), index, np.moveaxis(source, dim, 0))
    return out


# ------------------------------------------------------------------ contractions


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    out = x @ weight.T
    return out if bias is None else out + bias


def bilinear(x1: Array, x2: Array, weight: Array, bias: Array | None = None) -> Array:
    out = np.einsum("...i,oij,...j->...o", x1, weight, x2)
    return out if bias is None else out + bias


# ------------------------------------------------------------------ softmax, losses, norms


def log_softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.zeros(())
    shifted = x - np.max(x, axis=dim, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), axis=dim, keepdims=True))


def softmax(x: Array, dim: int) -> Array:
    if x.ndim == 0:
        return np.ones(())
    e = np.exp(x - np.max(x, axis=dim, keepdims=True, initial=-np.inf))
    return e / np.sum(e, axis=dim, keepdims=True)


def layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    axis = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    centred = x - np.mean(x, axis=axis, keepdims=True)
    out = centred / np.sqrt(np.mean(centred**2, axis=axis, keepdims=True) + eps)
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def rms_norm(
    x: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float = 0.0
) -> Array:
    axis = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    out = x / np.sqrt(np.mean(x**2, axis=axis, keepdims=True) + eps)
    return out if weight is None else out * weight


def group_norm(
    x: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """Mean and biased variance of a sample's group of neighbouring channels."""
    out = np.empty_like(x)
    size = x.shape[1] // num_groups
    for n, g in np.ndindex(x.shape[0], num_groups):
        part = x[n, g * size : (g + 1) * size]
        out[n, g * size : (g + 1) * size] = (part - part.mean()) / np.sqrt(part.var() + eps)
    shape = [-1] + [1] * (x.ndim - 2)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


def instance_norm(
    x: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    eps: float = 1e-5,
) -> Array:
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    return group_norm(x, x.shape[1], weight, bias, eps)


def batch_norm(
    x: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """Over every dimension but the second; biased variance, as used for normalising."""
    others = tuple(d for d in range(x.ndim) if d != 1)
    shape = [-1 if d == 1 else 1 for d in range(x.ndim)]
    if training:
        running_mean, running_var = np.mean(x, axis=others), np.var(x, axis=others)
    out = (x - running_mean.reshape(shape)) / np.sqrt(running_var.reshape(shape) + eps)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape)


def embedding(
    index: Array,
    weight: Array,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
) -> Array:
    return weight[index]


def embedding_bag(
    index: Array,
    weight: Array,
    offsets: Array | None = None,
    mode: str = "mean",
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """Bag by bag; an empty one gives zeros."""
    scale = np.ones(index.shape) if per_sample_weights is None else per_sample_weights
    if offsets is None:
        parts = [(row, part) for row, part in zip(index, scale, strict=True)]
    else:
        ends = [*offsets] if include_last_offset else [*offsets, len(index)]
        parts = [(index[a:b], scale[a:b]) for a, b in itertools.pairwise(ends)]
    bags = []
    for places, factor in parts:
        keep = places != (-1 if padding_idx is None else padding_idx)
        rows = weight[places[keep]] * factor[keep][:, None]
        bags.append(getattr(rows, mode)(axis=0) if len(rows) else np.zeros(weight.shape[1]))
    return np.array(bags).reshape(-1, weight.shape[1])


def attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(q k^T scale + mask) v; a masked-out row gives zeros."""
    if enable_gqa:
        heads = query.shape[-3]
        key, value = (np.repeat(x, heads // x.shape[-3], axis=-3) for x in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ np.swapaxes(key, -1, -2) * scale
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    if attn_mask is not None:
        scores = (
            np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
        )
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0.0))
    total = np.sum(e, axis=-1, keepdims=True)
    return np.divide(e, total, out=np.zeros_like(e), where=total > 0) @ value


# ------------------------------------------------------------------ creation


def arange(
    start: float, end: float | None = None, step: float = 1, dtype: str | None = None
) -> Array:
    start, end = (0, start) if end is None else (start, end)
    count = max(0, math.ceil((end - start) / step))
    return start + step * np.arange(count)
