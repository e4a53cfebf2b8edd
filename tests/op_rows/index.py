"""Gather, scatter, masks, order and scans."""

from __future__ import annotations

import numpy as np

from op_rows import (
    ALL,
    Op,
    Rng,
    at,
    b,
    bad,
    cases,
    f,
    i,
)
from sampling import (
    Array,
    S,
    draw,
)
from tinyt.testing.reference import index as ref


def unique_at(rng: Rng, shape: tuple[int, int], size: int) -> Array:
    """Row positions without repeats in any column, so that the order of writing is no matter."""
    return np.stack([rng.permutation(size)[: shape[0]] for _ in range(shape[1])], 1)


INDEX = [
    Op(
        "gather",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, at(rng, (2, 5), 4)),
            S(draw(rng, (4, 5), dt), 1, at(rng, (4, 7), 5)),
            S(draw(rng, (2, 3, 4), dt), -2, at(rng, (2, 5, 3), 3)),
            S(draw(rng, (4,), dt), 0, at(rng, (0,), 4)),
            S(draw(rng, (), dt), 0, np.array(0)),
        ],
        ref.gather,
        dtypes=ALL,
        errors=(
            bad(
                RuntimeError,
                r"gather.*index 9.*size 4",
                f(4),
                0,
                i(2) + 9,
            ),
            bad((RuntimeError, TypeError), r"gather.*int64", f(4), 0, f(2)),
            bad(RuntimeError, r"gather", f(4, 5), 0, i(2)),
            bad(IndexError, r"gather.*2", f(4, 5), 2, i(2, 2)),
        ),
    ),
    Op(
        "scatter",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, unique_at(rng, (3, 5), 4), draw(rng, (3, 5), dt)),
            S(draw(rng, (5, 4), dt), 1, unique_at(rng, (3, 5), 4).T.copy(), draw(rng, (5, 3), dt)),
            S(draw(rng, (4, 5), dt), 0, unique_at(rng, (2, 5), 4), 1),
            S(draw(rng, (4,), dt), 0, np.zeros(0, np.int64), draw(rng, (0,), dt)),
        ],
        ref.scatter,
        inplace=True,
        strided=False,
        errors=(
            bad(
                RuntimeError,
                r"scatter.*index 9.*size 4",
                f(4),
                0,
                i(2) + 9,
                f(2),
            ),
            bad(RuntimeError, r"scatter", f(4, 5), 0, i(2), f(2)),
        ),
    ),
    Op(
        "scatter_add",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, at(rng, (7, 5), 4), draw(rng, (7, 5), dt)),
            S(draw(rng, (4, 5), dt), -1, at(rng, (4, 3), 5), draw(rng, (4, 6), dt), grad=False),
            S(draw(rng, (3,), dt), 0, at(rng, (200,), 3), draw(rng, (200,), dt), grad=False),
        ],
        ref.scatter_add,
        ulp=4,
        scale=lambda x, *rest: 200 * np.max(np.abs(x), initial=1),
        inplace=True,
        strided=False,
        errors=(
            bad(
                RuntimeError,
                r"scatter_add.*index 9.*size 4",
                f(4),
                0,
                i(2) + 9,
                f(2),
            ),
        ),
    ),
    Op(
        "index_select",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, at(rng, (6,), 4)),
            S(draw(rng, (4, 5), dt), -1, at(rng, (2,), 5)),
            S(draw(rng, (4, 5), dt), 1, at(rng, (0,), 5)),
        ],
        lambda x, dim, index: np.take(x, index, axis=dim),
        dtypes=ALL,
        errors=(
            bad(
                IndexError,
                r"index_select.*9.*4",
                f(4),
                0,
                i(2) + 9,
            ),
            bad(IndexError, r"index_select.*(2, 2)", f(4), 0, i(2, 2)),
        ),
    ),
    Op(
        "masked_fill",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), draw(rng, (4, 5), "bool"), 1),
            S(draw(rng, (4, 5), dt), draw(rng, (5,), "bool"), 0),
            S(draw(rng, (0,), dt), draw(rng, (0,), "bool"), 1),
            S(draw(rng, (2, 3), dt), draw(rng, (), "bool"), 1),
        ],
        ref.masked_fill,
        dtypes=ALL,
        inplace=True,
        errors=(
            bad(RuntimeError, r"masked_fill.*bool.*int64", f(2), i(2), 1),
            bad(RuntimeError, r"masked_fill.*\(3,\) and \(2,\)", f(2), b(3), 1),
        ),
    ),
    Op(
        "nonzero",
        cases(((4, 5),), ((),), ((0,),), ((7,),), ((2, 3, 4),)),
        lambda x: np.argwhere(x).astype(np.int64),
        dtypes=ALL,
        result="int64",
        grad=False,
    ),
    Op(
        "take_along_dim",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), at(rng, (2, 5), 4), 0),
            S(draw(rng, (4, 5), dt), at(rng, (4, 3), 5), 1),
        ],
        np.take_along_axis,
        dtypes=ALL,
    ),
    Op(
        "masked_select",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), draw(rng, (4, 5), "bool")),
            S(draw(rng, (4, 5), dt), draw(rng, (5,), "bool")),
        ],
        lambda x, mask: x[np.broadcast_to(mask, x.shape)],
        dtypes=ALL,
    ),
    Op(
        "index_add",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 0, at(rng, (6,), 4), draw(rng, (6, 5), dt)),
            S(draw(rng, (4, 5), dt), -1, at(rng, (2,), 5), draw(rng, (4, 2), dt)),
        ],
        ref.index_add,
        ulp=4,
        scale=8,
        inplace=True,
        strided=False,
        errors=(bad(IndexError, r"index_add.*9", f(4), 0, i(2) + 9, f(2)),),
    ),
    Op(
        "one_hot",
        lambda rng, dt: [S(at(rng, s, 5), 6) for s in ((), (3,), (2, 2))],
        lambda index, n: np.eye(n, dtype=np.int64)[index],
        call="nn.functional.one_hot",
        dtypes=("int64",),
        result="int64",
        grad=False,
        method=False,
        errors=(
            bad(RuntimeError, r"one_hot.*7", i(3) + 7, 6),
            bad(RuntimeError, r"one_hot.*-1", i(3) - 1, 6),
        ),
    ),
]
