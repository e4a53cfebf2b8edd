"""Reductions."""

from __future__ import annotations

from typing import Any

import numpy as np

from op_rows import (
    ALL,
    FLOATS,
    NUMBERS,
    Bad,
    Op,
    Rng,
    Samples,
    b,
    bad,
    cases,
    dim_errors,
    f,
    floats_only,
    i,
    quiet,
)
from sampling import (
    BIG,
    Const,
    S,
    Sample,
    draw,
)
from tinyt.testing.reference import reduce as ref

REDUCE_DIMS: list[tuple[tuple[int, ...], Any]] = [
    ((), None),
    ((5,), None),
    ((5,), 0),
    ((1, 1), 1),
    ((67,), 0),
    ((3, 40), 1),
    ((40, 3), 0),
    ((2, 3, 4), 1),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), -1),
    ((2, 3, 4), None),
    ((2, 3, 4), (0, 1, 2)),
]
EMPTY_DIMS: list[tuple[tuple[int, ...], Any]] = [((0,), None), ((2, 0, 3), 1), ((2, 0, 3), 0)]


def reduce_samples(
    *,
    empty: bool = True,
    several: bool = True,
    domain: tuple[float, float] = (-4, 4),
    **kwargs: Any,
) -> Samples:
    def samples(rng: Rng, dtype: str) -> list[Sample]:
        cases = REDUCE_DIMS + (EMPTY_DIMS if empty else [((2, 0, 3), 2)] if several else [])
        found = [
            S(draw(rng, BIG, dtype, domain), grad=False, **kwargs),
            S(draw(rng, (300, 41), dtype, domain), 0, grad=False, **kwargs),
            S(draw(rng, (41, 300), dtype, domain), 1, grad=False, **kwargs),
        ]
        for shape, dim in cases:
            x = draw(rng, shape, dtype, domain)
            if dim is None:
                found.append(S(x, **kwargs))
            elif several or isinstance(dim, int):
                found += [S(x, dim, keepdim=keep, **kwargs) for keep in (False, True)]
        return found

    return samples


def twice(name: str) -> Bad:
    return bad(RuntimeError, rf"{name}.*dim.*1", f(2, 3), (1, -1))


def empty_error(name: str, kind: type[Exception]) -> Bad:
    return bad(kind, rf"{name}", f(2, 0), 1)


