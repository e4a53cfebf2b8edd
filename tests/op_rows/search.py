"""Search, sets, counts."""

from __future__ import annotations

import numpy as np

from op_rows import (
    FLOATS,
    NUMBERS,
    Op,
    Rng,
    bad,
    f,
    i,
)
from sampling import Array, Const, S, Sample, draw
from tinyt.testing.reference import order as ref


def ascending(rng: Rng, shape: tuple[int, ...], dtype: str) -> Array:
    return np.sort(draw(rng, shape, dtype), axis=-1)


def few(rng: Rng, shape: tuple[int, ...], dtype: str) -> Array:
    """Many equal values."""
    return rng.integers(0, 3, shape).astype(dtype)


def searches(rng: Rng, dtype: str) -> list[Sample]:
    line, lines = ascending(rng, (9,), dtype), ascending(rng, (2, 3, 5), dtype)
    return [
        S(line, draw(rng, (4, 3), dtype)),
        S(line, line, right=True),
        S(line, line, side="left"),
        S(lines, draw(rng, (2, 3, 4), dtype)),
        S(lines, lines, side="right"),
        S(line, draw(rng, (), dtype)),
        S(line, 1),
        S(ascending(rng, (0,), dtype), draw(rng, (3,), dtype)),
        S(line, draw(rng, (0, 2), dtype)),
        S(ascending(rng, (100,), dtype), draw(rng, (5000,), dtype)),
    ]


def sets(rng: Rng, dtype: str) -> list[Sample]:
    x = few(rng, (4, 5), dtype)
    rows = few(rng, (9, 3), dtype)
    both = {"return_inverse": True, "return_counts": True}
    found = [
        S(x),
        S(few(rng, (30,), dtype), **both),
        S(x, return_counts=True),
        S(rows, dim=0, **both),
        S(rows.T.copy(), dim=1, **both),
        S(few(rng, (2, 6, 2), dtype), dim=1, return_inverse=True),
        S(few(rng, (0,), dtype), **both),
        S(few(rng, (), dtype)),
        S(few(rng, (6, 1), dtype), dim=0),
    ]
    if dtype.startswith("float"):
        found.append(S(np.array([1, np.nan, np.nan, 1], dtype), **both))
    return found


