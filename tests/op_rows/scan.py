"""Scans, differences, integrals."""

from __future__ import annotations

import numpy as np

from op_rows import (
    ALL,
    FLOATS,
    NUMBERS,
    Op,
    Rng,
    bad,
    dim_errors,
    f,
    i,
    quiet,
)
from sampling import S, Sample, draw
from tinyt.testing.reference import order, reduce

LINES = (((7,), 0), ((3, 5), 1), ((5, 3), 0), ((), 0), ((2, 0, 3), 1), ((2, 3, 4), -2))


def scan_samples(rng: Rng, dtype: str, domain: tuple[float, float] = (-4, 4)) -> list[Sample]:
    """Lines alone, side by side, short ones and ones longer than a tile."""
    long = [((1300,), 0), ((600, 3), 0), ((40, 33), 0), ((200, 3), 1)]
    return [S(draw(rng, s, dtype, domain), d) for s, d in LINES] + [
        S(draw(rng, s, dtype, domain), d, grad=False) for s, d in long
    ]


def product_samples(rng: Rng, dtype: str) -> list[Sample]:
    """With zeros: one, two, at the ends, none."""
    zeros = [S(np.array(x, dtype), 0) for x in ([2, 0, 3, 4], [0, 2, 3], [3, 0, 2, 0, 5], [2, 0])]
    return zeros + scan_samples(rng, dtype, (-1.2, 1.2))


def with_nan(rng: Rng, dtype: str) -> list[Sample]:
    ties = [S(np.array([1, 3, 3, 2, 3, 1], dtype), 0, grad=False)]
    if dtype.startswith("float"):
        ties.append(S(np.array([1, np.nan, 3, np.nan, 5], dtype), 0, grad=False))
    return ties + scan_samples(rng, dtype)


SCAN = [
    Op(
        "cumsum",
        scan_samples,
        reduce.scan(np.cumsum),
        dtypes=(*ALL, "int32", "uint8"),
        result="sum",
        ulp=8,
        scale=lambda x, dim: np.sum(np.abs(x * 1.0)),
        inplace=True,
        out=True,
        errors=dim_errors("cumsum"),
    ),
    Op(
        "cumprod",
        product_samples,
        reduce.scan(np.cumprod),
        dtypes=(*ALL, "int32"),
        result="sum",
        ulp=200,
        inplace=True,
        out=True,
        errors=dim_errors("cumprod"),
    ),
    Op(
        "cummax",
        with_nan,
        reduce.running(np.maximum),
        dtypes=ALL,
        result="reference",
        errors=dim_errors("cummax"),
    ),
    Op(
        "cummin",
        with_nan,
        reduce.running(np.minimum),
        dtypes=(*ALL, "uint8"),
        result="reference",
        errors=dim_errors("cummin"),
    ),
    Op(
        "logcumsumexp",
        lambda rng, dt: [
            S(np.array([-np.inf, -np.inf, 1, 300, np.inf, 2], dt), 0, grad=False),
            S(np.array([1, 700, -700, 0, np.nan, 2], dt), 0, grad=False),
            *scan_samples(rng, dt),
        ],
        quiet(reduce.logcumsumexp),
        dtypes=FLOATS,
        ulp=16,  # a sum of 1300 terms, one by one
        scale=2,
        out=True,
        errors=(*dim_errors("logcumsumexp"), bad(RuntimeError, "logcumsumexp.*int64", i(3), 0)),
    ),
    Op(
        "diff",
        lambda rng, dt: [
            S(draw(rng, (7,), dt)),
            S(draw(rng, (3, 5), dt), 2, 0),
            S(draw(rng, (3, 5), dt), 5, 1),
            S(draw(rng, (4, 3), dt), 0),
            S(draw(rng, (4, 3), dt), 1, 0, draw(rng, (2, 3), dt), draw(rng, (1, 3), dt)),
            S(draw(rng, (0,), dt)),
        ],
        order.diff,
        dtypes=ALL,
        ulp=32,
        scale=8,
        out=True,
        errors=(
            bad(RuntimeError, r"diff.*\(\)", f()),
            bad(RuntimeError, r"diff.*-1", f(3), -1),
            bad(IndexError, r"diff.*2", f(3, 3), 1, 2),
        ),
    ),
    Op(
        "trapezoid",
        lambda rng, dt: [
            S(draw(rng, (7,), dt)),
            S(draw(rng, (3, 5), dt), dx=0.5, dim=0),
            S(draw(rng, (3, 5), dt), draw(rng, (5,), dt)),
            S(draw(rng, (5, 3), dt), draw(rng, (5,), dt), dim=0),
            S(draw(rng, (2, 3), dt), draw(rng, (2, 3), dt)),
            *([S(draw(rng, (3, 0), dt))] if dt != "int64" else []),
        ],
        order.trapezoid,
        dtypes=NUMBERS,
        result="float",
        ulp=16,
        scale=16,
        method=False,
        errors=(
            bad(RuntimeError, r"trapezoid.*4.*3", f(3), f(4)),
            bad(IndexError, r"trapezoid.*1", f(3), dim=1),
        ),
    ),
    Op(
        "cumulative_trapezoid",
        lambda rng, dt: [
            S(draw(rng, (7,), dt)),
            S(draw(rng, (3, 5), dt), dx=0.5, dim=0),
            S(draw(rng, (3, 5), dt), draw(rng, (5,), dt)),
            S(draw(rng, (2, 3), dt), draw(rng, (2, 3), dt), dim=0),
        ],
        order.cumulative_trapezoid,
        dtypes=NUMBERS,
        result="float",
        ulp=16,
        scale=16,
        method=False,
        errors=(bad(RuntimeError, r"cumulative_trapezoid.*4.*3", f(3), f(4)),),
    ),
    Op(
        "gradient",
        lambda rng, dt: [
            S(draw(rng, (7,), dt)),
            S(draw(rng, (4, 5), dt), spacing=0.5),
            S(draw(rng, (4, 5), dt), dim=1, edge_order=2),
            S(draw(rng, (4, 5), dt), spacing=[2.0, 0.25], dim=(1, 0)),
            S(draw(rng, (4, 5), dt), spacing=(np.cumsum(np.linspace(1, 2, 4)).astype(dt),), dim=0),
            S(
                draw(rng, (5,), dt),
                spacing=[np.array([0.0, 1, 1.5, 3, 3.25], dt)],
                edge_order=2,
            ),
        ],
        order.gradient,
        dtypes=FLOATS,
        ulp=32,
        scale=8,
        method=False,
        errors=(
            bad(RuntimeError, r"gradient.*3", f(4), edge_order=3),
            bad(RuntimeError, r"gradient.*\(1,\)", f(1)),
            bad(RuntimeError, r"gradient.*one spacing.*2.*1", f(3, 3), spacing=[1.0]),
        ),
    ),
]
