"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

import references as ref
from op_rows import (
    FLOATS,
    Bad,
    Op,
    Rng,
    Samples,
    bad,
    f,
)
from sampling import (
    S,
    Sample,
    draw,
)


def products(*pairs: Any, domain: tuple[float, float] = (-2, 2)) -> Samples:
    """Rows of shapes, one tensor each; big ones are forward only."""
    return lambda rng, dt: [
        S(*(draw(rng, s, dt, domain) for s in shapes), grad=max(np.prod(s) for s in shapes) < 100)
        for shapes in pairs
    ]


SUMS: dict[str, Any] = {"ulp": 8, "scale": "abs"}


def conv_samples(n: int) -> Samples:
    """Convolutions over n spatial dimensions, by the rows below; sides shrink as n grows."""
    side = {1: (9,), 2: (6, 5), 3: (4, 3, 3)}[n]
    kernel = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}[n]

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        def one(
            batch: Any, ins: int, outs: int, groups: int = 1, bias: bool = True, **k: Any
        ) -> Sample:
            x = draw(rng, (*batch, ins, *side), dtype, (-2, 2))
            w = draw(rng, (outs, ins // groups, *kernel), dtype, (-2, 2))
            extra = (draw(rng, (outs,), dtype),) if bias else ()
            return S(x, w, *extra, groups=groups, **k, grad=x.size < 120)

        return [
            one((2,), 2, 3),
            one((1,), 1, 1, bias=False),
            one((), 2, 2),
            one((1,), 2, 2, padding=1),
            one((2,), 1, 2, stride=2, padding=1),
            one((1,), 2, 4, groups=2),
            one((1,), 1, 2, padding=1, dilation=2),
            one((0,), 2, 3),
            one((1,), 2, 2, padding="same"),
            one((1,), 1, 2, padding="valid"),
            one((3,), 4, 6, groups=2, stride=2, padding=2),
        ]

    return samples


def conv_errors(n: int) -> tuple[Bad, ...]:
    x, w = f(1, 4, *[5] * n), f(2, 4, *[3] * n)
    return (
        bad(RuntimeError, r"conv.*3", x[:, :3], w),
        bad(RuntimeError, r"conv.*3", x, f(3, 2, *[3] * n), None, groups=2),
        bad(RuntimeError, r"conv.*7", x, f(2, 4, *[7] * n)),
        bad(RuntimeError, r"conv.*0", x, w, None, 0),
        bad(RuntimeError, r"conv.*-1", x, w, None, 1, -1),
        bad(RuntimeError, r"conv.*3", x, w, f(3)),
        bad(RuntimeError, r"conv.*(float64|double)", x, w.astype(np.float64)),
        bad(RuntimeError, r"conv", f(4), w),
    )


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
        errors=(
            bad(RuntimeError, r"(mm|matmul).*\(2, 3\).*\(4, 5\)", f(2, 3), f(4, 5)),
            bad(RuntimeError, r"mm.*\(1, 2, 3\)", f(1, 2, 3), f(3, 2)),
        ),
    ),
    Op(
        "bmm",
        products(((2, 2, 3), (2, 3, 4)), ((0, 2, 3), (0, 3, 4)), ((1, 1, 1), (1, 1, 1))),
        np.matmul,
        **SUMS,
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
        ),
        ref.linear,
        call="nn.functional.linear",
        dtypes=FLOATS,
        **SUMS,
        method=False,
        errors=(
            bad(RuntimeError, r"linear.*\(2, 3\).*\(4, 5\)", f(2, 3), f(4, 5)),
            bad(RuntimeError, r"linear.*\(5,\)", f(2, 3), f(4, 3), f(5)),
        ),
    ),
    *(
        Op(
            f"conv{n}d",
            conv_samples(n),
            ref.conv,
            call=f"nn.functional.conv{n}d",
            dtypes=FLOATS,
            **SUMS,
            method=False,
            errors=conv_errors(n),
        )
        for n in (1, 2, 3)
    ),
    Op(
        "dot",
        products(((4,), (4,)), ((0,), (0,)), ((700,), (700,))),
        np.dot,
        **SUMS,
        errors=(bad(RuntimeError, r"dot.*3.*4", f(3), f(4)),),
    ),
    Op(
        "mv",
        products(((2, 3), (3,)), ((0, 3), (3,))),
        np.matmul,
        **SUMS,
        errors=(bad(RuntimeError, r"mv.*\(2, 3\).*\(4,\)", f(2, 3), f(4)),),
    ),
    Op("outer", products(((2,), (3,)), ((0,), (3,))), np.outer, ulp=0),
    Op(
        "addmm",
        lambda rng, dt: [
            S(draw(rng, s, dt), draw(rng, (2, 3), dt), draw(rng, (3, 4), dt), **k)
            for s in ((4,), (2, 4), (1, 1))
            for k in ({}, {"beta": 2, "alpha": 3})
        ],
        lambda x, a, b, beta=1, alpha=1: beta * x + alpha * (a @ b),
        ulp=8,
        scale=40,
    ),
]
