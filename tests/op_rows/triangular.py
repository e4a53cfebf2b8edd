"""Cholesky factors and systems of triangular matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import FLOATS, Op, Rng, bad, f
from sampling import Array, S, Sample, draw

SQUARES = ((1, 1), (3, 3), (0, 0), (2, 4, 4), (0, 2, 2), (2, 1, 5, 5))


def matrices(rng: Rng, dtype: str, shape: tuple[int, ...]) -> Array:
    """With a large positive diagonal: half the sum with the transpose is positive-definite, and
    either triangle has an inverse."""
    n = shape[-1]
    x: Array = draw(rng, shape, dtype, (-0.9, 0.9)) + (n + 1) * np.eye(n, dtype=dtype)
    return x


def positive(rng: Rng, dtype: str) -> list[Sample]:
    return [
        S(matrices(rng, dtype, s), **k, grad=np.prod(s) < 40)
        for s in SQUARES
        for k in ({}, {"upper": True})
    ]


def symmetric(tt: Any, x: Any) -> Any:
    """A derivative is that of symmetric matrices; the diagonal is large for whatever layout."""
    n = x.shape[-1]
    return (x + x.mT) / 2 + 4 * n * tt.eye(n, dtype=x.dtype, device=x.device)


def factor(x: Array, upper: bool = False) -> Array:
    n = x.shape[-1]
    found = np.linalg.cholesky((x + x.swapaxes(-1, -2)) / 2 + 4 * n * np.eye(n))
    return found.swapaxes(-1, -2) if upper else found


def factored(tt: Any, x: Any, upper: bool) -> Any:
    """PyTorch's gradients take the other triangle for a part of the factor."""
    return tt.triu(x) if upper else tt.tril(x)


def triangle(x: Array, upper: bool, unit: bool = False) -> Array:
    kept = np.triu(x, 1) if upper else np.tril(x, -1)
    n = x.shape[-1]
    return kept + (np.eye(n) if unit else x * np.eye(n))


def solved(
    A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Array:
    a = triangle(A, upper, unitriangular)
    if left:
        return np.linalg.solve(
            a, np.broadcast_to(B, (*np.broadcast_shapes(a.shape[:-2], B.shape[:-2]), *B.shape[-2:]))
        )
    return solved(a.swapaxes(-1, -2), B.swapaxes(-1, -2), upper=not upper).swapaxes(-1, -2)


def systems(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for a, b in (
        ((3, 3), (3, 2)),
        ((1, 1), (1, 1)),
        ((2, 4, 4), (4, 1)),
        ((3, 3), (2, 3, 5)),
        ((0, 2, 2), (2, 3)),
        ((2, 2), (2, 0)),
        ((0, 0), (0, 3)),
        ((5, 5), (5, 70)),
    ):
        for k in ({"upper": False}, {"upper": True}, {"upper": False, "unitriangular": True}):
            x = matrices(rng, dtype, a)
            if "unitriangular" in k:
                x = x / 8
            found.append(S(x, draw(rng, b, dtype), **k, grad=np.prod(b) < 40))
    left = S(matrices(rng, dtype, (3, 3)), draw(rng, (2, 3), dtype), upper=True, left=False)
    return [*found, left]


def right_sides(rng: Rng, dtype: str) -> list[Sample]:
    return [
        S(draw(rng, b, dtype), matrices(rng, dtype, a), **k)
        for b, a in (((3, 2), (3, 3)), ((2, 4, 1), (4, 4)), ((2, 3), (0, 2, 2)))
        for k in ({}, {"upper": True})
    ]


def cholesky_solved(b: Array, x: Array, upper: bool = False) -> Array:
    a = triangle(x, upper)
    a = a.swapaxes(-1, -2) @ a if upper else a @ a.swapaxes(-1, -2)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return np.linalg.solve(a, np.broadcast_to(b, (*batch, *b.shape[-2:])))


def cholesky_inverted(x: Array, upper: bool = False) -> Array:
    return cholesky_solved(np.eye(x.shape[-1]), x, upper)


BOUND: dict[str, Any] = {"ulp": 64, "scale": 1.0, "dtypes": FLOATS}

TRIANGULAR = [
    Op(
        "linalg.cholesky",
        positive,
        factor,
        call=lambda tt, x, upper=False: tt.linalg.cholesky(symmetric(tt, x), upper=upper),
        method=False,
        errors=(
            bad(RuntimeError, r"(?i)cholesky.*positive-definite.*order 2", np.diag([9.0, -99.0])),
        ),
        **BOUND,
    ),
    Op(
        "cholesky",
        positive,
        factor,
        call=lambda tt, x, upper=False: tt.cholesky(symmetric(tt, x), upper),
        method=False,
        **BOUND,
    ),
    Op(
        "linalg.cholesky_ex",
        positive,
        lambda x, upper=False: (factor(x, upper), np.zeros(x.shape[:-2], np.int32)),
        call=lambda tt, x, upper=False: tuple(tt.linalg.cholesky_ex(symmetric(tt, x), upper=upper)),
        result="reference",
        method=False,
        **BOUND,
    ),
    Op(
        "linalg.solve_triangular",
        systems,
        solved,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"solve_triangular.*\(2, 3\)", f(2, 3), f(2, 2), upper=True),
            bad(RuntimeError, r"solve_triangular.*\(3,\)", f(3, 3), f(3), upper=True),
            bad(
                RuntimeError, r"solve_triangular.*\(3, 3\).*\(2, 2\)", f(3, 3), f(2, 2), upper=True
            ),
        ),
        **BOUND,
    ),
    Op(
        "cholesky_solve",
        right_sides,
        cholesky_solved,
        call=lambda tt, b, x, upper=False, **k: tt.cholesky_solve(
            b, factored(tt, x, upper), upper, **k
        ),
        method=False,
        out=True,
        **BOUND,
    ),
    Op(
        "cholesky_inverse",
        lambda rng, dt: [
            S(matrices(rng, dt, s), **k) for s in SQUARES[:4] for k in ({}, {"upper": True})
        ],
        cholesky_inverted,
        call=lambda tt, x, upper=False, **k: tt.cholesky_inverse(
            factored(tt, x, upper), upper, **k
        ),
        method=False,
        out=True,
        **BOUND,
    ),
]
