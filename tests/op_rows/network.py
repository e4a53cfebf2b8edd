"""Operations of neural networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import references as ref
from op_rows import (
    FLOATS,
    Op,
    Rng,
    Samples,
    at,
    bad,
    dim_errors,
    f,
    i,
)
from sampling import (
    Const,
    S,
    Sample,
    draw,
)

F32 = np.float32


def nn_op(name: str, samples: Samples, reference: Callable[..., Any], **facts: Any) -> Op:
    facts = {"dtypes": FLOATS, "method": False, "call": f"nn.functional.{name}"} | facts
    return Op(name, samples, ref.quiet(reference), **facts)


def attention_samples(rng: Rng, dtype: str) -> list[Sample]:
    def one(q: Any, k: Any, v: Any, **kwargs: Any) -> Sample:
        arrays = [draw(rng, s, dtype, (-2, 2)) for s in (q, k, v)]
        return S(*arrays, **kwargs, grad=max(a.size for a in arrays) < 100)

    mask = draw(rng, (3, 4), "bool") | np.eye(3, 4, dtype=bool)
    return [
        one((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)),
        one((2, 3, 4), (2, 4, 4), (2, 4, 4)),
        one((1, 2, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2), is_causal=True),
        one((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2), attn_mask=mask),
        one((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2), attn_mask=Const(draw(rng, (3, 4), dtype))),
        one((1, 1, 3, 4), (1, 1, 4, 4), (1, 1, 4, 2), scale=0.3),
        one((2, 2, 70, 16), (2, 2, 90, 16), (2, 2, 90, 16)),
        one((2, 2, 70, 16), (2, 2, 70, 16), (2, 2, 70, 16), is_causal=True),
    ]


def norm_samples(rng: Rng, dtype: str) -> list[Sample]:
    return [
        S(
            draw(rng, s, dtype),
            n,
            *(draw(rng, n, dtype) for _ in range(affine)),
            grad=np.prod(s) < 99,
        )
        for s, n in [
            ((2, 5), (5,)),
            ((2, 3, 4), (3, 4)),
            ((6,), (6,)),
            ((0, 4), (4,)),
            ((9, 300), (300,)),
        ]
        for affine in (0, 1, 2)
    ]


def batch_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for shape in ((4, 3), (3, 2, 4), (2, 3, 2, 2), (20, 3, 9, 9)):
        c, small = shape[1], np.prod(shape) < 99
        affine = (draw(rng, (c,), dtype), draw(rng, (c,), dtype))
        stats = (Const(draw(rng, (c,), dtype)), Const(draw(rng, (c,), dtype, (0.5, 2))))
        found.append(S(draw(rng, shape, dtype), None, None, *affine, training=True, grad=small))
        found.append(S(draw(rng, shape, dtype), None, None, training=True, eps=1e-3, grad=small))
        found.append(S(draw(rng, shape, dtype), *stats, *affine, grad=small))
    return found


SOFT: list[tuple[tuple[int, ...], int]] = [
    ((5,), 0),
    ((3, 7), 1),
    ((7, 3), 0),
    ((2, 3, 4), 1),
    ((), 0),
    ((0, 3), 1),
    ((3, 0), 1),
    ((1, 1), -1),
]

NETWORKS = [
    nn_op(
        "softmax",
        lambda rng, dt: (
            [S(draw(rng, s, dt), d) for s, d in SOFT] + [S(draw(rng, (9, 3000), dt), 1, grad=False)]
        ),
        ref.softmax,
        ulp=12,
        errors=dim_errors("softmax"),
    ),
    nn_op(
        "log_softmax",
        lambda rng, dt: (
            [S(draw(rng, s, dt), d) for s, d in SOFT] + [S(draw(rng, (9, 3000), dt), 1, grad=False)]
        ),
        ref.log_softmax,
        ulp=6,
        scale=4,
        errors=dim_errors("log_softmax"),
    ),
    nn_op(
        "layer_norm",
        norm_samples,
        ref.layer_norm,
        ulp=16,
        scale=4,
        errors=(
            bad(RuntimeError, r"layer_norm.*\(4,\).*\(2, 3\)", f(2, 3), (4,)),
            bad(RuntimeError, r"layer_norm.*\(2,\)", f(2, 3), (3,), f(2)),
        ),
    ),
    nn_op(
        "batch_norm",
        batch_samples,
        ref.batch_norm,
        ulp=16,
        scale=8,
        errors=(
            bad(RuntimeError, r"batch_norm.*\b4\b", f(2, 3), f(4), f(4)),
            bad(
                ValueError,
                r"batch_norm.*\(1, 3\)",
                f(1, 3),
                None,
                None,
                training=True,
            ),
        ),
    ),
    nn_op(
        "dropout",
        lambda rng, dt: [
            S(draw(rng, s, dt), p, t)
            for s in ((), (0,), (4, 5))
            for p, t in ((0.0, True), (1.0, True), (0.5, False))
        ],
        lambda x, p, training: np.where(training and p == 1, 0.0, x),
        ulp=1,  # no care for the sign of zero
        errors=(
            bad(ValueError, r"dropout.*1\.5", f(2), 1.5),
            bad(ValueError, r"dropout.*-0\.1", f(2), -0.1),
        ),
    ),
    nn_op(
        "embedding",
        lambda rng, dt: [S(at(rng, s, 6), draw(rng, (6, 3), dt)) for s in ((), (4,), (2, 3), (0,))],
        ref.embedding,
        result="reference",
        errors=(
            bad(IndexError, r"embedding.*9.*6", i(2) + 9, f(6, 3)),
            bad((RuntimeError, TypeError), r"embedding.*float32", f(2), f(6, 3)),
        ),
    ),
    nn_op(
        "scaled_dot_product_attention",
        attention_samples,
        ref.attention,
        ulp=16,
        scale=4,
        grad2=True,
        errors=(
            bad(
                RuntimeError,
                r"scaled_dot_product_attention.*4.*5",
                f(1, 3, 4),
                f(1, 3, 5),
                f(1, 3, 5),
            ),
            bad(
                (RuntimeError, ValueError),
                r"scaled_dot_product_attention.*(mask|causal)",
                f(1, 3, 4),
                f(1, 3, 4),
                f(1, 3, 4),
                attn_mask=np.ones((3, 3), bool),
                is_causal=True,
            ),
        ),
    ),
]
