"""Losses, distances and similarities."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import FLOATS, Bad, Op, Rng, Samples, at, b, bad, f, i, quiet
from sampling import Const, S, Sample, Shape, draw
from tinyt.testing.reference import loss as ref

REDUCTIONS = ("mean", "sum", "none")
Domain = tuple[float, float]


def loss(name: str, samples: Samples, *errors: Bad, **facts: Any) -> Op:
    facts = {"ulp": 16, "scale": 4, "call": f"nn.functional.{name}"} | facts
    return Op(
        name,
        samples,
        quiet(getattr(ref, name)),
        dtypes=FLOATS,
        method=False,
        errors=errors,
        **facts,
    )


def complex_input(name: str) -> Bad:
    return bad(RuntimeError, rf"{name}.*complex64", f(2).astype(np.complex64), f(2))


def integer_input(name: str) -> Bad:
    return bad(RuntimeError, rf"{name}.*int64", i(2), i(2))


def wrong_reduction(name: str) -> Bad:
    return bad(ValueError, rf"{name}.*'max'", f(2), f(2), reduction="max")


def pair_samples(
    *variants: dict[str, Any],
    input: Domain = (-4, 4),
    target: Domain = (-4, 4),
    weight: bool = False,
    kind: str = "",
) -> Samples:
    """An input and a target of one shape: every reduction, and each variant of the arguments.

    `kind`: "constant" (a target without a gradient) or "signs" (a target of 1 and -1).
    """

    def pair(rng: Rng, shape: Shape, dtype: str) -> tuple[Any, Any]:
        t = draw(rng, shape, dtype, target)
        if kind == "signs":
            t = np.where(rng.random(shape) < 0.5, 1, -1).astype(dtype)
        return draw(rng, shape, dtype, input), Const(t) if kind else t

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        shapes: tuple[Shape, ...] = ((), (5,), (3, 4), (0, 2))
        found = [S(*pair(rng, shapes[k % 4], dtype), reduction=REDUCTIONS[k % 3]) for k in range(6)]
        found += [S(*pair(rng, (3, 4), dtype), **kwargs) for kwargs in variants]
        if weight:
            w = Const(draw(rng, (3, 4), dtype, (0.2, 2)))
            found += [S(*pair(rng, (3, 4), dtype), weight=w, reduction=r) for r in REDUCTIONS]
        return found

    return samples


def class_samples(probabilities: bool) -> Samples:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        found = []
        for shape in ((5, 4), (2, 4, 3), (2, 3, 2, 2), (4,)):
            classes = shape[1] if len(shape) > 1 else shape[0]
            x = draw(rng, shape, dtype)
            target = np.asarray(at(rng, (shape[0], *shape[2:]) if len(shape) > 1 else (), classes))
            weight = Const(draw(rng, (classes,), dtype, (0.2, 2)))
            found += [S(x, target, reduction=r) for r in ("mean", "sum", "none")]
            found += [S(x, target, weight, reduction=r) for r in ("mean", "none")]
            found.append(S(x, target, weight, ignore_index=int(target.flat[0]), reduction="sum"))
            if probabilities:
                found.append(S(x, target, weight, label_smoothing=0.2))
                p = ref.softmax(draw(rng, shape, "float64"), 1 if len(shape) > 1 else 0)
                found.append(S(x, Const(p.astype(dtype)), weight, label_smoothing=0.1))
        found.append(S(draw(rng, (0, 4), dtype), at(rng, (0,), 4), reduction="sum"))
        return found

    return samples


def class_errors(name: str) -> tuple[Bad, ...]:
    return (
        bad(
            IndexError,
            rf"{name}.*\b4\b.*out of range.*\b4\b",
            f(2, 4),
            i(2) + 4,
        ),
        bad((ValueError, RuntimeError), rf"{name}.*3", f(2, 4), i(3)),
        bad(RuntimeError, rf"{name}.*(float32|Long|int64)", f(2, 4), f(2)),
        bad(ValueError, rf"{name}.*'max'", f(2, 4), i(2), reduction="max"),
    )


def gaussian_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = []
    for shape, var in [((3, 4), (3, 4)), ((3, 4), (3, 1)), ((3, 4), (3,)), ((5,), (5,))]:
        x, t, v = draw(rng, shape, dtype), draw(rng, shape, dtype), draw(rng, var, dtype, (0.5, 2))
        found += [
            S(x, t, v, full=full, reduction=r) for full, r in ((True, "none"), (False, "mean"))
        ]
    found.append(S(x, t, 0.7, reduction="sum"))
    return found


def bce_logits_samples(rng: Rng, dtype: str) -> list[Sample]:
    found = pair_samples(input=(-30, 30), target=(0, 1), weight=True)(rng, dtype)
    pos = Const(draw(rng, (4,), dtype, (0.5, 3)))
    x, t = draw(rng, (3, 4), dtype), draw(rng, (3, 4), dtype, (0, 1))
    return [*found, S(x, t, pos_weight=pos), S(x, t, pos_weight=pos, reduction="none")]


def kl_samples(rng: Rng, dtype: str) -> list[Sample]:
    # With a reduction of its own everywhere: PyTorch warns of "mean".
    found = pair_samples({"reduction": "batchmean"}, input=(-3, 0), target=(0.01, 1))(rng, dtype)
    x, t = draw(rng, (3, 4), dtype, (-3, 0)), draw(rng, (3, 4), dtype, (-3, 0))
    zeros = Const(np.array([0, 0.5, 0, 0.5], dtype))
    return [
        *found,
        S(x, t, log_target=True, reduction="sum"),
        S(x, t, log_target=True, reduction="none"),
        S(x[0], zeros, reduction="sum"),
    ]


def multilabel_samples(rng: Rng, dtype: str) -> list[Sample]:
    lists = np.array([[3, 0, -1, 1], [-1, 2, 1, 0], [0, 1, 2, 3], [2, 2, -1, -1]])
    found = [S(draw(rng, (4, 4), dtype), lists, reduction=r) for r in REDUCTIONS]
    return [*found, S(draw(rng, (4,), dtype), lists[0])]


def multilabel_soft_samples(rng: Rng, dtype: str) -> list[Sample]:
    t = Const((rng.random((3, 4)) < 0.5).astype(dtype))
    w = Const(draw(rng, (4,), dtype, (0.2, 2)))
    found = [S(draw(rng, (3, 4), dtype), t, reduction=r) for r in REDUCTIONS]
    return [*found, S(draw(rng, (3, 4), dtype), t, w)]


def multi_margin_samples(rng: Rng, dtype: str) -> list[Sample]:
    def one(*shape: int, **kwargs: Any) -> Sample:
        return S(draw(rng, shape, dtype), np.asarray(at(rng, shape[:-1], shape[-1])), **kwargs)

    weight = Const(draw(rng, (4,), dtype, (0.2, 2)))
    return [
        *(one(5, 4, reduction=r) for r in REDUCTIONS),
        one(5, 4, p=2, margin=0.5),
        one(5, 4, weight=weight),
        one(5, 4, p=2, weight=weight, reduction="none"),
        one(4),
    ]


def vectors(count: int, *variants: dict[str, Any], shapes: Any = ((4, 3),)) -> Samples:
    """`count` tensors of one shape, with each variant of the arguments."""
    return lambda rng, dt: [
        S(*(draw(rng, s, dt) for _ in range(count)), **kwargs)
        for s in shapes
        for kwargs in ({}, *variants)
    ]


def signed_vectors(*variants: dict[str, Any], rank: int, shapes: Any) -> Samples:
    """Two tensors and 1 or -1 for each vector (rank 1) or element (rank 0) of them."""

    def samples(rng: Rng, dtype: str) -> list[Sample]:
        return [
            S(
                draw(rng, s, dtype),
                draw(rng, s, dtype),
                Const(np.where(rng.random(s[: len(s) - rank]) < 0.5, 1, -1).astype(dtype)),
                **kwargs,
            )
            for s in shapes
            for kwargs in ({}, *variants)
        ]

    return samples


EACH: tuple[dict[str, Any], ...] = tuple({"reduction": r} for r in ("sum", "none"))

LOSSES = [
    loss("cross_entropy", class_samples(True), *class_errors("cross_entropy")),
    loss("nll_loss", class_samples(False), *class_errors("nll_loss")),
    loss(
        "mse_loss",
        pair_samples(weight=True),
        bad(RuntimeError, r"mse_loss.*\(2, 3\).*\(4,\)", f(2, 3), f(4)),
        bad(ValueError, r"mse_loss.*\(3,\).*\(2,\)", f(2), f(2), weight=f(3)),
        complex_input("mse_loss"),
        integer_input("mse_loss"),
        wrong_reduction("mse_loss"),
    ),
    loss("l1_loss", pair_samples(weight=True), wrong_reduction("l1_loss")),
    loss(
        "smooth_l1_loss",
        pair_samples({"beta": 0.5}, {"beta": 0.0, "reduction": "sum"}),
        bad(RuntimeError, r"smooth_l1_loss.*-1", f(2), f(2), beta=-1.0),
        complex_input("smooth_l1_loss"),
        integer_input("smooth_l1_loss"),
        wrong_reduction("smooth_l1_loss"),
    ),
    loss(
        "huber_loss",
        pair_samples({"delta": 0.5}, weight=True),
        bad(RuntimeError, r"huber_loss.*-1", f(2), f(2), delta=-1.0),
        complex_input("huber_loss"),
        integer_input("huber_loss"),
        bad(RuntimeError, r"huber_loss.*int64", i(2), f(2)),
        wrong_reduction("huber_loss"),
    ),
    loss(
        "binary_cross_entropy",
        pair_samples(input=(0.01, 0.99), target=(0, 1), weight=True),
        bad(RuntimeError, r"binary_cross_entropy.*\[1.0, 2.0\]", f(2), f(2)),
        bad(ValueError, r"binary_cross_entropy.*\(3,\).*\(2,\)", f(2), f(3)),
        bad(RuntimeError, r"binary_cross_entropy.*float32.*int64", f(1), i(1)),
        bad(RuntimeError, r"binary_cross_entropy.*float32.*bool", f(1), b(1)),
        integer_input("binary_cross_entropy"),
        wrong_reduction("binary_cross_entropy"),
    ),
    loss(
        "binary_cross_entropy_with_logits",
        bce_logits_samples,
        bad(ValueError, r"binary_cross_entropy_with_logits.*\(3,\).*\(2,\)", f(2), f(3)),
        bad(RuntimeError, r"binary_cross_entropy_with_logits.*int64", f(2), i(2)),
        bad(RuntimeError, r"binary_cross_entropy_with_logits.*bool", f(2), b(2)),
        wrong_reduction("binary_cross_entropy_with_logits"),
    ),
    loss(
        "kl_div",
        kl_samples,
        complex_input("kl_div"),
        integer_input("kl_div"),
        bad(RuntimeError, r"kl_div.*int64", f(2), i(2)),
        wrong_reduction("kl_div"),
    ),
    loss(
        "poisson_nll_loss",
        pair_samples(
            {"full": True, "reduction": "none"},
            {"log_input": False},
            {"log_input": False, "full": True, "eps": 1e-3},
            input=(0.1, 2),
            target=(0, 6),
        ),
        wrong_reduction("poisson_nll_loss"),
    ),
    loss(
        "gaussian_nll_loss",
        gaussian_samples,
        bad(ValueError, r"gaussian_nll_loss.*-2", f(2), f(2), -f(2)),
        bad(ValueError, r"gaussian_nll_loss.*\(3,\).*\(2,\)", f(2), f(2), f(3)),
        bad(ValueError, r"gaussian_nll_loss.*'max'", f(2), f(2), f(2), reduction="max"),
    ),
    loss(
        "hinge_embedding_loss",
        pair_samples({"margin": 2.0}, kind="signs"),
        integer_input("hinge_embedding_loss"),
        wrong_reduction("hinge_embedding_loss"),
    ),
    loss(
        "soft_margin_loss",
        pair_samples(kind="signs"),
        integer_input("soft_margin_loss"),
        bad(RuntimeError, r"soft_margin_loss.*int64", i(2), f(2)),
        wrong_reduction("soft_margin_loss"),
    ),
    loss(
        "multilabel_soft_margin_loss",
        multilabel_soft_samples,
        wrong_reduction("multilabel_soft_margin_loss"),
    ),
    loss(
        "multilabel_margin_loss",
        multilabel_samples,
        bad(RuntimeError, r"multilabel_margin_loss.*\(2, 3\).*\(2,\)", f(2, 3), i(2)),
        bad(RuntimeError, r"multilabel_margin_loss.*float32", f(2, 3), f(2, 3)),
    ),
    loss(
        "multi_margin_loss",
        multi_margin_samples,
        bad(ValueError, r"multi_margin_loss.*3", f(2, 3), i(2), p=3),
        bad(RuntimeError, r"multi_margin_loss.*\(2,\).*\(3,\)", f(2, 3), i(3)),
        bad(RuntimeError, r"multi_margin_loss.*\(3,\).*\(4,\)", f(2, 3), i(2), weight=f(4)),
    ),
    loss(
        "cosine_similarity",
        lambda rng, dt: [
            S(draw(rng, (4, 3), dt), draw(rng, (4, 3), dt)),
            S(draw(rng, (2, 3, 4), dt), draw(rng, (3, 1), dt), dim=0),
            S(draw(rng, (5,), dt), draw(rng, (5,), dt), dim=-1, eps=100.0, grad=False),
        ],
        bad(IndexError, r"cosine_similarity.*2", f(2, 3), f(2, 3), 2),
        bad(RuntimeError, r"cosine_similarity.*int64", i(2, 3), i(2, 3)),
    ),
    loss(
        "pairwise_distance",
        vectors(2, {"p": 1.0}, {"p": 3.0, "keepdim": True}, shapes=((4, 3), (5,), (0, 3))),
        bad(RuntimeError, r"pairwise_distance.*\(2, 3\).*\(4,\)", f(2, 3), f(4)),
    ),
    loss(
        "normalize",
        vectors(1, {"p": 1.0}, {"dim": 0}, {"p": 3.0, "dim": -1}, {"eps": 50.0}),
        bad(IndexError, r"normalize.*2", f(2, 3), dim=2),
        out=True,
    ),
    loss(
        "cosine_embedding_loss",
        signed_vectors(*EACH, {"margin": 0.3}, rank=1, shapes=((4, 3), (3,))),
        bad(RuntimeError, r"cosine_embedding_loss.*\(2, 3\)", f(2, 3), f(2, 3), f(2, 3)),
    ),
    loss(
        "margin_ranking_loss",
        signed_vectors(*EACH, {"margin": 0.7}, rank=0, shapes=((4, 3), (5,))),
        bad(RuntimeError, r"margin_ranking_loss.*\(2, 3\)", f(2, 3), f(2, 3), f(2)),
    ),
    loss(
        "triplet_margin_loss",
        vectors(3, *EACH, {"swap": True}, {"p": 1.0, "margin": 2.0}, shapes=((4, 3), (3,))),
        bad(ValueError, r"triplet_margin_loss.*-1", f(2, 3), f(2, 3), f(2, 3), margin=-1.0),
        bad(RuntimeError, r"triplet_margin_loss.*\(3,\)", f(2, 3), f(2, 3), f(3)),
    ),
    loss(
        "triplet_margin_with_distance_loss",
        vectors(3, *EACH, {"swap": True}),
        bad(
            ValueError,
            r"triplet_margin_with_distance_loss.*-1",
            f(2, 3),
            f(2, 3),
            f(2, 3),
            margin=-1.0,
        ),
    ),
]
