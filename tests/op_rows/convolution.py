"""Convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import (
    FLOATS,
    Bad,
    Op,
    Rng,
    Samples,
    bad,
    f,
)
from op_rows.contract import SUMS
from sampling import (
    S,
    Sample,
    draw,
)
from tinyt.testing.reference import products as ref


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
            # each channel on its own
            one((2,), 3, 3, groups=3, padding=1),
            one((1,), 2, 4, groups=2, stride=2, padding=1, dilation=2, bias=False),
            # steps that leave elements out
            one((1,), 2, 2, stride=(4, 3, 2)[:n], padding=1),
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
        bad(RuntimeError, r"conv.*bool", x > 0, w > 0),
    )


def transpose_samples(n: int) -> Samples:
    """Transposed convolutions over n spatial dimensions."""
    side = {1: (5,), 2: (3, 4), 3: (2, 3, 2)}[n]
    kernel = {1: (3,), 2: (3, 2), 3: (2, 2, 2)}[n]

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        def one(batch: Any, ins: int, outs: int, *, bias: bool = True, **k: Any) -> Sample:
            x = draw(rng, (*batch, ins, *side), dtype, (-2, 2))
            w = draw(rng, (ins, outs // k.get("groups", 1), *kernel), dtype, (-2, 2))
            extra = (draw(rng, (outs,), dtype),) if bias else ()
            return S(x, w, *extra, **k, grad=x.size < 60)

        return [
            one((2,), 2, 3),
            one((), 2, 2, stride=2),
            one((1,), 1, 2, stride=2, padding=1, output_padding=1, bias=False),
            one((1,), 2, 2, stride=(3, 2, 2)[:n], output_padding=(2, 1, 0)[:n]),
            one((1,), 4, 2, groups=2, stride=2),
            one((1,), 1, 2, dilation=2, output_padding=1),
            one((1,), 1, 2, dilation=3, stride=2, output_padding=2),
            one((1,), 3, 3, groups=3, stride=2, padding=1),
            one((1,), 1, 2, stride=4),
            one((0,), 2, 3),
        ]

    return samples


def transpose_errors(n: int) -> tuple[Bad, ...]:
    x, w = f(1, 4, *[5] * n), f(4, 2, *[3] * n)
    name = f"conv_transpose{n}d"
    return (
        bad(RuntimeError, rf"{name}.*3", x[:, :3], w),
        bad(RuntimeError, rf"{name}.*3 groups", x, w, groups=3),
        bad(RuntimeError, rf"{name}.*output_padding.*2", x, w, stride=2, output_padding=2),
        bad(RuntimeError, rf"{name}.*stride.*0", x, w, stride=0),
        bad(RuntimeError, rf"{name}.*-1", x, w, padding=-1),
        bad(RuntimeError, rf"{name}.*-3", x, w, padding=5),
        bad(RuntimeError, rf"{name}.*\(3,\)", x, w, f(3)),
        bad(RuntimeError, rf"{name}.*(float64|double)", x, w.astype(np.float64)),
        bad(RuntimeError, rf"{name}.*\(4,\)", f(4), w),
        bad(RuntimeError, rf"{name}.*bool", x > 0, w > 0),
    )


CONVOLUTION = [
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
    *(
        Op(
            f"conv_transpose{n}d",
            transpose_samples(n),
            ref.conv_transpose,
            call=f"nn.functional.conv_transpose{n}d",
            dtypes=FLOATS,
            **SUMS,
            method=False,
            errors=transpose_errors(n),
        )
        for n in (1, 2, 3)
    ),
]
