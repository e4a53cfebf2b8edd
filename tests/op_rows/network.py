"""Operations of neural networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

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
    quiet,
)
from sampling import (
    Const,
    S,
    Sample,
    draw,
)
from tinyt.testing.reference import attention, index, loss, norm

F32 = np.float32


def nn_op(name: str, samples: Samples, reference: Callable[..., Any], **facts: Any) -> Op:
    facts = {"dtypes": FLOATS, "method": False, "call": f"nn.functional.{name}"} | facts
    return Op(name, samples, quiet(reference), **facts)


def attention_samples(rng: Rng, dtype: str) -> list[Sample]:
    def one(q: Any, k: Any, v: Any, **kwargs: Any) -> Sample:
        arrays = [draw(rng, s, dtype, (-2, 2)) for s in (q, k, v)]
        return S(*arrays, **kwargs, grad=max(a.size for a in arrays) < 100)

    mask = draw(rng, (3, 4), "bool") | np.eye(3, 4, dtype=bool)
    unseen = np.array([[True, False, True, True], [False] * 4, [False, True, False, False]])
    masked = np.where(unseen, 0.5, -np.inf).astype(dtype)
    return [
        one((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 3)),
        one((2, 3, 4), (2, 4, 4), (2, 4, 4)),
        one((1, 2, 4, 2), (1, 2, 4, 2), (1, 2, 4, 2), is_causal=True),
        one((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2), attn_mask=mask),
        one((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 2), attn_mask=Const(draw(rng, (3, 4), dtype))),
        one((1, 1, 3, 4), (1, 1, 4, 4), (1, 1, 4, 2), scale=0.3),
        one((1, 4, 2, 3), (1, 2, 3, 3), (1, 2, 3, 2), enable_gqa=True),
        one((4, 3, 2), (1, 3, 2), (2, 3, 2), enable_gqa=True, is_causal=True),
        one((2, 4, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2), enable_gqa=True, attn_mask=mask),
        one((2, 3, 4), (2, 4, 4), (2, 4, 4), attn_mask=unseen),
        one(
            (2, 3, 4),
            (2, 4, 4),
            (2, 4, 4),
            attn_mask=Const(masked),
        ),
        one((2, 3, 4), (2, 4, 4), (2, 4, 4), attn_mask=draw(rng, (2, 1, 4), dtype)),
        one((1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 4), attn_mask=mask, is_causal=True),
        one(
            (2, 4, 3, 2),
            (2, 2, 4, 2),
            (2, 2, 4, 2),
            enable_gqa=True,
            attn_mask=unseen,
            is_causal=True,
        ),
        one((2, 0, 4), (2, 3, 4), (2, 3, 4)),
        one((2, 2, 4), (2, 0, 4), (2, 0, 3)),
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


def rms_samples(rng: Rng, dtype: str) -> list[Sample]:
    """eps as a power of two: the same in both dtypes, unlike the default."""
    return [
        S(
            draw(rng, s, dtype),
            n,
            *(draw(rng, n, dtype) for _ in range(affine)),
            eps=2.0**-10,
            grad=np.prod(s) < 99,
        )
        for s, n in [((2, 5), (5,)), ((2, 3, 4), (3, 4)), ((0, 4), (4,)), ((9, 300), (300,))]
        for affine in (0, 1)
    ]


def group_samples(rng: Rng, dtype: str) -> list[Sample]:
    return [
        S(
            draw(rng, s, dtype),
            groups,
            *(draw(rng, s[1:2], dtype) for _ in range(affine)),
            grad=np.prod(s) < 99,
        )
        for s, groups in [
            ((2, 4, 3), 2),
            ((3, 4), 1),
            ((1, 6, 2, 2), 3),
            ((0, 4, 3), 2),
            ((2, 8, 9, 11), 4),
        ]
        for affine in (0, 2)
    ]


def instance_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for shape in ((2, 3, 4), (1, 2, 3, 2)):
        c = shape[1]
        affine = {"weight": draw(rng, (c,), dtype), "bias": draw(rng, (c,), dtype)}
        stats = (Const(draw(rng, (c,), dtype)), Const(draw(rng, (c,), dtype, (0.5, 2))))
        found.append(S(draw(rng, shape, dtype)))
        found.append(S(draw(rng, shape, dtype), **affine, eps=1e-3))
        found.append(S(draw(rng, shape, dtype), *stats, **affine, use_input_stats=False))
    return found


def bag_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for mode in ("mean", "sum", "max"):
        table = draw(rng, (6, 3), dtype)
        starts = np.array([0, 2, 2, 5])
        found.append(S(at(rng, (2, 4), 6), table, mode=mode))
        found.append(S(at(rng, (7,), 6), table, starts, mode=mode))
        ends = np.array([0, 3, 7])
        found.append(S(at(rng, (7,), 6), table, ends, mode=mode, include_last_offset=True))
        found.append(S(at(rng, (7,), 4), table, starts, mode=mode, padding_idx=1, grad=False))
        found.append(S(at(rng, (0,), 6), table, at(rng, (2,), 1), mode=mode))
    weights = draw(rng, (7,), dtype)
    found.append(S(at(rng, (7,), 6), table, starts, mode="sum", per_sample_weights=weights))
    return found


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

DROPOUT: dict[str, tuple[tuple[int, ...], ...]] = {
    "dropout": ((4, 5), (), (0,)),
    "alpha_dropout": ((4, 5), (), (0,)),
    "feature_alpha_dropout": ((2, 3), (2, 3, 2)),
    "dropout1d": ((2, 3), (2, 3, 4)),
    "dropout2d": ((2, 3, 2, 2), (1, 2, 0, 2)),
    "dropout3d": ((2, 3, 2, 2), (2, 3, 2, 1, 2)),
}

NETWORKS = [
    nn_op(
        "softmax",
        lambda rng, dt: (
            [S(draw(rng, s, dt), d) for s, d in SOFT] + [S(draw(rng, (9, 3000), dt), 1, grad=False)]
        ),
        loss.softmax,
        ulp=12,
        errors=dim_errors("softmax"),
    ),
    nn_op(
        "log_softmax",
        lambda rng, dt: (
            [S(draw(rng, s, dt), d) for s, d in SOFT] + [S(draw(rng, (9, 3000), dt), 1, grad=False)]
        ),
        loss.log_softmax,
        ulp=6,
        scale=4,
        errors=dim_errors("log_softmax"),
    ),
    nn_op(
        "layer_norm",
        norm_samples,
        norm.layer_norm,
        ulp=16,
        scale=4,
        errors=(
            bad(RuntimeError, r"layer_norm.*\(4,\).*\(2, 3\)", f(2, 3), (4,)),
            bad(RuntimeError, r"layer_norm.*\(2,\)", f(2, 3), (3,), f(2)),
            bad(RuntimeError, r"layer_norm.*\(\)", f(2, 3), ()),
            bad(RuntimeError, r"layer_norm.*int64", i(2, 3), (3,)),
        ),
    ),
    nn_op(
        "rms_norm",
        rms_samples,
        norm.rms_norm,
        ulp=16,
        scale=4,
        errors=(
            bad(RuntimeError, r"rms_norm.*\(4,\).*\(2, 3\)", f(2, 3), (4,)),
            bad(RuntimeError, r"rms_norm.*\(2,\)", f(2, 3), (3,), f(2)),
            bad(RuntimeError, r"rms_norm.*int64", i(2, 3), (3,)),
        ),
    ),
    nn_op(
        "group_norm",
        group_samples,
        norm.group_norm,
        ulp=16,
        scale=8,
        errors=(
            bad(RuntimeError, r"group_norm.*\(2, 4, 3\).*3", f(2, 4, 3), 3),
            bad(RuntimeError, r"group_norm.*\(3,\)", f(3), 1),
            bad(RuntimeError, r"group_norm.*\(3,\)", f(2, 4, 3), 2, f(3)),
            bad(ValueError, r"group_norm.*more than 1.*\(1, 2\)", f(1, 2), 2),
        ),
    ),
    nn_op(
        "instance_norm",
        instance_samples,
        norm.instance_norm,
        ulp=16,
        scale=8,
        errors=(
            bad(ValueError, r"instance_norm.*\(2, 4, 1\)", f(2, 4, 1)),
            bad(RuntimeError, r"instance_norm.*4.*3", f(2, 4, 3), f(3), f(3)),
            bad(RuntimeError, r"instance_norm.*4.*3", f(2, 4, 3), weight=f(3)),
            bad(RuntimeError, r"instance_norm.*running", f(2, 4, 3), use_input_stats=False),
        ),
    ),
    nn_op(
        "batch_norm",
        batch_samples,
        norm.batch_norm,
        ulp=16,
        scale=8,
        errors=(
            bad(RuntimeError, r"batch_norm.*\b4\b", f(2, 3), f(4), f(4)),
            bad(RuntimeError, r"batch_norm.*3.*4", f(2, 3), None, None, f(4), training=True),
            bad(RuntimeError, r"batch_norm.*running", f(2, 3), None, None),
            bad(IndexError, r"batch_norm.*\(3,\)", f(3), None, None, training=True),
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
    *(
        nn_op(
            name,
            lambda rng, dt, shapes=shapes: [
                S(draw(rng, s, dt), p, t)
                for s in shapes
                for p, t in ((0.0, True), (1.0, True), (0.5, False))
            ],
            lambda x, p, training: np.where(training and p == 1, 0.0, x),
            ulp=1,  # no care for the sign of zero
            errors=(
                bad(ValueError, rf"{name}.*1\.5", f(*shapes[0]), 1.5),
                bad(ValueError, rf"{name}.*-0\.1", f(*shapes[0]), -0.1),
            ),
        )
        for name, shapes in DROPOUT.items()
    ),
    nn_op(
        "embedding",
        lambda rng, dt: [
            *(S(at(rng, s, 6), draw(rng, (6, 3), dt)) for s in ((), (4,), (2, 3), (0,))),
            # The part of the gradient that an option drops is not in finite differences.
            S(at(rng, (2, 3), 6), draw(rng, (6, 3), dt), -2, grad=False),
            S(at(rng, (5,), 3), draw(rng, (6, 3), dt), scale_grad_by_freq=True, grad=False),
        ],
        lambda index, weight, *args, **kwargs: weight[index],
        result="reference",
        errors=(
            bad(IndexError, r"embedding.*9.*6", i(2) + 9, f(6, 3)),
            bad((RuntimeError, TypeError), r"embedding.*float32", f(2), f(6, 3)),
        ),
    ),
    nn_op(
        "embedding_bag",
        bag_samples,
        index.embedding_bag,
        result="reference",
        ulp=8,
        scale=8,
        errors=(
            bad((IndexError, RuntimeError), r"embedding_bag.*9.*6", i(2, 2) + 9, f(6, 3)),
            bad(ValueError, r"embedding_bag.*\(1,\)", i(1, 2), f(6, 3), i(1)),
            bad(ValueError, r"embedding_bag.*None", i(2), f(6, 3)),
            bad(ValueError, r"embedding_bag.*\(1, 1\)", i(2), f(6, 3), i(1, 1)),
            bad(ValueError, r"embedding_bag.*'top'", i(2), f(6, 3), i(1), mode="top"),
            bad(
                ValueError,
                r"embedding_bag.*\(2,\).*\(3,\)",
                i(2),
                f(6, 3),
                i(1),
                mode="sum",
                per_sample_weights=f(3),
            ),
            bad(
                NotImplementedError,
                r"embedding_bag.*'mean'",
                i(2),
                f(6, 3),
                i(1),
                per_sample_weights=f(2),
            ),
            bad(RuntimeError, r"embedding_bag.*float32", f(2), f(6, 3), i(1)),
            *(
                bad(
                    RuntimeError,
                    r"embedding_bag.*offsets must start at 0",
                    i(3),
                    f(6, 3),
                    np.array(starts),
                    mode="sum",
                    include_last_offset=last,
                )
                for last in (False, True)
                for starts in ([1, 2], [-1, 2], [0, 4], [0, 2, 1], [2], [0, 2, 1, 3])
            ),
        ),
    ),
    nn_op(
        "scaled_dot_product_attention",
        attention_samples,
        attention.scaled_dot_product_attention,
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
                RuntimeError,
                r"scaled_dot_product_attention.*\(4, 3, 2\).*\(3, 3, 2\)",
                f(4, 3, 2),
                f(3, 3, 2),
                f(3, 3, 2),
                enable_gqa=True,
            ),
            bad(
                RuntimeError,
                r"scaled_dot_product_attention.*int64",
                f(3, 2),
                f(3, 2),
                f(3, 2),
                attn_mask=i(3, 3),
            ),
            bad(
                RuntimeError,
                r"scaled_dot_product_attention.*\(2,\)",
                f(2),
                f(3, 2),
                f(3, 2),
            ),
        ),
    ),
]
