"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import (
    FLOATS,
    Op,
    Samples,
    bad,
    f,
)
from sampling import (
    S,
    draw,
)
from tinyt.testing.reference import products as ref


def products(*pairs: Any, domain: tuple[float, float] = (-2, 2)) -> Samples:
    """Rows of shapes, one tensor each; big ones are forward only."""
    return lambda rng, dt: [
        S(*(draw(rng, s, dt, domain) for s in shapes), grad=max(np.prod(s) for s in shapes) < 100)
        for shapes in pairs
    ]


def z(*shape: int) -> Any:
    return np.zeros(shape, np.int8)


SUMS: dict[str, Any] = {"ulp": 8, "scale": "abs"}


CONTRACT = [
    Op(
        "matmul",
        products(
            ((4,), (4,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 3), (3, 4)),
            ((5, 2, 3), (3, 4)),
            ((2, 1, 2, 3), (5, 3, 2)),
            ((3,), (2, 3, 4)),
            ((2, 0), (0, 3)),
            ((0, 3), (3, 2)),
            ((1, 1), (1, 1)),
            ((17, 70), (70, 33)),
            ((130, 65), (65, 100)),
            ((3, 40, 9), (3, 9, 20)),
        ),
        np.matmul,
        **SUMS,
        out=True,
        errors=(
            bad(RuntimeError, r"matmul.*\(2, 3\).*\(4, 5\)", f(2, 3), f(4, 5)),
            bad(RuntimeError, r"matmul.*\(3,\).*\(4,\)", f(3), f(4)),
            bad(RuntimeError, r"matmul.*\(\)", f(), f(3)),
            bad(RuntimeError, r"matmul.*\(2,.*\(3,", f(2, 2, 3), f(3, 3, 2)),
            bad(RuntimeError, r"matmul.*float32.*float64", f(2, 2), f(2, 2).astype(np.float64)),
        ),
    ),
    Op(
        "mm",
        products(((2, 3), (3, 4)), ((1, 5), (5, 1)), ((2, 0), (0, 3))),
        np.matmul,
        **SUMS,
        out=True,
        errors=(
            bad(RuntimeError, r"(mm|matmul).*\(2, 3\).*\(4, 5\)", f(2, 3), f(4, 5)),
            bad(RuntimeError, r"mm.*\(1, 2, 3\)", f(1, 2, 3), f(3, 2)),
        ),
    ),
    Op(
        "_int_mm",
        products(((2, 3), (3, 4)), ((2, 0), (0, 3)), ((70, 130), (130, 33)), domain=(-128, 127)),
        lambda x, y: np.matmul(x.astype(np.int32), y.astype(np.int32)),
        dtypes=("int8",),
        result="int32",
        grad=False,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"int_mm.*int8.*float32", f(2, 3), f(3, 4)),
            bad(RuntimeError, r"int_mm.*\(2, 3\).*\(4, 5\)", z(2, 3), z(4, 5)),
            bad(RuntimeError, r"int_mm.*\(1, 2, 3\)", z(1, 2, 3), z(3, 2)),
        ),
    ),
    Op(
        "bmm",
        products(((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 4)), ((1, 1, 1), (1, 1, 1))),
        np.matmul,
        **SUMS,
        out=True,
        errors=(
            bad(RuntimeError, r"bmm.*\(2, 2, 3\).*\(3, 3, 2\)", f(2, 2, 3), f(3, 3, 2)),
            bad(RuntimeError, r"bmm.*\(2, 3\)", f(2, 3), f(3, 2)),
        ),
    ),
    Op(
        "linear",
        products(
            ((2, 3), (4, 3)),
            ((2, 3), (4, 3), (4,)),
            ((3,), (2, 3), (2,)),
            ((0, 3), (2, 3), (2,)),
            ((2, 2, 3), (5, 3), (5,)),
            ((65, 33), (40, 33), (40,)),
            ((2, 3), (3,)),
        ),
        ref.linear,
        call="nn.functional.linear",
        dtypes=FLOATS,
        **SUMS,
        method=False,
        out=True,
        errors=(
            bad(RuntimeError, r"linear.*\(2, 3\).*\(4, 5\)", f(2, 3), f(4, 5)),
            bad(RuntimeError, r"linear.*\(5,\)", f(2, 3), f(4, 3), f(5)),
        ),
    ),
    Op(
        "bilinear",
        products(
            ((2, 3), (2, 4), (5, 3, 4), (5,)),
            ((2, 2, 1), (2, 2, 3), (2, 1, 3)),
            ((0, 2), (0, 2), (2, 2, 2), (2,)),
        ),
        ref.bilinear,
        call="nn.functional.bilinear",
        dtypes=FLOATS,
        **SUMS,
        method=False,
        errors=(
            bad(RuntimeError, r"bilinear.*\(2, 3\).*\(2, 3, 4\)", f(2, 3), f(2, 3), f(2, 3, 4)),
            bad(RuntimeError, r"bilinear.*\(2, 3\).*\(3, 3\)", f(2, 3), f(3, 3), f(2, 3, 3)),
        ),
    ),
    Op(
        "dot",
        products(((4,), (4,)), ((0,), (0,)), ((700,), (700,))),
        np.dot,
        **SUMS,
        out=True,
        errors=(bad(RuntimeError, r"dot.*3.*4", f(3), f(4)),),
    ),
    Op(
        "mv",
        products(((2, 3), (3,)), ((0, 3), (3,))),
        np.matmul,
        **SUMS,
        out=True,
        errors=(bad(RuntimeError, r"mv.*\(2, 3\).*\(4,\)", f(2, 3), f(4)),),
    ),
    Op("outer", products(((2,), (3,)), ((0,), (3,))), np.outer, ulp=0, out=True),
]