SEARCH = [
    Op(
        "searchsorted",
        searches,
        ref.searchsorted,
        dtypes=(*NUMBERS, "int32"),
        result="int64",
        grad=False,
        method=False,
        strided=False,
        errors=(
            bad(RuntimeError, r"searchsorted.*\(2, 3\).*\(3, 2\)", f(2, 3), f(3, 2)),
            bad(RuntimeError, r"searchsorted.*\(2, 3\)", f(2, 3), 1.0),
            bad(RuntimeError, r"searchsorted.*middle", f(3), f(2), side="middle"),
            bad(RuntimeError, r"searchsorted.*left", f(3), f(2), side="left", right=True),
        ),
    ),
    Op(
        "bucketize",
        lambda rng, dt: [
            S(draw(rng, (4, 3), dt), ascending(rng, (6,), dt)),
            S(draw(rng, (5,), dt), ascending(rng, (6,), dt), right=True),
            S(2, ascending(rng, (6,), dt)),
        ],
        lambda x, edges, **k: ref.searchsorted(edges, x, **k),
        result="int64",
        grad=False,
        method=False,
        strided=False,
        errors=(bad(RuntimeError, r"bucketize.*\(2, 3\)", f(3), f(2, 3)),),
    ),
    Op(
        "isin",
        lambda rng, dt: [
            S(few(rng, (4, 3), dt), few(rng, (2,), dt)),
            S(few(rng, (4,), dt), few(rng, (2, 1), dt), invert=True),
            S(few(rng, (4,), dt), 1),
            S(1, few(rng, (4,), dt)),
            S(few(rng, (4,), dt), few(rng, (0,), dt)),
            S(few(rng, (0,), dt), few(rng, (3,), dt)),
        ],
        lambda x, test, invert=False: np.isin(x, test, invert=invert),
        result="bool",
        grad=False,
        method=False,
    ),
    Op(
        "unique",
        sets,
        ref.unique,
        dtypes=(*NUMBERS, "bool"),
        result="reference",
        grad=False,
        errors=(
            bad(IndexError, r"unique.*2", f(2, 3), dim=2),
            bad(RuntimeError, r"unique.*\(3, 0\)", f(3, 0), dim=0),
        ),
    ),
    Op(
        "unique_consecutive",
        sets,
        ref.unique_consecutive,
        dtypes=NUMBERS,
        result="reference",
        grad=False,
        errors=(bad(IndexError, r"unique_consecutive.*2", f(2, 3), dim=2),),
    ),
    Op(
        "bincount",
        lambda rng, dt: [
            S(few(rng, (9,), dt)),
            S(few(rng, (9,), dt), minlength=7),
            S(few(rng, (9,), dt), Const(rng.random(9))),
            S(few(rng, (9,), dt), Const(np.arange(9))),
            S(few(rng, (0,), dt), minlength=2),
        ],
        lambda x, w=None, minlength=0: np.bincount(x, w, minlength),
        dtypes=("int64", "uint8", "int32"),
        result="reference",
        grad=False,
        ulp=4,
        errors=(
            bad(RuntimeError, r"bincount.*\(2, 2\)", i(2, 2)),
            bad(RuntimeError, r"bincount.*non-negative", i(2) - 1),
            bad(RuntimeError, r"bincount.*float32", f(2)),
            bad(RuntimeError, r"bincount.*\(3,\).*\(2,\)", i(2), f(3)),
            bad(RuntimeError, r"bincount.*-1", i(2), None, -1),
        ),
    ),
    Op(
        "histc",
        lambda rng, dt: [
            S(draw(rng, (40,), dt), bins=7, min=-4, max=4),
            S(draw(rng, (5, 9), dt), 10),
            S(draw(rng, (40,), dt), 5, -1, 2),
            S(np.full(3, 2, dt), 4),
            S(np.array([0.0, 1.0, 0.5], dt), 2, 0, 1),
            S(draw(rng, (0,), dt), 3),
        ],
        ref.histc,
        dtypes=FLOATS,
        grad=False,
        out=True,
        errors=(
            bad(RuntimeError, r"histc.*0", f(3), 0),
            bad(RuntimeError, r"histc.*int64", i(3)),
            bad(RuntimeError, r"histc.*2.*1", f(3), 3, 2, 1),
        ),
    ),
    Op(
        "histogram",
        lambda rng, dt: [
            S(draw(rng, (40,), dt), 7, range=(-4.0, 4.0)),
            S(draw(rng, (5, 9), dt), 10),
            S(draw(rng, (30,), dt), ascending(rng, (6,), dt)),
            S(draw(rng, (30,), dt), 4, range=(-1.0, 3.0), density=True),
            S(draw(rng, (30,), dt), 4, weight=draw(rng, (30,), dt)),
        ],
        ref.histogram,
        dtypes=FLOATS,
        grad=False,
        strided=False,
        ulp=16,
        scale=4,
        errors=(
            bad(RuntimeError, r"histogram.*0", f(3), 0),
            bad(RuntimeError, r"histogram.*int64", i(3), 2),
            bad(RuntimeError, r"histogram.*\(2,\)", f(3), 2, weight=f(2)),
        ),
    ),
    Op(
        "histogramdd",
        lambda rng, dt: [
            S(draw(rng, (20, 2), dt), [3, 4], range=(-4.0, 4.0, -2.0, 3.0)),
            S(draw(rng, (5, 4, 3), dt), 2),
            S(draw(rng, (20, 2), dt), [3, 2], weight=draw(rng, (20,), dt)),
            S(draw(rng, (20, 2), dt), [3, 2], density=True),
            S(draw(rng, (20, 2), dt), [ascending(rng, (4,), dt), ascending(rng, (3,), dt)]),
        ],
        ref.histogramdd,
        dtypes=FLOATS,
        grad=False,
        method=False,
        strided=False,
        ulp=16,
        scale=4,
        errors=(
            bad(RuntimeError, r"histogramdd.*\(3,\)", f(3), 2),
            bad(RuntimeError, r"histogramdd.*2.*1", f(3, 2), [2]),
            bad(RuntimeError, r"histogramdd.*\(2,\)", f(3, 2), 2, weight=f(2)),
        ),
    ),
]
