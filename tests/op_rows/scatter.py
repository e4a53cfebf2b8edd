"""Scatter with reductions, whole slices, flat positions, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import ALL, NUMBERS, Op, Rng, at, b, bad, f, i
from sampling import Array, S, Sample, draw
from tinyt.testing.reference import index as ref

FAR = (RuntimeError, IndexError)


def reductions(rng: Rng, dt: str) -> list[Sample]:
    return [
        S(draw(rng, (3, 4), dt, (1, 3)), dim, at(rng, shape, (3, 4)[dim]), src, reduce, **keep)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for dim, shape, keep in [(0, (5, 4), {}), (-1, (3, 3), {"include_self": False})]
        for src in [draw(rng, shape, dt, (-3, -1))]
    ]


def slices_reduced(rng: Rng, dt: str) -> list[Sample]:
    return [
        S(draw(rng, (3, 4), dt, (1, 3)), 0, at(rng, (5,), 3), src, reduce, include_self=keep)
        for reduce in ("prod", "mean", "amax", "amin")
        for keep in (True, False)
        for src in [draw(rng, (5, 4), dt, (-3, -1))]
    ]


def different(rng: Rng, count: int, size: int) -> Array:
    """Positions without repeats."""
    return rng.permutation(size)[:count]


MANY: dict[str, Any] = {"dtypes": NUMBERS, "inplace": True, "strided": False}

SCATTER = [
    Op(
        "scatter_reduce",
        reductions,
        ref.scatter_reduce,
        ulp=8,
        scale=lambda x, *rest, **k: 200.0,
        **MANY,
        errors=(
            bad(RuntimeError, r"scatter_reduce.*'median'", f(3), 0, i(2), f(2), "median"),
            bad(RuntimeError, r"scatter_reduce.*index 9.*size 4", f(4), 0, i(2) + 9, f(2), "prod"),
            bad(RuntimeError, r"scatter_reduce.*int64.*float32", f(4), 0, i(2), i(2), "amax"),
            bad(RuntimeError, r"scatter_reduce.*float32", f(4), 0, f(2), f(2), "sum"),
        ),
    ),
    Op(
        "scatter_combine",
        lambda rng, dt: [
            S(draw(rng, (3, 4), dt), 0, at(rng, (5, 4), 3), how, draw(rng, (5, 4), dt), grad=False)
            for how in ("add", "multiply")
        ],
        lambda x, dim, index, how, src: ref.scatter_reduce(
            x, dim, index, src, {"add": "sum", "multiply": "prod"}[how]
        ),
        call=lambda tt, x, dim, index, how, src: tt.scatter(x, dim, index, src, reduce=how),
        method=False,
        dtypes=NUMBERS,
        ulp=8,
        scale=20.0,
        errors=(bad(RuntimeError, r"scatter.*'mean'", f(3), 0, i(2), "mean", f(2)),),
    ),
    Op(
        "index_copy",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, different(rng, 3, 4), draw(rng, (3, 5), dt)),
            S(draw(rng, (4, 5), dt), -1, different(rng, 2, 5), draw(rng, (4, 2), dt)),
        ],
        ref.index_copy,
        **MANY | {"dtypes": ALL},
        errors=(
            bad(IndexError, r"index_copy.*\b9\b.*4", f(4), 0, i(2) + 9, f(2)),
            bad(FAR, r"index_copy.*\(3,\).*\(2,\)", f(4), 0, i(2), f(3)),
            bad(RuntimeError, r"index_copy.*int64.*float32", f(4), 0, i(2), i(2)),
        ),
    ),
    Op(
        "index_fill",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, np.array([0, -1]), 1),
            S(draw(rng, (4, 5), dt), -1, at(rng, (3,), 5), 0),
            S(draw(rng, (4, 5), dt), 1, at(rng, (0,), 5), 1),
        ],
        ref.index_fill,
        **MANY | {"dtypes": ALL},
        errors=(
            bad(IndexError, r"index_fill.*\b9\b", f(4), 0, i(2) + 9, 1),
            bad(RuntimeError, r"index_fill.*\(2,\)", f(4), 0, i(2), f(2)),
            bad(IndexError, r"index_fill.*float32", f(4), 0, f(2), 1),
        ),
    ),
    Op(
        "index_reduce",
        slices_reduced,
        ref.index_reduce,
        ulp=8,
        scale=lambda x, *rest, **k: 200.0,
        **MANY,
        errors=(
            bad(RuntimeError, r"index_reduce.*'sum'", f(3), 0, i(2), f(2), "sum"),
            bad(IndexError, r"index_reduce.*\b9\b", f(4), 0, i(2) + 9, f(2), "prod"),
        ),
    ),
    Op(
        "index_put",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), (different(rng, 3, 4),), draw(rng, (3, 5), dt)),
            S(
                draw(rng, (4, 5), dt),
                (at(rng, (6,), 4), at(rng, (6,), 5)),
                draw(rng, (6,), dt),
                True,
            ),
            S(draw(rng, (4, 5), dt), (np.array([[0], [2]]), np.array([1, 3])), draw(rng, (), dt)),
            S(draw(rng, (4, 5), dt), (draw(rng, (4,), "bool"),), draw(rng, (5,), dt)),
        ],
        ref.index_put,
        ulp=2,
        scale=16.0,
        **MANY,
        errors=(
            bad(IndexError, r"index.*\b9\b", f(4), (i(2) + 9,), f(2)),
            bad(RuntimeError, r"index_put.*int64.*float32", f(4), (i(2),), i(2)),
            bad(IndexError, r"index_put.*too many|index.*too many", f(4), (i(2), i(2)), f(2)),
        ),
    ),
    Op(
        "take",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), np.array([0, -1, 7])),
            S(draw(rng, (4, 5), dt), at(rng, (2, 3), 20)),
            S(draw(rng, (4,), dt), np.zeros(0, np.int64)),
        ],
        lambda x, index: x.reshape(-1)[index],
        dtypes=ALL,
        errors=(
            bad(IndexError, r"take.*\b9\b", f(4), i(2) + 9),
            bad(RuntimeError, r"take.*float32", f(4), f(2)),
        ),
    ),
    Op(
        "put",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), different(rng, 6, 20).reshape(2, 3), draw(rng, (2, 3), dt)),
            S(draw(rng, (4, 5), dt), at(rng, (9,), 20), draw(rng, (9,), dt), True),
        ],
        ref.put,
        ulp=2,
        scale=16.0,
        **MANY,
        errors=(
            bad(IndexError, r"put.*\b9\b", f(4), i(2) + 9, f(2)),
            bad(FAR, r"put.*3 elements.*2", f(4), i(2), f(3)),
            bad(RuntimeError, r"put.*int64.*float32", f(4), i(2), i(2)),
        ),
    ),
    Op(
        "masked_scatter",
        lambda rng, dt: [
            S(draw(rng, (3, 4), dt), draw(rng, (3, 4), "bool"), draw(rng, (13,), dt)),
            S(draw(rng, (3, 4), dt), draw(rng, (4,), "bool"), draw(rng, (3, 4), dt)),
            S(draw(rng, (2,), dt), np.zeros(2, bool), draw(rng, (0,), dt)),
        ],
        ref.masked_scatter,
        **MANY | {"dtypes": ALL},
        errors=(
            bad(RuntimeError, r"masked_scatter.*1 elements", f(2), ~b(2), f(1)),
            bad(RuntimeError, r"masked_scatter.*int64", f(2), i(2), f(2)),
            bad(RuntimeError, r"masked_scatter.*int64.*float32", f(2), b(2), i(2)),
        ),
    ),
    Op(
        "argwhere",
        lambda rng, dt: [S(draw(rng, s, dt)) for s in ((4, 5), (0,), (2, 3, 2))],
        lambda x: np.argwhere(x).astype(np.int64),
        dtypes=ALL,
        result="int64",
        grad=False,
    ),
    Op(
        "nonzero_static",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), size=3),
            S(draw(rng, (2, 2), dt), size=6, fill_value=-5),
            S(draw(rng, (3,), dt), size=0),
        ],
        ref.nonzero_static,
        dtypes=ALL,
        result="int64",
        grad=False,
        out=True,
        errors=(bad(RuntimeError, r"nonzero_static.*-1", f(3), size=-1),),
    ),
    Op(
        "unravel_index",
        lambda rng, dt: [S(at(rng, (2, 3), 24), (2, 3, 4)), S(at(rng, (), 5), 5)],
        lambda index, shape: list(np.unravel_index(index, shape)),
        dtypes=("int64",),
        result="int64",
        grad=False,
        method=False,
        errors=(
            bad(TypeError, r"unravel_index.*float32", f(2), (2, 3)),
            bad(ValueError, r"unravel_index.*-1", i(2), (2, -1)),
        ),
    ),
]
