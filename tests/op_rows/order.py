"""Sorting, selection, quantiles."""

from __future__ import annotations

import numpy as np

from op_rows import (
    ALL,
    FLOATS,
    NUMBERS,
    Op,
    Rng,
    bad,
    cases,
    dim_errors,
    f,
    i,
)
from sampling import S, Sample, draw
from tinyt.testing.reference import order as ref


def distinct(rng: Rng, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Where PyTorch leaves open which of equal values is taken."""
    if dtype.startswith("float"):
        return draw(rng, shape, dtype)
    return rng.permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


def lines(*rows: tuple) -> object:
    """Rows of (shape, argument...) with a tensor of distinct values in front."""
    return lambda rng, dt: [
        S(distinct(rng, r[0], dt), *r[1:], grad=np.prod(r[0]) < 99) for r in rows
    ]


def medians(rng: Rng, dtype: str) -> list[Sample]:
    shapes = [((7,), 0), ((4, 6), 1), ((6, 4), 0, True), ((), 0), ((3,), -1, True), ((1, 1), 0)]
    found = [S(distinct(rng, s, dtype), *rest) for s, *rest in shapes]
    found += [S(distinct(rng, s, dtype)) for s in ((5,), (4, 3), ())]
    found.append(S(distinct(rng, (3, 2000), dtype), 1, grad=False))
    if dtype.startswith("float"):
        nan = np.array([[3, np.nan, 1, 2], [np.nan, 5, np.nan, 4]], dtype)
        found += [S(nan, 1, grad=False), S(nan, grad=False), S(nan[:, 1:2], 0, grad=False)]
        found.append(S(np.full((2, 3), np.nan, dtype), 1, grad=False))
    return found


def modes(rng: Rng, dtype: str) -> list[Sample]:
    some = rng.integers(0, 4, (5, 9)).astype(dtype)
    found = [S(some[0]), S(some, 1), S(some, 0, True), S(np.array(3, dtype)), S(some[:1], 0)]
    return [S(*s.args, grad=False) for s in found] + [S(distinct(rng, (3, 4), dtype), 1)]


def quantiles(rng: Rng, dtype: str) -> list[Sample]:
    q = np.array([0.13, 0.52, 0.93], dtype)
    found = [
        S(draw(rng, (7,), dtype), 0.3),
        S(draw(rng, (4, 5), dtype), 0.75, 1),
        S(draw(rng, (4, 5), dtype), 0.5, 0, True),
        S(draw(rng, (4, 5), dtype), 0.4, None, True),
        S(draw(rng, (5,), dtype), 1.0),
    ]
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        found.append(S(draw(rng, (3, 6), dtype), q, 1, interpolation=how, grad=False))
    return found + [S(draw(rng, (2, 3, 4), dtype), q, -2, True, grad=False)]


def with_nan(rng: Rng, dtype: str) -> list[Sample]:
    x = draw(rng, (3, 6), dtype)
    x[0, 1] = x[1, ::2] = np.nan
    return [S(x, q, 1, grad=False) for q in (0.0, 0.3, 1.0)] + quantiles(rng, dtype)


QUANTILE_ERRORS = (
    bad(RuntimeError, r"quantile.*1\.5", f(3), 1.5),
    bad(RuntimeError, r"quantile.*int64", i(3), 0.5),
    bad(RuntimeError, r"quantile.*\(0,\)", f(0), 0.5),
    bad(RuntimeError, r"quantile.*\[0, 1\]", f(3), f(2) + 2),
    bad(RuntimeError, r"quantile.*\[0, 1\]", f(3), f(2) * np.nan),
    bad(RuntimeError, r"quantile.*\(1, 1\)", f(3), f(1, 1)),
    bad(RuntimeError, r"quantile.*cubic", f(3), 0.5, interpolation="cubic"),
    bad(IndexError, r"quantile.*2", f(3, 3), 0.5, 2),
)

ORDER = [
    Op(
        "sort",
        lambda rng, dt: [
            S(draw(rng, s, dt), d, descending=down, stable=True, grad=grad)
            for s, d, grad in [
                ((7,), 0, True),
                ((3, 5), 1, True),
                ((5, 3), 0, True),
                ((), 0, True),
                ((0,), 0, True),
                ((2, 0), 0, True),
                ((5000,), -1, False),
                ((3, 60), 1, False),
            ]
            for down in (False, True)
        ],
        ref.sort,
        call=lambda tt, x, dim, **k: tt.sort(x, dim=dim, **k),
        dtypes=(*NUMBERS, "uint8", "float16"),
        method=False,
        result="reference",
        errors=(bad(IndexError, r"sort.*2", f(2, 3), 2),),
    ),
    Op(
        "argsort",
        cases(((7,), 0), ((3, 5), -1), ((5, 3), 0)),
        lambda x, dim: ref.sort(x, dim)[1],
        dtypes=FLOATS,
        result="int64",
        grad=False,
        errors=dim_errors("argsort"),
    ),
    Op(
        "msort",
        cases(((7,),), ((5, 3),), ((),)),
        lambda x: np.sort(x, axis=0) if x.ndim else x,
        dtypes=ALL,
        out=True,
    ),
    Op(
        "topk",
        lines(
            ((9,), 3),
            ((3, 5), 2, 1),
            ((5, 3), 5, 0),
            ((4, 5), 1, -1, False),
            ((5,), 0),
            ((), 1),
            ((3, 400), 7, 1),
            ((700, 3), 300, 0, False),
        ),
        ref.topk,
        dtypes=NUMBERS,
        result="reference",
        errors=(
            bad(RuntimeError, r"topk.*\b4\b", f(3), 4),
            bad(RuntimeError, r"topk.*-1", f(3), -1),
            bad(IndexError, r"topk.*2", f(3, 3), 1, 2),
        ),
    ),
    Op(
        "kthvalue",
        lines(((7,), 1), ((7,), 7), ((4, 5), 3, 0), ((4, 5), 2, 1, True), ((), 1), ((900,), 450)),
        ref.kthvalue,
        dtypes=NUMBERS,
        result="reference",
        errors=(
            bad(RuntimeError, r"kthvalue.*\b4\b", f(3), 4),
            bad(RuntimeError, r"kthvalue.*\b0\b", f(3), 0),
            bad(IndexError, r"kthvalue.*2", f(3, 3), 1, 2),
        ),
    ),
    Op(
        "median",
        medians,
        ref.median(False),
        dtypes=NUMBERS,
        result="reference",
        errors=(*dim_errors("median"), bad(IndexError, r"median.*\(2, 0\)", f(2, 0), 1)),
    ),
    Op(
        "nanmedian",
        medians,
        ref.median(True),
        dtypes=NUMBERS,
        result="reference",
        errors=(bad(IndexError, r"median.*2", f(2, 3), 2),),
    ),
    Op(
        "mode",
        modes,
        ref.mode,
        dtypes=NUMBERS,
        result="reference",
        errors=(*dim_errors("mode"), bad(IndexError, r"mode.*\(0,\)", f(0))),
    ),
    Op(
        "quantile",
        quantiles,
        ref.quantile(np.quantile),
        dtypes=FLOATS,
        ulp=16,
        scale=4,
        out=True,
        errors=QUANTILE_ERRORS,
    ),
    Op(
        "nanquantile",
        with_nan,
        ref.quantile(np.nanquantile),
        dtypes=FLOATS,
        ulp=16,
        scale=4,
        errors=QUANTILE_ERRORS[:5],
    ),
]
