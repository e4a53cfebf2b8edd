"""The statistics of a comparison: geometric mean, and how far a ratio may be off by noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def geometric_mean(ratios: Sequence[float]) -> float:
    """NaN for none."""
    if not ratios:
        return math.nan
    return math.exp(math.fsum(math.log(r) for r in ratios) / len(ratios))


def ratio_of_bests(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """How many times the best of our rounds fits into the best of theirs."""
    return min(theirs) / min(ours)


def upper_bound(
    ours: Sequence[float],
    theirs: Sequence[float],
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> float:
    """One-sided upper confidence bound of `ratio_of_bests`, by bootstrap over the rounds.

    Rounds are drawn with replacement as pairs, since both sides of a round saw the same noise
    (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13: the percentile interval).
    It is never below the ratio itself.
    """
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape or a.ndim != 1 or not a.size:
        raise ValueError(f"upper_bound: needs rounds in pairs, got {a.shape} and {b.shape}")
    picked = np.random.default_rng(seed).integers(0, a.size, (draws, a.size))
    ratios = b[picked].min(1) / a[picked].min(1)
    return max(float(np.quantile(ratios, level)), ratio_of_bests(ours, theirs))
