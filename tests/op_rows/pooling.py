"""Pooling."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from op_rows import FLOATS, Bad, Op, Rng, Samples, bad, f
from op_rows.network import nn_op
from sampling import Const, S, Sample, draw
from tinyt.testing.reference import spatial as ref

SIDES = {1: (7,), 2: (6, 5), 3: (4, 3, 5)}


def on_planes(n: int, *kinds: dict[str, Any]) -> Samples:
    """All kinds with a batch, the first without one, with an empty batch, and on larger planes."""

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = [S(draw(rng, (1, 2, *SIDES[n]), dtype), **k) for k in kinds]
        found.append(S(draw(rng, (2, *SIDES[n]), dtype), **kinds[0]))
        found.append(S(draw(rng, (0, 2, *SIDES[n]), dtype), **kinds[0]))
        larger = {1: (1, 3, 70), 2: (1, 2, 9, 35), 3: (1, 1, 4, 5, 18)}[n]
        found += [S(draw(rng, larger, dtype), **k, grad=False) for k in (kinds[0], kinds[-1])]
        return found

    return samples


def window_errors(name: str, n: int) -> tuple[Bad, ...]:
    x = f(1, 1, *[4] * n)
    return (
        bad(RuntimeError, rf"{name}.*padding.*\(2", x, 2, padding=2),
        bad(RuntimeError, rf"{name}.*-1", x, 2, padding=-1),
        bad(RuntimeError, rf"{name}.*\(0", x, 0),
        bad(RuntimeError, rf"{name}.*\(0", x, 2, 0),
        bad(RuntimeError, rf"{name}.*\(5", x, 5),
        bad(RuntimeError, rf"{name}.*\(2, 2, 2, 2\)", x, (2, 2, 2, 2)),
        bad(RuntimeError, rf"{name}.*\(4, 4, 4, 4, 4, 4\)", f(*[4] * 6), 2),
    )


def empty_planes(name: str, n: int, *args: Any) -> Bad:
    return bad(RuntimeError, rf"{name}.*empty.*\(1, 2, 0", f(1, 2, 0, *[3] * (n - 1)), *args)


def size_errors(name: str, n: int) -> tuple[Bad, ...]:
    x = f(1, 1, *[4] * n)
    return (
        bad(RuntimeError, rf"{name}.*\(-1", x, (-1,) * n),
        bad(RuntimeError, rf"{name}.*\(2, 2", x, (2,) * (n + 1)),
        bad(RuntimeError, rf"{name}.*\(4, 4, 4, 4, 4, 4\)", f(*[4] * 6), 2),
        empty_planes(name, n, 2),
    )


def max_rows(n: int) -> list[Op]:
    kinds: list[dict[str, Any]] = [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (3, 2, 1)[:n], "stride": (2, 1, 1)[:n], "padding": (1, 1, 0)[:n]},
        {"kernel_size": 2, "dilation": 2, "stride": 1},
        {"kernel_size": 3, "stride": 2, "ceil_mode": True, "padding": 1},
        {"kernel_size": 2, "return_indices": True},
    ]
    sizes: list[dict[str, Any]] = [
        {"output_size": 3},
        {"output_size": 1},
        {"output_size": (2, 5, 1)[:n]},
        {"output_size": (3, None, 2)[:n], "return_indices": True},
        {"output_size": 2, "return_indices": True},
    ]
    usual, even = f"max_pool{n}d", f"adaptive_max_pool{n}d"
    return [
        nn_op(
            usual,
            on_planes(n, *kinds),
            partial(ref.max_pool, n),
            dtypes=FLOATS if n == 1 else ("float32", "float64", "int64"),
            result="reference",
            errors=(*window_errors(usual, n), empty_planes(usual, n, 2)),
        ),
        nn_op(
            even,
            on_planes(n, *sizes),
            partial(ref.adaptive_max_pool, n),
            result="reference",
            errors=size_errors(even, n),
        ),
    ]


def avg_rows(n: int) -> list[Op]:
    kinds: list[dict[str, Any]] = [
        {"kernel_size": 2},
        {"kernel_size": (3, 2, 1)[:n], "stride": (2, 1, 2)[:n]},
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": 2, "ceil_mode": True, "count_include_pad": False},
    ]
    if n > 1:
        kinds.append({"kernel_size": 2, "divisor_override": 3})
    sizes: list[dict[str, Any]] = [
        {"output_size": 3},
        {"output_size": 1},
        {"output_size": (2, 5, 1)[:n]},
    ]
    if n > 1:
        sizes.append({"output_size": (3, None, 2)[:n]})
    usual, even = f"avg_pool{n}d", f"adaptive_avg_pool{n}d"
    x = f(1, 1, *[4] * n)
    errors = window_errors(usual, n)
    if n > 1:
        errors += (
            bad(RuntimeError, rf"{usual}.*zero", x, 2, divisor_override=0),
            empty_planes(usual, n, 2),
        )
    return [
        nn_op(
            usual,
            on_planes(n, *kinds),
            partial(ref.avg_pool, n),
            ulp=6,
            scale="abs",
            out=n > 1,  # PyTorch's avg_pool1d takes none
            errors=errors,
        ),
        nn_op(
            even,
            on_planes(n, *sizes),
            partial(ref.adaptive_avg_pool, n),
            ulp=6,
            scale="abs",
            errors=(
                *size_errors(even, n),
                bad(RuntimeError, rf"{even}.*int64", x.astype(np.int64), 2),
            ),
        ),
    ]


def lp_rows(n: int) -> list[Op]:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        kinds: list[tuple[Any, ...]] = [(2, 2), (1, 2), (3.0, 3, 2), (float("inf"), 2)]
        return [S(draw(rng, (1, 2, *SIDES[n]), dtype, (0.5, 4)), *k) for k in kinds] + [
            S(draw(rng, (2, *SIDES[n]), dtype, (0.5, 4)), 2, 2)
        ]

    name = f"lp_pool{n}d"
    x = f(1, 1, *[4] * n)
    return [
        nn_op(
            name,
            samples,
            partial(ref.lp_pool, n),
            ulp=16,
            scale=1,
            errors=(
                bad(RuntimeError, rf"{name}.*\(5", x, 2, 5),
                bad(ZeroDivisionError, rf"{name}.*zero", x, 0, 2),
            ),
        )
    ]


def unpool_rows(n: int) -> list[Op]:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = []
        for lead in ((1, 2), (2,)):
            side = (3, 2, 2)[:n]
            for size in (None, tuple(2 * s + 1 for s in side)):
                whole = size or tuple(2 * s for s in side)
                # A different place for every value, as from windows that do not overlap.
                places = [rng.permutation(int(np.prod(whole)))[: int(np.prod(side))] for _ in "ab"]
                index = np.stack(places).reshape(*lead, *side)
                extra = {} if size is None else {"output_size": size}
                x = draw(rng, (*lead, *side), dtype)
                found.append(S(x, Const(index), 2, **extra))
        return found

    name = f"max_unpool{n}d"
    x, index = f(1, 1, *[2] * n), np.zeros((1, 1, *[2] * n), np.int64)
    return [
        nn_op(
            name,
            samples,
            partial(ref.max_unpool, n),
            strided=False,
            errors=(
                bad(RuntimeError, rf"{name}.*999", x, index + 999, 2),
                bad(RuntimeError, rf"{name}.*-1\b", x, index - 1, 2),
                bad(RuntimeError, rf"{name}.*int32", x, index.astype(np.int32), 2),
                bad(RuntimeError, rf"{name}.*int64", x, index[:, :, :1], 2),
                bad(ValueError, rf"{name}.*9", x, index, 2, output_size=(9,) * n),
                bad(ValueError, rf"{name}.*entries", x, index, 2, output_size=(4,) * (n + 1)),
            ),
        )
    ]


POOLING = [
    row for n in (1, 2, 3) for rows in (max_rows, avg_rows, lp_rows, unpool_rows) for row in rows(n)
]
