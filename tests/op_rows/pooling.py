"""Pooling."""

from __future__ import annotations

from typing import Any

import spatial_references as ref
from op_rows import Rng, bad, f
from op_rows.network import nn_op
from sampling import S, Sample, draw


def pool_samples(rng: Rng, dtype: str) -> list[Sample]:
    shapes = ((1, 2, 6, 5), (2, 6, 5), (0, 2, 6, 5))
    kinds: list[dict[str, Any]] = [
        {"kernel_size": 2},
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1},
        {"kernel_size": 2, "dilation": 2, "stride": 1},
        {"kernel_size": 3, "ceil_mode": True},
        {"kernel_size": 2, "return_indices": True},
    ]
    return [S(draw(rng, s, dtype), **k) for s in shapes for k in kinds]


POOLING = [
    nn_op(
        "max_pool2d",
        pool_samples,
        ref.max_pool2d,
        result="reference",
        errors=(
            bad(RuntimeError, r"max_pool.*2", f(1, 1, 4, 4), 2, padding=2),
            bad(RuntimeError, r"max_pool.*0", f(1, 1, 4, 4), 0),
            bad(RuntimeError, r"max_pool.*5", f(1, 1, 4, 4), 5),
            bad(RuntimeError, r"max_pool.*\(4,\)", f(4), 2),
        ),
    ),
    nn_op(
        "max_pool1d",
        lambda rng, dt: [
            S(draw(rng, s, dt), 2, **k)
            for s in ((2, 3, 7), (3, 7))
            for k in ({}, {"stride": 1}, {"padding": 1})
        ],
        ref.max_pool1d,
    ),
    nn_op(
        "max_pool3d",
        lambda rng, dt: [S(draw(rng, (1, 2, 4, 4, 4), dt), 2)],
        lambda x, k: x.reshape(1, 2, 2, 2, 2, 2, 2, 2).max(axis=(3, 5, 7)),
    ),
]
