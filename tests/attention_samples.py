"""Operands of attention, and its results in float64, for devices that sum in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

import tinyt

Array = np.ndarray[Any, Any]

# Of results, by the largest value: weights are rounded to bfloat16 and float16, too.
ERRORS = {"float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}

# Of scores, by the largest that such queries and keys may have: sums are in float32.
SCORE_ERROR = 2.0**-22


def drawn(seed: int, shape: tuple[int, ...], dtype: str, size: float = 1.0) -> tinyt.Tensor:
    numbers = np.random.default_rng(seed).normal(0, size, shape)
    return tinyt.from_numpy(numbers).to(getattr(tinyt, dtype))


def exact(x: tinyt.Tensor) -> Array:
    return x.cpu().double().numpy()


def expected(
    q: Array, k: Array, v: Array, mask: Array | None, is_causal: bool, scale: float
) -> tuple[Array, Array]:
    """Results, and logarithms of the sums of exponentials; zeros and -inf where no key is seen."""
    times = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, times, 1), np.repeat(v, times, 1)
    scores = scale * (q @ k.swapaxes(2, 3))
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=bool), scores, -np.inf)
    top = scores.max(3, keepdims=True)
    weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = weights.sum(3, keepdims=True)
    with np.errstate(divide="ignore"):
        sums = (top + np.log(total))[..., 0]
    return weights @ v / np.where(total == 0, 1, total), sums


def operands_of(
    dtype: str,
    batch: int,
    heads: int,
    groups: int,
    queries: int,
    keys: int,
    features: int,
    width: int,
    size: float = 1.0,
) -> list[tinyt.Tensor]:
    return [
        drawn(1, (batch, heads, queries, features), dtype, size),
        drawn(2, (batch, groups, keys, features), dtype, size),
        drawn(3, (batch, groups, keys, width), dtype),
    ]


DTYPES = ["float32", "bfloat16", "float16"]

# Batch, heads of queries and of keys, queries, keys, features of these, of values.
SIZES = [
    (1, 1, 1, 1, 1, 1, 1),
    (2, 2, 1, 5, 9, 8, 8),
    (1, 2, 2, 64, 64, 64, 64),
    (1, 4, 2, 65, 67, 20, 33),
    (1, 1, 1, 130, 129, 128, 128),
    (1, 2, 1, 17, 70, 96, 40),
    (1, 1, 1, 70, 3, 65, 127),
]


def kept_apart(x: tinyt.Tensor) -> tinyt.Tensor:
    """The same elements in memory whose rows begin anywhere."""
    wide = tinyt.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype, device=x.device)
    wide[..., 1:-2] = x
    return wide[..., 1:-2]