REDUCE = [
    Op(
        "sum",
        reduce_samples(),
        quiet(ref.reduction(np.sum)),
        dtypes=(*ALL, "int32", "uint8"),
        result="sum",
        ulp=4,
        scale="abs",
        out=True,
        errors=(*dim_errors("sum"), twice("sum")),
    ),
    Op(
        "mean",
        reduce_samples(empty=False),
        quiet(ref.reduction(np.mean)),
        dtypes=FLOATS,
        ulp=4,
        scale="abs",
        out=True,
        errors=(*dim_errors("mean"), floats_only("mean")),
    ),
    Op(
        "prod",
        reduce_samples(several=False, domain=(-1.2, 1.2)),
        quiet(ref.reduction(np.prod)),
        dtypes=(*ALL, "int32", "uint8"),
        result="sum",
        ulp=80,
        out=True,
        errors=dim_errors("prod"),
    ),
    Op(
        "max",
        reduce_samples(empty=False, several=False),
        ref.extreme(np.max, np.argmax),
        dtypes=ALL,
        result="reference",
        errors=(
            *dim_errors("max"),
            bad(RuntimeError, r"max.*\(0,\)", f(0)),
            empty_error("max", IndexError),
        ),
    ),
    Op(
        "min",
        reduce_samples(empty=False, several=False),
        ref.extreme(np.min, np.argmin),
        dtypes=ALL,
        result="reference",
        errors=(
            *dim_errors("min"),
            bad(RuntimeError, r"min.*\(0,\)", f(0)),
            empty_error("min", IndexError),
        ),
    ),
    Op(
        "amax",
        reduce_samples(empty=False),
        quiet(ref.reduction(np.max)),
        dtypes=(*ALL, "int32", "uint8"),
        out=True,
        errors=(*dim_errors("amax"), twice("amax"), empty_error("amax", IndexError)),
    ),
    Op(
        "amin",
        reduce_samples(empty=False),
        quiet(ref.reduction(np.min)),
        dtypes=(*ALL, "int32", "uint8"),
        out=True,
        errors=(*dim_errors("amin"), twice("amin"), empty_error("amin", IndexError)),
    ),
    Op(
        "argmax",
        reduce_samples(empty=False, several=False),
        ref.index_of(np.argmax),
        result="int64",
        grad=False,
        out=True,
        errors=(
            *dim_errors("argmax"),
            empty_error("argmax", IndexError),
            bad(IndexError, r"argmax.*\(0,\)", f(0)),
        ),
    ),
    Op(
        "argmin",
        reduce_samples(empty=False, several=False),
        ref.index_of(np.argmin),
        result="int64",
        grad=False,
        out=True,
        errors=(
            *dim_errors("argmin"),
            empty_error("argmin", IndexError),
            bad(IndexError, r"argmin.*\(0,\)", f(0)),
        ),
    ),
    Op(
        "var",
        lambda rng, dt: [s for c in (0, 1) for s in spread(rng, dt, c)],
        quiet(ref.var),
        dtypes=FLOATS,
        ulp=8,
        scale=4,
        out=True,
        errors=(*dim_errors("var"), floats_only("var")),
    ),
    Op(
        "std",
        lambda rng, dt: spread(rng, dt, 1),
        quiet(ref.std),
        dtypes=FLOATS,
        ulp=8,
        scale=4,
        out=True,
        errors=(*dim_errors("std"), floats_only("std")),
    ),
    Op(
        "all",
        reduce_samples(),
        quiet(ref.reduction(np.all)),
        dtypes=ALL,
        result="bool",
        grad=False,
        out=True,
        errors=dim_errors("all"),
    ),
    Op(
        "any",
        reduce_samples(),
        quiet(ref.reduction(np.any)),
        dtypes=ALL,
        result="bool",
        grad=False,
        out=True,
        errors=dim_errors("any"),
    ),
    Op(
        "count_nonzero",
        cases(((4, 5),), ((4, 5), 1), ((2, 3, 4), (0, 2)), ((0,),), ((),)),
        lambda x, dim=None: np.asarray(np.count_nonzero(x, axis=dim)).astype(np.int64),
        dtypes=ALL,
        result="int64",
        grad=False,
    ),
    Op(
        "logsumexp",
        cases(((5,), 0), ((3, 7), 1), ((2, 3, 4), (0, 2)), ((7, 3), -2), ((4, 2), 1, True)),
        quiet(ref.logsumexp),
        dtypes=(*FLOATS, "int64"),
        result="float",
        ulp=8,
        out=True,
        scale=4,
        errors=(
            bad(RuntimeError, r"logsumexp.*\(2, 3\)", f(2, 3), ()),
            bad(TypeError, r"logsumexp.*None", f(2, 3), None),
        ),
    ),
    Op(
        "norm",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt)),
            S(draw(rng, (67,), dt), 2),
            S(draw(rng, (4, 5), dt), 1, 1),
            S(draw(rng, (4, 5), dt), 3, (0,)),
            S(draw(rng, (4, 5), dt), "fro", -1),
            S(draw(rng, (4, 5), dt), np.inf, 1),
            S(draw(rng, (4, 5), dt), 0.5, 0),
            S(draw(rng, (4, 5), dt), 0, 0),
            S(draw(rng, (2, 3, 4), dt), 2, (0, 2), True),
            S(np.zeros((2, 3), dt), 2, 1, grad=False),
        ],
        ref.norm,
        dtypes=FLOATS,
        ulp=16,
        errors=(
            bad(IndexError, r"norm.*2\b", f(2, 3), 2, 2),
            bad(RuntimeError, r"norm.*int64", i(3)),
        ),
    ),
    Op(
        "dist",
        lambda rng, dt: [
            S(draw(rng, a, dt), draw(rng, b, dt), *p)
            for a, b, *p in [
                ((5,), (5,)),
                ((3, 4), (4,), 1),
                ((3, 4), (3, 1), 3),
                ((2,), (), np.inf),
            ]
        ],
        lambda x, y, p=2: ref.norm(x - y, p),
        dtypes=FLOATS,
        ulp=16,
        errors=(bad(RuntimeError, r"\(3,\).*\(2,\)", f(3), f(2)),),
    ),
    Op(
        "renorm",
        lambda rng, dt: [
            S(draw(rng, (4, 5), dt), 2, 0, 3.0),
            S(draw(rng, (4, 5), dt), 1, 1, 6.0),
            S(draw(rng, (2, 3, 4), dt), 3, -2, 5.0),
        ],
        ref.renorm,
        dtypes=FLOATS,
        ulp=16,
        scale=1,
        inplace=True,
        out=True,
        errors=(
            bad(RuntimeError, r"renorm.*\(3,\)", f(3), 2, 0, 1.0),
            bad(RuntimeError, r"renorm.*-1", f(3, 3), 2, 0, -1.0),
            bad(IndexError, r"renorm.*2", f(3, 3), 2, 2, 1.0),
        ),
    ),
    Op(
        "trace",
        cases(((3, 3),), ((2, 4),), ((4, 2),), ((0, 3),)),
        lambda x: np.asarray(np.trace(x)),
        dtypes=NUMBERS,
        result="sum",
        ulp=4,
        scale=8,
        errors=(bad(RuntimeError, r"trace.*\(3,\)", f(3)), bad(RuntimeError, r"trace", b(2, 2))),
    ),
    Op(
        "nansum",
        lambda rng, dt: with_nan(reduce_samples()(rng, dt)),
        quiet(ref.nansum),
        dtypes=ALL,
        result="sum",
        ulp=4,
        scale=lambda x, *rest, **kwargs: np.sum(np.abs(np.nan_to_num(x.astype(np.float64)))),
        errors=(*dim_errors("nansum"), twice("nansum")),
    ),
    Op(
        "nanmean",
        lambda rng, dt: with_nan(reduce_samples(empty=False)(rng, dt)),
        quiet(ref.nanmean),
        dtypes=FLOATS,
        ulp=4,
        scale=8,
        out=True,
        errors=(*dim_errors("nanmean"), floats_only("nanmean")),
    ),
    Op(
        "aminmax",
        lambda rng, dt: [
            S(s.args[0], **({"dim": s.args[1]} if s.args[1:] else {}), **s.kwargs, grad=s.grad)
            for s in reduce_samples(empty=False, several=False)(rng, dt)
        ],
        ref.aminmax,
        dtypes=ALL,
        errors=(
            bad(IndexError, r"amin.*2\b", f(2, 3), dim=2),
            bad(RuntimeError, r"aminmax.*\(0,\)", f(0)),
            bad(IndexError, r"amin.*\(2, 0\)", f(2, 0), dim=1),
        ),
    ),
    Op(
        "cov",
        lambda rng, dt: [
            S(draw(rng, (3, 6), dt)),
            S(draw(rng, (6,), dt), correction=0),
            S(draw(rng, (3, 4), dt), fweights=np.array([1, 2, 1, 3])),
            S(draw(rng, (3, 4), dt), aweights=Const(np.array([0.5, 2, 1, 3], dt))),
            S(
                draw(rng, (2, 4), dt),
                fweights=np.array([1, 2, 1, 3]),
                aweights=Const(np.array([0.5, 2, 1, 3], dt)),
                correction=0,
            ),
        ],
        lambda x, correction=1, **weights: np.cov(x, ddof=correction, **weights),
        dtypes=FLOATS,
        ulp=16,
        scale=16,
        strided=False,
        errors=(
            bad(RuntimeError, r"cov.*\(2, 2, 2\)", f(2, 2, 2)),
            bad(RuntimeError, r"cov.*fweights.*3.*\(2,\)", f(2, 3), fweights=i(2)),
            bad(RuntimeError, r"cov.*fweights.*float32", f(2, 3), fweights=f(3)),
        ),
    ),
    Op(
        "corrcoef",
        cases(((3, 6),), ((2, 4),)),
        lambda x: np.corrcoef(x),
        dtypes=FLOATS,
        ulp=16,
        scale=4,
        errors=(bad(RuntimeError, r"corrcoef.*\(2, 2, 2\)", f(2, 2, 2)),),
    ),
    Op(
        "std_mean",
        lambda rng, dt: spread(rng, dt, 1),
        quiet(
            lambda x, dim, correction, keepdim: (
                ref.std(x, dim, correction=correction, keepdim=keepdim),
                np.mean(x, axis=dim, keepdims=keepdim),
            )
        ),
        dtypes=FLOATS,
        ulp=8,
        scale=4,
        method=False,
        errors=(*dim_errors("std_mean"), floats_only("std_mean")),
    ),
    Op(
        "var_mean",
        lambda rng, dt: spread(rng, dt, 1),
        quiet(
            lambda x, dim, correction, keepdim: (
                ref.var(x, dim, correction=correction, keepdim=keepdim),
                np.mean(x, axis=dim, keepdims=keepdim),
            )
        ),
        dtypes=FLOATS,
        ulp=8,
        scale=4,
        method=False,
    ),
]


def with_nan(samples: list[Sample]) -> list[Sample]:
    """The same with NaN at some places, differentiable nowhere near them."""
    odd = []
    for s in samples[:6]:
        x = s.args[0].copy()
        if x.dtype.kind == "f" and x.ndim:
            x.reshape(-1)[1::7] = np.nan
        odd.append(S(x, *s.args[1:], **s.kwargs, grad=False))
    return odd + samples[6:]


def spread(rng: Rng, dtype: str, correction: int) -> list[Sample]:
    """For var and std: several elements in every group."""
    return [
        S(
            draw(rng, shape, dtype),
            dim,
            correction=correction,
            keepdim=keep,
            grad=np.prod(shape) < 99,
        )
        for shape, dim in [
            ((5,), None),
            ((5,), 0),
            ((2, 3, 4), (0, 2)),
            ((3, 7), 1),
            ((7, 3), 0),
            ((67,), None),
            (BIG, None),
            ((300, 41), 0),
            ((0, 4), 1),
        ]
        for keep in (False, True)
    ]
