"""Gradients of every elementwise operation of the table at 0, at tiny, huge and infinite values, at
NaN and at the ends of domains: those of float32 against PyTorch's in float64."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tinyt
from op_rows import Op
from op_samples import FAMILIES
from sampling import Array, Sample, arrays_in, flat, map_arrays, to_numpy

ELEMENTWISE = ("Unary", "Functions", "Binary", "Pointwise", "Activations")
OPS = [op for family in ELEMENTWISE for op in FAMILIES[family] if op.grad]

ABOVE = float(np.nextafter(np.float32(1), np.float32(2)))
BELOW = float(np.nextafter(np.float32(1), np.float32(0)))
LARGEST = float(np.finfo(np.float32).max)
SIZES = (
    0, 1.4e-45, 1e-40, 1.18e-38, 1e-30, 1e-20, 1e-10, 1e-4, 0.1, 0.25, 0.3, 0.5, 0.9, BELOW, 1,
    ABOVE, 2, 3, 3.3, 6, 10, 20, 30, 50, 88, 100, 1e3, 1e4, 1e5, 1e10, 1e19, 1e20, 1e30, LARGEST,
    np.inf,
)  # fmt: skip
FEWER = (0, 1e-40, 1e-20, 0.5, 1, 3, 50, 1e4, 1e20, LARGEST, np.inf)
FEWEST = (0, 1e-20, 0.5, 1, 3, 1e20, np.inf)


def both_signs(sizes: tuple[float, ...]) -> Array:
    return np.array([*sizes, *(-v for v in sizes), np.nan], np.float32)


def points(arguments: int) -> list[Array]:
    """Every combination of values for as many arguments."""
    values = both_signs((SIZES, FEWER, FEWEST)[arguments - 1])
    return [grid.ravel() for grid in np.meshgrid(*[values] * arguments)]


# PyTorch takes the slope from the rounded result, too, or lets the same intermediate overflow: what
# its float32 gives is good enough.
AS_THERE = {
    "tanh": "from the result",
    "sigmoid": "from the result",
    "pow": "x ** (e - 1) overflows at subnormals",
    "hypot": "the result overflows",
    "sinc": "the angle pi x is rounded",
    "mvlgamma": "x - 1/2, x - 1, ... are rounded",
}

Mask = Callable[..., Any]


def near_zero(x: Array) -> Array:
    return np.abs(x) < 0.25


def near_zero_or_far(x: Array) -> Array:
    return near_zero(x) | (np.abs(x) > 1e15)


def negative_integer(x: Array) -> Array:
    return (x < 0) & (x == np.floor(x))


def not_a_number(*x: Array) -> Array:
    return np.isnan(x).any(0)


def infinite(*x: Array) -> Array:
    return np.isinf(x).any(0)


def far_left(x: Array) -> Array:
    return x <= -10


# Where tinyt is right and PyTorch is not, and why. Closed forms: unit/test_gradient_edges.py.
THERE_WRONG: dict[str, tuple[str, Mask]] = {
    "expm1": ("from the result, of which nothing is left far below 0", far_left),
    "digamma": ("poles are rounded away in float64", negative_integer),
    "polygamma": ("poles are rounded away in float64; NaN at inf",
                  lambda x: negative_integer(x) | np.isinf(x)),
    "trigamma": ("NaN at inf, where the limit is 0", infinite),
    "special_zeta": ("NaN at inf, where the limit is 0", lambda q: np.isinf(q)),
    "i0": ("NaN at inf, where the limit is inf", infinite),
    "special_i0e": ("a difference of nearly equal numbers far out", lambda x: np.abs(x) > 1e4),
    "special_i1e": ("a difference of nearly equal numbers far out; 1/2 for NaN",
                    lambda x: (np.abs(x) > 1e4) | np.isnan(x)),
    "special_i1": ("1/2 for NaN; NaN far out, where the limit is inf",
                   lambda x: np.isnan(x) | (np.abs(x) > 100)),
    "sinc": ("a difference of nearly equal numbers near 0; here the angle is rounded far out",
             near_zero_or_far),
    "tanhshrink": ("a difference of nearly equal numbers near 0", near_zero),
    "gelu": ("NaN at infinities; a difference of nearly equal numbers far below 0",
             lambda x: far_left(x) | np.isinf(x)),
    "gelu_tanh": ("NaN at infinities; nothing is left far below 0",
                  lambda x: far_left(x) | np.isinf(x)),
    "mish": ("NaN at infinities", infinite),
    "softsign": ("NaN at infinities", infinite),
    "elu": ("hides a NaN", not_a_number),
    "ldexp": ("NaN for 0 and infinities, where the power of two alone leaves the range",
              lambda x, n: ((x == 0) | np.isinf(x)) & np.isfinite(n) & (np.abs(n) > 1000)),
    "celu": ("hides a NaN", not_a_number),
    "selu": ("hides a NaN", not_a_number),
    "hardswish": ("hides a NaN", not_a_number),
    "hardtanh": ("of a NaN 0 or 1, by where it lies in memory", not_a_number),
    "relu6": ("of a NaN 0 or 1, by where it lies in memory", not_a_number),
    "hardshrink": ("of a NaN 0 or 1, by where it lies in memory", not_a_number),
    "softshrink": ("of a NaN 0 or 1, by where it lies in memory", not_a_number),
    "copysign": ("NaN at infinities, where the slope is 1 or -1", lambda x, *_: np.isinf(x)),
    "pow": ("NaN for -inf to the power 1/2", lambda x, *_: np.isneginf(x)),
    "float_power": ("NaN for -inf to the power 1/2", lambda x, *_: np.isneginf(x)),
    "special_erfcx": ("a difference of nearly equal numbers far out", lambda x: x > 1e4),
    "special_log_ndtr": ("NaN at -inf, where the limit is inf", infinite),
    "igamma": ("NaN at 0 and inf, where the density has limits; 0 outside the domain",
               lambda a, x: (x == 0) | np.isinf(x) | (a < 0) | (x < 0)),
    "igammac": ("NaN at 0 and inf, where the density has limits; 0 outside the domain",
                lambda a, x: (x == 0) | np.isinf(x) | (a < 0) | (x < 0)),
    "frexp": ("scales by the exponent in one step, which underflows", lambda x: np.abs(x) > 1e38),
}  # fmt: skip


def gradients(tt: Any, op: Op, sample: Sample, values: list[Array], dtype: Any) -> list[Array]:
    """Those of the sum of the results to every argument, float ones in another dtype; zeros where
    nothing depends on any."""
    left = iter(values)
    leaves: list[Any] = []

    def leaf(array: Array, differentiable: bool) -> Any:
        if array.dtype.kind != "f":
            return tt.tensor(array)
        leaves.append(tt.tensor(next(left).astype(dtype)).requires_grad_(differentiable))
        return leaves[-1]

    args, kwargs = map_arrays((sample.args, sample.kwargs), leaf, lambda name: getattr(tt, name))
    results = [t for t in flat(op.function(tt)(*args, **kwargs)) if t.requires_grad]
    if results:
        sum(t.sum() for t in results).backward()
    found = [np.zeros(tuple(x.shape)) if x.grad is None else to_numpy(x.grad) for x in leaves]
    for x in leaves:
        x.grad = None
    return found


def float_arguments(sample: Sample) -> int:
    found = 0

    def count(array: Array, differentiable: bool) -> None:
        nonlocal found
        found += array.dtype.kind == "f"

    map_arrays((sample.args, sample.kwargs), count, str)
    return found


def kinds(op: Op, rng: np.random.Generator) -> dict[str, Sample]:
    """One sample for each set of arguments beside the tensors."""
    found: dict[str, Sample] = {}
    for sample in op.samples(rng, "float32"):
        key = repr(map_arrays((sample.args, sample.kwargs), lambda a, d: a.dtype.kind, str))
        if 1 <= float_arguments(sample) <= 3:
            found.setdefault(key, sample)
    return found


def close(got: Array, want: Array) -> Array:
    """Rounding apart; below the normal numbers anything is as good as 0."""
    rounded = want.astype(np.float32)
    bound = np.maximum(2e-5 * np.abs(want), np.finfo(np.float32).tiny)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return same | (np.abs(got.astype(np.float64) - want) <= bound)


# Their arguments have shapes of their own.
BY_SHAPE = ("prelu", "glu", "softmin")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name not in BY_SHAPE], ids=lambda op: op.name
)
def test_gradient_at_edges(op: Op, rng: np.random.Generator) -> None:
    for key, sample in kinds(op, rng).items():
        values = points(float_arguments(sample))
        ours = gradients(tinyt, op, sample, values, np.float32)
        theirs = gradients(torch, op, sample, values, np.float64)
        with np.errstate(all="ignore"):
            rounded = [a.astype(np.float32) for a in theirs]
            fine = [close(a, b) for a, b in zip(ours, theirs, strict=True)]
            if op.name in AS_THERE:
                rounded = gradients(torch, op, sample, values, np.float32)
                fine = [f | close(a, b) for f, a, b in zip(fine, ours, rounded, strict=True)]
            skipped = THERE_WRONG[op.name][1](*values) if op.name in THERE_WRONG else False
        for number, (good, got, want) in enumerate(zip(fine, ours, rounded, strict=True)):
            bad = np.flatnonzero(~(good | skipped))
            at = [[float(v[i]) for v in values] + [got[i], want[i]] for i in bad[:5]]
            assert not len(bad), f"{op.name} {key} argument {number}: at, got, want {at}"


# ---- one element at an edge, among others

OTHERS = ("Reductions", "Scans", "Order", "Losses")
AT = (np.nan, np.inf, -np.inf, 1e30, 1e-40, 0.0)
# Where neither of PyTorch's precisions gives what tinyt does, and why.
RIGHT_HERE = {
    "amax": "the gradient of a NaN goes to the NaNs, as that of max; in PyTorch NaN to all",
    "amin": "the gradient of a NaN goes to the NaNs, as that of min; in PyTorch NaN to all",
    "aminmax": "the gradient of a NaN goes to the NaNs, as that of max; in PyTorch NaN to all",
    "dist": "a NaN in the distance is one in the gradient",
    "renorm": "the factor's gradient is NaN with the norm",
    "cumprod": "a NaN in a later product is one in the gradient, behind a zero, too",
    "nanmean": "zero for what is left out, also where nothing is left",
    "kl_div": "the targets' logarithm at 0 is left out of the gradient, too",
    "corrcoef": "1e30 takes all digits of the others, by the order of the sums",
    "soft_margin_loss": "the exponential does not overflow",
    "cosine_similarity": "of one element: zero but for rounding",
}


def with_edge(sample: Sample, which: int, edge: float) -> list[Array]:
    """The float arrays of a sample, an element in the middle of one of them at an edge."""
    found = [a.copy() for a, _ in arrays_in([sample.args, sample.kwargs]) if a.dtype.kind == "f"]
    found[which].reshape(-1)[found[which].size // 2 :][:1] = edge
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "op",
    [
        op
        for family in OTHERS
        for op in FAMILIES[family]
        if op.grad and "float32" in op.dtypes and op.name not in RIGHT_HERE
    ],
    ids=lambda op: op.name,
)
def test_gradient_of_an_edge_among_others(op: Op, rng: np.random.Generator) -> None:
    for number, sample in enumerate(op.samples(rng, "float32")[:3]):
        count = float_arguments(sample)
        if not sample.grad or count == 0:
            continue
        for which, edge in itertools.product(range(count), AT):
            values = with_edge(sample, which, edge)
            try:
                wide, narrow = (
                    gradients(torch, op, sample, values, t) for t in (np.float64, np.float32)
                )
            except (RuntimeError, ValueError):
                continue  # an error for such values
            ours = gradients(tinyt, op, sample, values, np.float32)
            with np.errstate(all="ignore"):
                for a, b, c in zip(ours, wide, narrow, strict=True):
                    size = np.max(np.abs(b), initial=0, where=np.isfinite(b))
                    near = np.abs(a - b) <= 2e-5 * min(1.0, float(size))
                    good = close(a, b) | close(a, c) | near
                    what = f"{op.name} sample {number} argument {which} at {edge}: {a} for {b}"
                    assert good.all(), what
